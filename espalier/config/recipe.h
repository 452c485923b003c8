// Recipe: a strict reader of a training run's TOML file. Every table belongs to a struct of its
// owner, described by one function that both reading and writing use:
//
//   struct DataConfig { std::string source = "text"; int64_t seq_len = 128; };
//   template <class V>
//   void bind(V& v, DataConfig& c) {      // found by argument-dependent look-up
//     v("source", c.source, one_of({"text", "tokens"}));
//     v("seq_len", c.seq_len, at_least(1));
//     v.sub_table("cache", c.cache);      // a struct with a bind() of its own: [data.cache]
//   }
//
//   ESPALIER_ASSIGN(Recipe recipe, Recipe::load("run.toml", {"data.seq_len=64"}));
//   DataConfig data;
//   ESPALIER_TRY(read_table(recipe, "data", data));
//   ...                                   // every table that a recipe may have
//   ESPALIER_TRY(recipe.finish());
//   RecipeWriter writer;
//   writer.table("data", data);
//   write_file("config.toml", writer.text());
//
// A key that the recipe does not give keeps the value that the struct had. Field types: see
// fields.h. Every failure is kInvalidArgument (a missing file kNotFound) and names file, line,
// column and key. Nothing here is thread-safe.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/base/error.h"
#include "espalier/config/fields.h"
#include "espalier/config/value.h"

namespace espalier {

class Recipe {
 public:
  // Reads a recipe and applies "table.key=VALUE" overrides in turn (see apply_override).
  static Result<Recipe> load(const std::filesystem::path& path,
                             const std::vector<std::string>& overrides = {});
  // The same from text; `name` stands for the file in messages.
  static Result<Recipe> parse(std::string_view text, const std::string& name,
                              const std::vector<std::string>& overrides = {});

  const std::string& name() const { return name_; }
  // A table by its name, one inside another as "logging.wandb"; null when the recipe has none. The
  // names of tables that are read hold no dots themselves.
  const Value* table(std::string_view table_name) const;

  // Fails when a top-level name is no table that was read, or a table has a key that nothing
  // bound. Call it once every table has been read.
  Status finish() const;

  // What reading uses: the keys bound so far in each table.
  void add_known(std::string_view table_name, std::string_view key);
  // Fails when a table, or one bound inside it, has a key that was not bound, naming the nearest
  // that was.
  Status check_keys(std::string_view table_name) const;
  // Notes a table as known; fails when the recipe has something else under its name.
  Status open_table(std::string_view table_name);

 private:
  std::vector<std::string>& known_keys(std::string_view table_name);
  const Value* find(std::string_view table_name) const;  // whatever stands under the name
  std::string name_;
  Value document_;
  std::vector<std::pair<std::string, std::vector<std::string>>> known_;  // table -> its keys
};

// The visitor that bind() is called with to fill a struct; the first failure stays.
class FieldReader {
 public:
  FieldReader(Recipe& recipe, std::string_view table_name)
      : recipe_(recipe), table_name_(table_name), table_(recipe.table(table_name)) {}

  template <class T, class... Checks>
  void operator()(std::string_view key, T& field, const Checks&... checks) {
    recipe_.add_known(table_name_, key);
    const Value* value = table_ == nullptr ? nullptr : table_->find(key);
    if (value == nullptr) {
      if ((false || ... || checks.required)) fail_missing(key);
      return;
    }
    T parsed{};
    if (!read_field(*value, parsed)) return fail_type(key, *value, field_type(&field));
    (check(key, *value, checks), ...);
    field = std::move(parsed);
  }

  // A struct under a key: a table inside this one. Its bind() may nest further.
  template <class T>
  void sub_table(std::string_view key, T& nested) {
    recipe_.add_known(table_name_, key);
    const std::string name = table_name_ + "." + std::string(key);
    keep(recipe_.open_table(name));
    FieldReader reader(recipe_, name);
    bind(reader, nested);
    keep(reader.status());
  }

  const Status& status() const { return status_; }

 private:
  void keep(const Status& status) {
    if (status_.ok()) status_ = status;
  }
  void fail(std::string message);
  void fail_missing(std::string_view key);
  void fail_type(std::string_view key, const Value& value, const std::string& expected);
  void check(std::string_view key, const Value& value, const Check& check);

  Recipe& recipe_;
  std::string table_name_;
  const Value* table_;
  Status status_;
};

// Fills structs that together describe some of a table's keys; other keys are not looked at.
template <class... T>
Status read_part(Recipe& recipe, std::string_view table_name, T&... structs) {
  ESPALIER_TRY(recipe.open_table(table_name));
  FieldReader reader(recipe, table_name);
  (bind(reader, structs), ...);
  return reader.status();
}

// Fills structs that describe (with earlier read_part calls) all of a table's keys: a key that none
// of them binds is a failure, told before any other. A table that the recipe lacks changes nothing.
template <class... T>
Status read_table(Recipe& recipe, std::string_view table_name, T&... structs) {
  const Status read = read_part(recipe, table_name, structs...);
  ESPALIER_TRY(recipe.check_keys(table_name));
  return read;
}

// Writes structs as a recipe: every key with its value, in the order of the bind() functions. What
// text() gives, Recipe::parse and read_table turn into equal structs. An unset optional is a
// comment.
class RecipeWriter {
 public:
  // Appends a table. A key that two structs bind is written once, from the first.
  template <class... T>
  void table(std::string_view table_name, const T&... structs) {
    begin_table(table_name);
    (write_struct(structs), ...);
    end_table();
  }
  std::string text() const;

  // Called by bind().
  template <class T, class... Checks>
  void operator()(std::string_view key, const T& field, const Checks&...) {
    add(key, write_field(field));
  }
  template <class T>
  void sub_table(std::string_view key, const T& nested) {
    if (!keys_.emplace(key).second) return;
    RecipeWriter inner;
    inner.table(name_ + "." + std::string(key), nested);
    sub_tables_ += inner.text_;
  }

 private:
  template <class T>
  void write_struct(T copy) {  // bind() takes a reference that can be written to
    bind(*this, copy);
  }
  void begin_table(std::string_view table_name);
  void end_table();
  void add(std::string_view key, Written written);

  std::string text_, name_, lines_, sub_tables_;
  std::set<std::string, std::less<>> keys_;
};

}  // namespace espalier
