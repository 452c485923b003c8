#include "espalier/config/value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <toml++/toml.h>
#include <algorithm>
#include <optional>

namespace espalier {
namespace {

Place place_of(const toml::source_region& region, const std::string& source) {
  return {source, region.begin.line, region.begin.column};
}

Result<Value> convert(const toml::node& node, const std::string& source) {
  Value out;
  out.place = place_of(node.source(), source);
  if (const auto* flag = node.as_boolean()) {
    out.data = flag->get();
  } else if (const auto* integer = node.as_integer()) {
    out.data = integer->get();
  } else if (const auto* number = node.as_floating_point()) {
    out.data = number->get();
  } else if (const auto* text = node.as_string()) {
    out.data = text->get();
  } else if (const auto* list = node.as_array()) {
    Value::Array items;
    for (const toml::node& item : *list) {
      ESPALIER_ASSIGN(Value value, convert(item, source));
      items.push_back(std::move(value));
    }
    out.data = std::move(items);
  } else if (const auto* table = node.as_table()) {
    Value::Table entries;
    for (const auto& [key, child] : *table) {
      ESPALIER_ASSIGN(Value value, convert(child, source));
      entries.push_back({std::string(key.str()), place_of(key.source(), source), std::move(value)});
    }
    // toml++ sorts a table by name; the places bring back the order of the text.
    std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return std::pair(a.place.line, a.place.column) < std::pair(b.place.line, b.place.column);
    });
    out.data = std::move(entries);
  } else {
    return Failure{Code::kInvalidArgument,
                   out.place.text() +
                       ": dates and times are not used in a recipe; write a text "
                       "in quotes"};
  }
  return out;
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

// Position of the '=' between key and VALUE: the first outside quotes.
size_t find_equals(std::string_view argument) {
  char quote = 0;
  for (size_t i = 0; i < argument.size(); ++i) {
    const char c = argument[i];
    if (quote == 0 && c == '=') return i;
    if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
    } else if (c == quote) {
      quote = 0;
    } else if (quote == '"' && c == '\\') {
      ++i;
    }
  }
  return std::string_view::npos;
}

void set_source(Value& value, const Place& place) {
  value.place = place;
  if (auto* list = std::get_if<Value::Array>(&value.data)) {
    for (Value& item : *list) set_source(item, place);
  }
  if (auto* table = std::get_if<Value::Table>(&value.data)) {
    for (Entry& entry : *table) {
      entry.place = place;
      set_source(entry.value, place);
    }
  }
}

// The value of "x = TEXT", or nothing when TEXT is not exactly one TOML value.
std::optional<Value> parse_value(std::string_view text, const std::string& source) {
  auto document = parse_toml("x = " + std::string(text), source);
  if (!document) return std::nullopt;
  auto& entries = std::get<Value::Table>(document->data);
  if (entries.size() != 1) return std::nullopt;
  return std::move(entries[0].value);
}

// As TOML writes it on one line; for messages.
std::string to_text(const Value& value) {
  if (const auto* flag = value.get_if<bool>()) return *flag ? "true" : "false";
  if (const auto* integer = value.get_if<int64_t>()) return fmt::format("{}", *integer);
  if (const auto* number = value.get_if<double>()) return fmt::format("{}", *number);
  if (const auto* text = value.get_if<std::string>()) return quote_toml(*text);
  std::vector<std::string> items;
  if (const auto* list = value.get_if<Value::Array>()) {
    for (const Value& item : *list) items.push_back(to_text(item));
    return fmt::format("[{}]", fmt::join(items, ", "));
  }
  for (const Entry& entry : *value.get_if<Value::Table>()) {
    items.push_back(key_toml(entry.key) + " = " + to_text(entry.value));
  }
  return fmt::format("{{{}}}", fmt::join(items, ", "));
}

Entry* find_entry(Value::Table& table, std::string_view key) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const Entry& e) { return e.key == key; });
  return found == table.end() ? nullptr : &*found;
}

}  // namespace

