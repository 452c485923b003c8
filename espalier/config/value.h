// Value: one value of a recipe, with the place that it was written at. Tables keep the order in
// which their keys were written.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "espalier/base/error.h"

namespace espalier {

// Where a key or value was written: a line and column of a file (both from 1), or an override of
// the command line (line 0; `source` is then the whole "--set key=value").
struct Place {
  std::string source;
  uint32_t line = 0;
  uint32_t column = 0;
  // "recipe.toml:3:5" or "--set data.seq_len=0"
  std::string text() const;
};

struct Entry;

struct Value {
  using Array = std::vector<Value>;
  using Table = std::vector<Entry>;
  std::variant<bool, int64_t, double, std::string, Array, Table> data = false;
  Place place;

  template <class T>
  const T* get_if() const {
    return std::get_if<T>(&data);
  }
  bool is_table() const { return get_if<Table>() != nullptr; }
  // The value under a key; null when this is no table or has no such key.
  const Value* find(std::string_view key) const;
  // What messages say was found: 'the text "abc"', "the integer 3", "the list [1, 2]", "true".
  std::string description() const;
};

struct Entry {
  std::string key;
  Place place;  // of the key
  Value value;
};

// Parses a TOML document into a table; `source` names it in messages. A mistake in the text is
// kInvalidArgument "source:line:column: what"; so are dates and times, which no recipe uses.
Result<Value> parse_toml(std::string_view text, const std::string& source);

// Applies one `--set` argument, "table.key=VALUE", to a document. VALUE is TOML; text that is not,
// and does not begin like a quoted text, list or table, counts as a string. Missing tables are
// made; an existing value, whole tables included, is replaced.
Status apply_override(Value& document, std::string_view argument);

// A string as TOML writes it: quoted, with escapes.
std::string quote_toml(std::string_view text);
// A key as TOML writes it: bare where that is allowed.
std::string key_toml(std::string_view key);

}  // namespace espalier
