#include "espalier/nn/param.h"

#include <algorithm>
#include <cmath>

namespace espalier {

Initializer zeros_init() { return {Initializer::Kind::kZeros, 0}; }
Initializer ones_init() { return {Initializer::Kind::kOnes, 0}; }
Initializer normal_init(double standard_deviation) {
  return {Initializer::Kind::kNormal, standard_deviation};
}
Initializer xavier_uniform(int64_t fan_in, int64_t fan_out) {
  return {Initializer::Kind::kUniform, std::sqrt(6.0 / static_cast<double>(fan_in + fan_out))};
}

Dims ParamSpec::array_dims() const {
  Dims out = dims;
  if (layers > 0) out.insert(out.begin(), layers);
  return out;
}

LogicalAxes ParamSpec::array_axes() const {
  LogicalAxes out = axes;
  if (layers > 0) out.insert(out.begin(), "layers");
  return out;
}

std::string ParamSpec::layer_name(int64_t layer) const {
  std::string out = name;
  if (const size_t star = out.find('*'); layers > 0 && star != std::string::npos) {
    out.replace(star, 1, std::to_string(layer));
  }
  return out;
}

int64_t num_parameters(const ParamSpecs& specs) {
  int64_t n = 0;
  for (const ParamSpec& spec : specs) n += num_elements(spec.array_dims());
  return n;
}

Init Init::operator/(std::string_view name) const {
  Init out = *this;
  out.prefix_ += std::string(name) + ".";
  return out;
}

Init Init::stacked(int64_t layers) const {
  Init out = *this / "*";
  out.layers_ = layers;
  return out;
}

Param Init::param(std::string_view name, Dims dims, Initializer init, LogicalAxes axes,
                  ParamKind kind, ParamForm form) const {
  const std::string full = prefix_ + std::string(name);
  if (axes.size() != dims.size()) {
    throw Error("[param] '" + full + "' of shape " + to_string(dims) + " needs " +
                std::to_string(dims.size()) + " logical axes, got " + std::to_string(axes.size()));
  }
  const bool taken = std::any_of(specs_->begin(), specs_->end(),
                                 [&](const ParamSpec& s) { return s.name == full; });
  if (taken) throw Error("[param] the name '" + full + "' is used twice");
  if (kind == ParamKind::kHidden && form.in.empty() && dims.size() == 2)
    form.in = {0}, form.out = {1};
  const auto rank = static_cast<int64_t>(dims.size());
  std::vector<int64_t> matrix = form.in;
  matrix.insert(matrix.end(), form.out.begin(), form.out.end());
  std::sort(matrix.begin(), matrix.end());
  const bool distinct = std::adjacent_find(matrix.begin(), matrix.end()) == matrix.end();
  const bool inside = matrix.empty() || (matrix.front() >= 0 && matrix.back() < rank);
  if (!distinct || !inside || form.in.empty() != form.out.empty()) {
    throw Error("[param] '" + full + "' of shape " + to_string(dims) +
                " needs distinct dims of its own as a matrix's input and output");
  }
  if (!form.stored_dims.empty() && num_elements(form.stored_dims) != num_elements(dims)) {
    throw Error("[param] '" + full + "' of shape " + to_string(dims) + " cannot be stored as " +
                to_string(form.stored_dims));
  }
  specs_->push_back({full, std::move(dims), init, std::move(axes), layers_, kind, std::move(form)});
  return {specs_->size() - 1};
}

}  // namespace espalier
