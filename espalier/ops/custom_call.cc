#include "espalier/ops/custom_call.h"

#include <spdlog/fmt/fmt.h>

#include "espalier/hlo/writer.h"

namespace espalier {
namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    // MLIR's strings take any byte as a backslash and two hexadecimal digits.
    const bool plain = c >= ' ' && c <= '~' && c != '"' && c != '\\';
    out += plain ? std::string(1, c) : fmt::format("\\{:02X}", static_cast<unsigned char>(c));
  }
  return out + "\"";
}

std::string attribute_text(const CallAttribute& value) {
  if (const auto* i = std::get_if<int64_t>(&value)) return std::to_string(*i) + " : i64";
  if (const auto* d = std::get_if<double>(&value)) return fmt::format("{:.17e} : f64", *d);
  return quoted(std::get<std::string>(value));
}

std::string layouts_text(const std::vector<std::vector<int64_t>>& layouts) {
  std::vector<std::string> each;
  for (const auto& order : layouts) {
    each.push_back(
        fmt::format("dense<[{}]> : tensor<{}xindex>", fmt::join(order, ", "), order.size()));
  }
  return fmt::format("[{}]", fmt::join(each, ", "));
}

}  // namespace

std::vector<TensorType> CustomCall::infer(Types) const { return results; }
Tensors CustomCall::vjp(const VjpArgs&) const {
  fail(name(), "'" + target + "' has no gradient rule; wrap the call in custom_vjp");
}
void CustomCall::lower(hlo::Writer& w, const Node& node) const {
  const std::string call = "call_target_name = \"" + target +
                           "\", has_side_effect = " + (has_side_effect ? "true" : "false");
  if (!config.empty()) {
    std::vector<std::vector<int64_t>> row_major;
    for (const Tensor& operand : node.operands) {
      std::vector<int64_t>& order = row_major.emplace_back();
      for (int64_t d = operand.rank() - 1; d >= 0; --d) order.push_back(d);
    }
    w.generic(node, "stablehlo.custom_call",
              "api_version = 2 : i32, backend_config = " + quoted(config) + ", " + call +
                  ", operand_layouts = " + layouts_text(row_major) +
                  ", result_layouts = " + layouts_text(result_layouts));
    return;
  }
  std::string dictionary;
  for (const auto& [key, value] : attributes) {
    dictionary += (dictionary.empty() ? "" : ", ") + key + " = " + attribute_text(value);
  }
  w.generic(node, "stablehlo.custom_call",
            "api_version = 4 : i32, backend_config = {" + dictionary + "}, " + call);
}

Tensors custom_call(std::string target, const Tensors& operands, std::vector<TensorType> results,
                    std::string config, std::vector<std::vector<int64_t>> result_layouts) {
  CustomCall call{std::move(target), std::move(results), {}};
  call.config = std::move(config);
  call.result_layouts = std::move(result_layouts);
  return apply_all(std::move(call), operands);
}

Tensors custom_call(std::string target, const Tensors& operands, std::vector<TensorType> results,
                    std::vector<std::pair<std::string, CallAttribute>> attributes) {
  return apply_all(CustomCall{std::move(target), std::move(results), std::move(attributes)},
                   operands);
}

}  // namespace espalier
