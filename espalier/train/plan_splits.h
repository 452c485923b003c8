// How the values of a step are split over a mesh, and what an op must move for that.
//
// A small likeness of what XLA's partitioners do (Shardy's propagation: openxla/shardy,
// docs/propagation.md; GSPMD: Xu et al. 2021): splits go from the arguments, the results and each
// shard() along the factors of the ops, those that only pass elements on first; a mesh axis splits
// one dim of a value. An op runs with its results' splits: an operand that is split otherwise is
// gathered first, and sums over split dims are added up between devices.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "espalier/mesh/sharding_rules.h"
#include "espalier/train/plan_graph.h"

namespace espalier::planning {

using AxisSet = uint32_t;  // bit i: axis i of the mesh

class Splits {
 public:
  // `in` and `out`: of the function's parameters and results; an absent one is left open. The
  // graph and the mesh must outlive this. Throws Error where a rule names an axis that the mesh has
  // not, or the mesh has more than 32 axes.
  Splits(const Graph& graph, const Mesh& mesh, const ShardingRules& rules,
         const std::vector<PartitionSpec>& in,
         const std::vector<std::optional<PartitionSpec>>& out);

  AxisSet axes(int value, int dim) const { return axes_[first(value) + static_cast<size_t>(dim)]; }
  AxisSet all_axes(int value) const;
  AxisSet bits(const std::vector<std::string>& names) const;  // those of size 1 left out
  int64_t devices(AxisSet axes) const;                        // product of their sizes
  // Bytes of one device's piece; with `whole`, of a piece that is not split along those axes.
  double bytes(int value, AxisSet whole = 0) const;
  double elements(int value, AxisSet whole = 0) const;

 private:
  size_t first(int value) const { return first_[static_cast<size_t>(value)]; }
  int rank(int value) const;
  void fix(int value, const PartitionSpec& spec);
  void fix_constraints(const Body& body, const ShardingRules& rules, AxisSet manual);
  void propagate();
  bool spread(const Factor& factor);

  const Graph& graph_;
  const Mesh& mesh_;
  std::vector<size_t> first_;  // of a value's dims in axes_
  std::vector<AxisSet> axes_;
  std::vector<bool> fixed_;  // values whose split was given
  std::vector<const Factor*> factors_;
};

// What an op does to run split.
struct Gather {
  int value = 0;
  AxisSet axes = 0;    // that the copy is not split by
  bool moved = false;  // to another dim: an all-to-all, the copy is as small as the value
};
struct Partition {
  std::vector<Gather> gathers;
  // Of results that are sums of parts on devices along these axes: those by which the result is
  // split (reduce-scatter) and the others (all-reduce).
  AxisSet scattered = 0, reduced = 0;
  double flops = 0;  // of a device, of a matrix product or attention's kernel
};
Partition partition(const Graph& graph, const Splits& splits, const Op& op);

}  // namespace espalier::planning
