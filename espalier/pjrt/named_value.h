// NamedValue: the value of a client option, topology option, plugin or device attribute.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace espalier {

using NamedValue = std::variant<int64_t, std::string, bool, float, std::vector<int64_t>>;
using NamedValues = std::map<std::string, NamedValue>;

// For people: 3, "text" without quotes, true, 0.5, [1, 2].
std::string to_string(const NamedValue& value);

}  // namespace espalier
