#include "espalier/ops/custom_call.h"

#include <spdlog/fmt/fmt.h>

#include "espalier/hlo/writer.h"

namespace espalier {
namespace {

std::string attribute_text(const CallAttribute& value) {
  if (const auto* i = std::get_if<int64_t>(&value)) return std::to_string(*i) + " : i64";
  if (const auto* d = std::get_if<double>(&value)) return fmt::format("{:.17e} : f64", *d);
  std::string out = "\"";
  for (const char c : std::get<std::string>(value)) {
    // MLIR's strings take any byte as a backslash and two hexadecimal digits.
    const bool plain = c >= ' ' && c <= '~' && c != '"' && c != '\\';
    out += plain ? std::string(1, c) : fmt::format("\\{:02X}", static_cast<unsigned char>(c));
  }
  return out + "\"";
}

}  // namespace

std::vector<TensorType> CustomCall::infer(Types) const { return results; }
Tensors CustomCall::vjp(const VjpArgs&) const {
  fail(name(), "'" + target + "' has no gradient rule; wrap the call in custom_vjp");
}
void CustomCall::lower(hlo::Writer& w, const Node& node) const {
  std::string config;
  for (const auto& [key, value] : attributes) {
    config += (config.empty() ? "" : ", ") + key + " = " + attribute_text(value);
  }
  w.generic(node, "stablehlo.custom_call",
            "api_version = 4 : i32, backend_config = {" + config + "}, call_target_name = \"" +
                target + "\", has_side_effect = " + (has_side_effect ? "true" : "false"));
}

Tensors custom_call(std::string target, const Tensors& operands, std::vector<TensorType> results,
                    std::vector<std::pair<std::string, CallAttribute>> attributes) {
  return apply_all(CustomCall{std::move(target), std::move(results), std::move(attributes)},
                   operands);
}

}  // namespace espalier
