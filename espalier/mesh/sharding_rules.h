// ShardingRules: from a model's logical axis names ("embed", "vocab") to mesh axes, with
// parameter-name patterns that override them. A model names logical axes only, so it runs on any
// mesh without an edit.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/mesh/mesh.h"

namespace espalier {

// One name per dim; "" is a dim that is never split, "a|b" is an `a` where the rules name that,
// else a `b`.
using LogicalAxes = std::vector<std::string>;

// The shape of an array beside the one that checkpoints have: for each dim there the first dim here
// that it stands for, which goes up to the next one's. Empty: they are the same.
struct StoredShape {
  std::vector<size_t> first;
  Dims dims;  // of the array
};

struct ShardingRules {
  // Logical axis to mesh axes, major first. A logical axis without a rule is not split.
  std::map<std::string, std::vector<std::string>> axes;
  // Patterns over parameter names with '*' for any run of characters; the first that matches wins.
  std::vector<std::pair<std::string, PartitionSpec>> params;

  // Spec of an array with these logical axes on a mesh. A mesh axis already used by an earlier dim
  // is skipped, since one axis can split one dim only. Throws Error when a rule names an axis that
  // the mesh lacks.
  PartitionSpec resolve(const LogicalAxes& logical, const Mesh& mesh) const;
  // As resolve, with the patterns tried first. A pattern's spec must have one entry per dim and
  // name each axis once: it is written for these very dims, so a repeat is a mistake. Where
  // checkpoints have another shape, it may have one entry for each dim of that instead, which goes
  // to the first of the dims it stands for that its axes divide.
  PartitionSpec resolve_param(std::string_view name, const LogicalAxes& logical, const Mesh& mesh,
                              const StoredShape& stored = {}) const;
  // Mesh axes of a size above 1 that no rule and no pattern names: they would split nothing.
  std::vector<std::string> unused_axes(const Mesh& mesh) const;
  // Patterns that match none of these names (usually a misspelling).
  std::vector<std::string> unmatched(const std::vector<std::string>& names) const;
  // Where there are patterns: those of these names that none matches, numbers between dots written
  // as '*', each once, in the order given.
  std::vector<std::string> left_to_rules(const std::vector<std::string>& names) const;
};

// '*' matches any run of characters, also an empty one; the rest is literal.
bool pattern_matches(std::string_view pattern, std::string_view text);

}  // namespace espalier
