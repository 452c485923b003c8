#include "espalier/config/fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace espalier {
namespace {

template <class T>
bool read_list(const Value& value, std::vector<T>& out) {
  const auto* list = value.get_if<Value::Array>();
  if (list == nullptr) return false;
  out.clear();
  for (const Value& item : *list) {
    if (!read_field(item, out.emplace_back())) return false;
  }
  return true;
}

template <class T, class ReadItem>
bool read_map(const Value& value, std::vector<std::pair<std::string, T>>& out, ReadItem read) {
  const auto* table = value.get_if<Value::Table>();
  if (table == nullptr) return false;
  out.clear();
  for (const Entry& entry : *table) {
    if (!read(entry.value, out.emplace_back(entry.key, T{}).second)) return false;
  }
  return true;
}

// A text is a list of one, "" an empty list.
bool read_names(const Value& value, std::vector<std::string>& out) {
  if (const auto* text = value.get_if<std::string>()) {
    out.clear();
    if (!text->empty()) out.push_back(*text);
    return true;
  }
  return read_list(value, out);
}

template <class T>
std::string list_text(const std::vector<T>& items) {
  std::vector<std::string> texts;
  for (const T& item : items) texts.push_back(*write_field(item).text);
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

// A spec's item: one name as a text, none as "".
std::string names_text(const std::vector<std::string>& names) {
  if (names.empty()) return "\"\"";
  return names.size() == 1 ? quote_toml(names[0]) : list_text(names);
}

double as_number(const Value& value) {
  if (const auto* integer = value.get_if<int64_t>()) return static_cast<double>(*integer);
  if (const auto* number = value.get_if<double>()) return *number;
  return std::numeric_limits<double>::quiet_NaN();
}

// Applies a test to a scalar, or to every scalar in a list or map.
bool all_of(const Value& value, const std::function<bool(const Value&)>& test) {
  if (const auto* list = value.get_if<Value::Array>()) {
    return std::all_of(list->begin(), list->end(),
                       [&](const Value& item) { return all_of(item, test); });
  }
  if (const auto* table = value.get_if<Value::Table>()) {
    return std::all_of(table->begin(), table->end(),
                       [&](const Entry& entry) { return all_of(entry.value, test); });
  }
  return test(value);
}

Check number_check(std::string requirement, std::function<bool(double)> test) {
  return {[requirement = std::move(requirement), test = std::move(test)](const Value& value) {
            const bool fine = all_of(value, [&](const Value& v) { return test(as_number(v)); });
            return fine ? std::string() : requirement;
          },
          false};
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

bool read_field(const Value& value, bool& out) {
  const auto* flag = value.get_if<bool>();
  if (flag != nullptr) out = *flag;
  return flag != nullptr;
}

bool read_field(const Value& value, int64_t& out) {
  const auto* integer = value.get_if<int64_t>();
  if (integer != nullptr) out = *integer;
  return integer != nullptr;
}

bool read_field(const Value& value, uint64_t& out) {
  const auto* integer = value.get_if<int64_t>();
  if (integer == nullptr || *integer < 0) return false;
  out = static_cast<uint64_t>(*integer);
  return true;
}

bool read_field(const Value& value, double& out) {
  if (!value.get_if<int64_t>() && !value.get_if<double>()) return false;
  out = as_number(value);
  return true;
}

bool read_field(const Value& value, std::string& out) {
  const auto* text = value.get_if<std::string>();
  if (text != nullptr) out = *text;
  return text != nullptr;
}

bool read_field(const Value& value, std::vector<int64_t>& out) { return read_list(value, out); }
bool read_field(const Value& value, std::vector<double>& out) { return read_list(value, out); }
bool read_field(const Value& value, std::vector<std::string>& out) { return read_list(value, out); }

bool read_field(const Value& value, NamedInts& out) {
  return read_map(value, out, [](const Value& v, int64_t& item) { return read_field(v, item); });
}

bool read_field(const Value& value, NamedLists& out) { return read_map(value, out, read_names); }

bool read_field(const Value& value, NamedSpecs& out) {
  return read_map(value, out, [](const Value& v, std::vector<std::vector<std::string>>& spec) {
    const auto* list = v.get_if<Value::Array>();
    if (list == nullptr) return false;
    return std::all_of(list->begin(), list->end(),
                       [&](const Value& item) { return read_names(item, spec.emplace_back()); });
  });
}

std::string field_type(const bool*) { return "true or false"; }
std::string field_type(const int64_t*) { return "an integer"; }
std::string field_type(const uint64_t*) { return "an integer of at least 0"; }
std::string field_type(const double*) { return "a number"; }
std::string field_type(const std::string*) { return "a text in quotes"; }
std::string field_type(const std::vector<int64_t>*) { return "a list of integers"; }
std::string field_type(const std::vector<double>*) { return "a list of numbers"; }
std::string field_type(const std::vector<std::string>*) { return "a list of texts"; }
std::string field_type(const NamedInts*) { return "a table of names with integers"; }
std::string field_type(const NamedLists*) {
  return "a table of names, each with a text or a list of texts";
}
std::string field_type(const NamedSpecs*) {
  return "a table of patterns, each with a list whose items are texts or lists of texts";
}

Written write_field(bool value) { return {value ? "true" : "false"}; }
Written write_field(int64_t value) { return {fmt::format("{}", value)}; }

Written write_field(uint64_t value) {
  if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    throw Error(
        fmt::format("[config] {} is over 2^63 - 1 and cannot be written to a recipe; "
                    "choose a smaller number",
                    value));
  }
  return {fmt::format("{}", value)};
}

Written write_field(double value) {
  if (std::isnan(value)) return {"nan"};
  std::string text = fmt::format("{}", value);
  // Without a point or an exponent TOML would read an integer.
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return {text};
}

Written write_field(const std::string& value) { return {quote_toml(value)}; }
Written write_field(const std::vector<int64_t>& value) { return {list_text(value)}; }
Written write_field(const std::vector<double>& value) { return {list_text(value)}; }
Written write_field(const std::vector<std::string>& value) { return {list_text(value)}; }

Written write_field(const NamedInts& value) {
  std::vector<std::string> items;
  for (const auto& [name, number] : value) {
    items.push_back(fmt::format("{} = {}", key_toml(name), number));
  }
  return {fmt::format("{{{}}}", fmt::join(items, ", "))};
}

Written write_field(const NamedLists& value) {
  std::string lines;
  for (const auto& [name, list] : value) {
    lines += fmt::format("{} = {}\n", key_toml(name), list_text(list));
  }
  return {lines, true};
}

Written write_field(const NamedSpecs& value) {
  std::string lines;
  for (const auto& [pattern, spec] : value) {
    std::vector<std::string> items;
    for (const auto& names : spec) items.push_back(names_text(names));
    lines += fmt::format("{} = [{}]\n", key_toml(pattern), fmt::join(items, ", "));
  }
  return {lines, true};
}

Check at_least(double minimum) {
  return number_check(fmt::format("at least {}", minimum), [=](double v) { return v >= minimum; });
}

Check at_most(double maximum) {
  return number_check(fmt::format("at most {}", maximum), [=](double v) { return v <= maximum; });
}

Check greater_than(double bound) {
  return number_check(fmt::format("greater than {}", bound), [=](double v) { return v > bound; });
}

Check less_than(double bound) {
  return number_check(fmt::format("less than {}", bound), [=](double v) { return v < bound; });
}

Check between(double minimum, double maximum) {
  return number_check(fmt::format("between {} and {}", minimum, maximum),
                      [=](double v) { return v >= minimum && v <= maximum; });
}

Check one_of(std::vector<std::string> names) {
  return {[names = std::move(names)](const Value& value) -> std::string {
            std::string wrong;
            const bool fine = all_of(value, [&](const Value& v) {
              const auto* text = v.get_if<std::string>();
              const bool known =
                  text != nullptr && std::find(names.begin(), names.end(), *text) != names.end();
              if (!known && text != nullptr) wrong = *text;
              return known;
            });
            if (fine) return "";
            return fmt::format("one of {} (nearest: \"{}\")", list_text(names),
                               nearest_name(wrong, names));
          },
          false};
}

Check not_empty() {
  return {[](const Value& value) -> std::string {
            const auto* text = value.get_if<std::string>();
            const auto* list = value.get_if<Value::Array>();
            const auto* table = value.get_if<Value::Table>();
            const bool empty =
                (text && text->empty()) || (list && list->empty()) || (table && table->empty());
            return empty ? "something: it is empty" : "";
          },
          false};
}

Check required() { return {nullptr, true}; }

std::string nearest_name(std::string_view name, const std::vector<std::string>& names) {
  std::string best;
  size_t least = std::numeric_limits<size_t>::max();
  for (const std::string& candidate : names) {
    const size_t distance = edit_distance(name, candidate);
    if (distance < least) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace espalier
