// How each C++ type of a recipe's field is read from a Value and written as TOML, and the checks
// that a bind() function can put on a field.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/config/value.h"

namespace espalier {

// Maps, in the order in which the recipe writes the keys. A map that a recipe gives replaces the
// default as a whole.
//   mesh.axes = {batch = 4, model = 2}
using NamedInts = std::vector<std::pair<std::string, int64_t>>;
//   [sharding.rules]  batch = "data"  embed = ["fsdp"]  seq = []   ("" is [] too)
using NamedLists = std::vector<std::pair<std::string, std::vector<std::string>>>;
//   [sharding.params]  "*.wq.weight" = ["tp", ["fsdp", "dp"], ""]
// One list of names for each item: a text is a list of one, "" an empty list.
using NamedSpecs = std::vector<std::pair<std::string, std::vector<std::vector<std::string>>>>;

// read_field: sets `out` from `value` and returns true; on a wrong type returns false and leaves
// `out` in any valid state.
bool read_field(const Value& value, bool& out);
bool read_field(const Value& value, int64_t& out);
bool read_field(const Value& value, uint64_t& out);  // a negative integer is a wrong type
bool read_field(const Value& value, double& out);    // integers too
bool read_field(const Value& value, std::string& out);
bool read_field(const Value& value, std::vector<int64_t>& out);
bool read_field(const Value& value, std::vector<double>& out);
bool read_field(const Value& value, std::vector<std::string>& out);
bool read_field(const Value& value, NamedInts& out);
bool read_field(const Value& value, NamedLists& out);
bool read_field(const Value& value, NamedSpecs& out);
template <class T>
bool read_field(const Value& value, std::optional<T>& out) {
  return read_field(value, out.emplace());
}

// field_type: "an integer", "a list of texts", ...: what messages say was expected.
std::string field_type(const bool*);
std::string field_type(const int64_t*);
std::string field_type(const uint64_t*);
std::string field_type(const double*);
std::string field_type(const std::string*);
std::string field_type(const std::vector<int64_t>*);
std::string field_type(const std::vector<double>*);
std::string field_type(const std::vector<std::string>*);
std::string field_type(const NamedInts*);
std::string field_type(const NamedLists*);
std::string field_type(const NamedSpecs*);
template <class T>
std::string field_type(const std::optional<T>*) {
  return field_type(static_cast<const T*>(nullptr));
}

// How a field stands in a written recipe: "key = text", or with `is_table` a sub-table whose lines
// are `text`. An unset optional has no text.
struct Written {
  std::optional<std::string> text;
  bool is_table = false;
};
// Doubles come back bit for bit. Throws Error for an unsigned value that TOML cannot hold (over
// 2^63 - 1).
Written write_field(bool value);
Written write_field(int64_t value);
Written write_field(uint64_t value);
Written write_field(double value);
Written write_field(const std::string& value);
Written write_field(const std::vector<int64_t>& value);
Written write_field(const std::vector<double>& value);
Written write_field(const std::vector<std::string>& value);
Written write_field(const NamedInts& value);   // an inline table
Written write_field(const NamedLists& value);  // a sub-table
Written write_field(const NamedSpecs& value);  // a sub-table
template <class T>
Written write_field(const std::optional<T>& value) {
  return value ? write_field(*value) : Written{};
}

// A check on a value that the recipe gives (defaults are not checked). For a list or a map it
// applies to each item.
struct Check {
  // "" when fine; else the requirement, e.g. "at least 1". Empty for required().
  std::function<std::string(const Value&)> problem;
  bool required = false;
};
Check at_least(double minimum);
Check at_most(double maximum);
Check greater_than(double bound);
Check less_than(double bound);
Check between(double minimum, double maximum);  // both included
Check one_of(std::vector<std::string> names);
Check not_empty();  // a text, list or map with something in it
Check required();   // the recipe must give the key

// The name with the least edit distance (insertions, deletions, substitutions and swaps of
// neighbours) to `name`; the first of equals, "" of none.
std::string nearest_name(std::string_view name, const std::vector<std::string>& names);

}  // namespace espalier
