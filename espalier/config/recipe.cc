#include "espalier/config/recipe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "espalier/base/file.h"

namespace espalier {
namespace {

Failure invalid(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

std::string full_key(std::string_view table_name, std::string_view key) {
  return std::string(table_name) + "." + key_toml(key);
}

// "logging" of "logging.wandb"; "" of a top-level table.
std::string_view parent_of(std::string_view table_name) {
  const size_t dot = table_name.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : table_name.substr(0, dot);
}

}  // namespace

Result<Recipe> Recipe::load(const std::filesystem::path& path,
                            const std::vector<std::string>& overrides) {
  ESPALIER_ASSIGN(const std::string text, read_file(path));
  return parse(text, path.string(), overrides);
}

Result<Recipe> Recipe::parse(std::string_view text, const std::string& name,
                             const std::vector<std::string>& overrides) {
  Recipe recipe;
  recipe.name_ = name;
  ESPALIER_ASSIGN(recipe.document_, parse_toml(text, name));
  for (const std::string& argument : overrides) {
    ESPALIER_TRY(apply_override(recipe.document_, argument));
  }
  return recipe;
}

const Value* Recipe::table(std::string_view table_name) const {
  const Value* value = find(table_name);
  return value != nullptr && value->is_table() ? value : nullptr;
}

const Value* Recipe::find(std::string_view table_name) const {
  const std::string_view parent = parent_of(table_name);
  if (parent.empty()) return document_.find(table_name);
  const Value* outer = find(parent);
  return outer == nullptr ? nullptr : outer->find(table_name.substr(parent.size() + 1));
}

std::vector<std::string>& Recipe::known_keys(std::string_view table_name) {
  for (auto& [name, keys] : known_) {
    if (name == table_name) return keys;
  }
  return known_.emplace_back(table_name, std::vector<std::string>{}).second;
}

void Recipe::add_known(std::string_view table_name, std::string_view key) {
  auto& keys = known_keys(table_name);
  if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.emplace_back(key);
}

Status Recipe::open_table(std::string_view table_name) {
  known_keys(table_name);
  const Value* value = find(table_name);
  if (value == nullptr || value->is_table()) return {};
  return invalid(fmt::format("{}: '{}' must be a table, found {}; write its keys under [{}]",
                             value->place.text(), table_name, value->description(), table_name));
}

Status Recipe::check_keys(std::string_view table_name) const {
  const Value* value = table(table_name);
  if (value == nullptr) return {};
  std::vector<std::string> known;
  for (const auto& [name, keys] : known_) {
    if (name == table_name) known = keys;
  }
  for (const Entry& entry : std::get<Value::Table>(value->data)) {
    if (std::find(known.begin(), known.end(), entry.key) != known.end()) continue;
    const std::string where =
        fmt::format("{}: unknown key '{}'", entry.place.text(), full_key(table_name, entry.key));
    if (known.empty()) return invalid(where + "; this table takes no keys: remove it");
    for (const auto& [name, keys] : known_) {
      if (name != table_name && std::find(keys.begin(), keys.end(), entry.key) != keys.end()) {
        return invalid(fmt::format("{}; did you mean '{}'? The nearest in [{}] is '{}'", where,
                                   full_key(name, entry.key), table_name,
                                   nearest_name(entry.key, known)));
      }
    }
    return invalid(fmt::format("{}; did you mean '{}'? [{}] takes: {}", where,
                               full_key(table_name, nearest_name(entry.key, known)), table_name,
                               fmt::join(known, ", ")));
  }
  for (const auto& [name, keys] : known_) {
    if (parent_of(name) == table_name) ESPALIER_TRY(check_keys(name));
  }
  return {};
}

Status Recipe::finish() const {
  std::vector<std::string> names;
  for (const auto& [name, keys] : known_) {
    if (parent_of(name).empty()) names.push_back(name);
  }
  for (const Entry& entry : std::get<Value::Table>(document_.data)) {
    if (std::find(names.begin(), names.end(), entry.key) != names.end()) {
      ESPALIER_TRY(check_keys(entry.key));
      continue;
    }
    const std::string place = entry.place.text();
    const char* kind = entry.value.is_table() ? "table" : "key";
    for (const auto& [name, keys] : known_) {
      if (std::find(keys.begin(), keys.end(), entry.key) != keys.end()) {
        return invalid(fmt::format("{}: unknown {} '{}' outside any table; did you mean '{}'?",
                                   place, kind, entry.key, full_key(name, entry.key)));
      }
    }
    return invalid(fmt::format(
        "{}: unknown {} '{}'; did you mean '{}'? A recipe has the tables: "
        "{}",
        place, kind, entry.key, nearest_name(entry.key, names), fmt::join(names, ", ")));
  }
  return {};
}

void FieldReader::fail(std::string message) {
  if (status_.ok()) status_ = invalid(std::move(message));
}

void FieldReader::fail_missing(std::string_view key) {
  const std::string place = table_ == nullptr ? recipe_.name() : table_->place.text();
  fail(fmt::format("{}: '{}' is missing; write '{} = ...' under [{}], or --set {}=...", place,
                   full_key(table_name_, key), key_toml(key), table_name_,
                   full_key(table_name_, key)));
}

void FieldReader::fail_type(std::string_view key, const Value& value, const std::string& expected) {
  fail(fmt::format("{}: '{}' must be {}, found {}", value.place.text(), full_key(table_name_, key),
                   expected, value.description()));
}

void FieldReader::check(std::string_view key, const Value& value, const Check& check) {
  if (!check.problem) return;
  const std::string requirement = check.problem(value);
  if (requirement.empty()) return;
  fail(fmt::format("{}: '{}' must be {}, found {}", value.place.text(), full_key(table_name_, key),
                   requirement, value.description()));
}

void RecipeWriter::begin_table(std::string_view table_name) {
  name_ = table_name;
  lines_.clear();
  sub_tables_.clear();
  keys_.clear();
}

void RecipeWriter::add(std::string_view key, Written written) {
  if (!keys_.emplace(key).second) return;
  if (written.is_table) {
    sub_tables_ += fmt::format("\n[{}.{}]\n{}", name_, key_toml(key), *written.text);
  } else if (written.text) {
    lines_ += fmt::format("{} = {}\n", key_toml(key), *written.text);
  } else {
    lines_ += fmt::format("# {} is not set\n", key_toml(key));
  }
}

void RecipeWriter::end_table() { text_ += fmt::format("\n[{}]\n{}{}", name_, lines_, sub_tables_); }

std::string RecipeWriter::text() const {
  return "# The recipe of a run with every key resolved; it can be run again as it is.\n" + text_;
}

}  // namespace espalier