std::string Place::text() const {
  return line == 0 ? source : fmt::format("{}:{}:{}", source, line, column);
}

const Value* Value::find(std::string_view key) const {
  if (const Table* table = get_if<Table>()) {
    for (const Entry& entry : *table) {
      if (entry.key == key) return &entry.value;
    }
  }
  return nullptr;
}

std::string Value::description() const {
  struct Kind {
    std::string operator()(bool) const { return ""; }
    std::string operator()(int64_t) const { return "the integer "; }
    std::string operator()(double) const { return "the number "; }
    std::string operator()(const std::string&) const { return "the text "; }
    std::string operator()(const Array&) const { return "the list "; }
    std::string operator()(const Table&) const { return "the table "; }
  };
  constexpr size_t kMaxCharacters = 80;
  std::string text = to_text(*this);
  if (text.size() > kMaxCharacters) text = text.substr(0, kMaxCharacters) + "...";
  return std::visit(Kind{}, data) + text;
}

Result<Value> parse_toml(std::string_view text, const std::string& source) {
  try {
    const toml::table table = toml::parse(text, source);
    return convert(table, source);
  } catch (const toml::parse_error& error) {
    const Place place = place_of(error.source(), source);
    return Failure{Code::kInvalidArgument,
                   place.text() + ": not valid TOML: " + std::string(error.description())};
  }
}

Status apply_override(Value& document, std::string_view argument) {
  const Place place{"--set " + std::string(argument), 0, 0};
  const auto refuse = [&](const std::string& what) {
    return Failure{Code::kInvalidArgument, place.text() + ": " + what};
  };
  const size_t equals = find_equals(argument);
  if (equals == std::string_view::npos) return refuse("write --set table.key=VALUE");
  const std::string_view key = trimmed(argument.substr(0, equals));
  const std::string_view text = trimmed(argument.substr(equals + 1));
  if (text.empty()) {
    return refuse(fmt::format("there is no VALUE; an empty text is written '{}=\"\"'", key));
  }

  auto path = parse_toml(std::string(key) + " = 0", place.source);
  if (!path || std::get<Value::Table>(path->data).size() != 1) {
    return refuse("'" + std::string(key) +
                  "' is no key; write table.key=VALUE, quoting a part with dots in it");
  }

  std::optional<Value> value = parse_value(text, place.source);
  if (!value) {
    if (std::string_view("\"'[{").find(text[0]) != std::string_view::npos) {
      auto problem = parse_toml("x = " + std::string(text), place.source);
      return refuse(problem ? "VALUE must be a single TOML value"
                            : "VALUE is not valid TOML: " + problem.failure().message);
    }
    value.emplace();
    value->data = std::string(text);
  }
  set_source(*value, place);

  Value* parent = &document;
  const Value* step = &*path;
  std::string walked;
  while (true) {
    const Entry& part = std::get<Value::Table>(step->data)[0];
    auto* table = std::get_if<Value::Table>(&parent->data);
    if (table == nullptr) {
      return refuse(fmt::format("{} is {} and has no keys", walked, parent->description()));
    }
    Entry* entry = find_entry(*table, part.key);
    const bool last = !part.value.is_table();
    if (entry == nullptr) {
      table->push_back({part.key, place, Value{Value::Table{}, place}});
      entry = &table->back();
    }
    if (last) {
      entry->place = place;
      entry->value = std::move(*value);
      return {};
    }
    walked += (walked.empty() ? "" : ".") + key_toml(part.key);
    parent = &entry->value;
    step = &part.value;
  }
}

std::string quote_toml(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          out += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
        } else {
          out += c;
        }
    }
  }
  return out + '"';
}

std::string key_toml(std::string_view key) {
  const bool bare = !key.empty() && std::all_of(key.begin(), key.end(), [](unsigned char c) {
    return (c < 0x80 && std::isalnum(c) != 0) || c == '_' || c == '-';
  });
  return bare ? std::string(key) : quote_toml(key);
}

}  // namespace espalier
