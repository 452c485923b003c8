#include "espalier/nn/layers.h"

#include <cmath>

#include "espalier/ops/annotate.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/kernel_calls.h"
#include "espalier/ops/reduce.h"
#include "espalier/ops/shape.h"
#include "espalier/ops/source.h"

namespace espalier {

DType accumulate_type(DType dtype) { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

Tensor along_last(const Tensor& x, const Dims& dims) {
  Dims wide = x.dims();
  wide.push_back(1);
  return broadcast_to(reshape(x, wide), dims);
}

Tensors unstack(const Tensor& x, int64_t dim) {
  Dims dims = x.dims();
  dims.erase(dims.begin() + dim);
  Tensors parts;
  for (int64_t i = 0; i < x.dim(dim); ++i) {
    parts.push_back(reshape(slice_dim(x, dim, i, i + 1), dims));
  }
  const auto backward = [dim](const Tensors& in, const Tensors& out, const Tensors&,
                              const Tensors& ct) {
    Dims thin = in[0].dims();
    thin[static_cast<size_t>(dim)] = 1;
    Tensors pieces;
    for (size_t i = 0; i < ct.size(); ++i) {
      pieces.push_back(reshape(ct[i].empty() ? zeros_like(out[i]) : ct[i], thin));
    }
    return Tensors{concatenate(pieces, dim)};
  };
  return custom_vjp("unstack", {x}, parts, {}, backward);
}

Tensor relu(const Tensor& x) { return select(compare(x, 0.0, Direction::kGt), x, zeros_like(x)); }

namespace {

constexpr double kGeluSlope = 0.7978845608028654;  // sqrt(2 / pi)
constexpr double kGeluCube = 0.044715;
constexpr double kHalfRoot = 0.7071067811865476;        // sqrt(1 / 2)
constexpr double kNormalDensity = 0.39894228040143268;  // 1 / sqrt(2 pi)

// x and ct in the accumulate type; the product in x's.
Tensor chain(const Tensor& slope, const Tensor& ct, const Tensor& x) {
  return convert(convert(ct, slope.dtype()) * slope, x.dtype());
}

}  // namespace

Tensor gelu(const Tensor& x) {
  const Tensor wide = convert(x, accumulate_type(x.dtype()));
  const Tensor y = wide * (erf(wide * kHalfRoot) + 1.0) * 0.5;
  const auto backward = [](const Tensors& in, const Tensors&, const Tensors&, const Tensors& ct) {
    const Tensor w = convert(in[0], accumulate_type(in[0].dtype()));
    const Tensor slope = (erf(w * kHalfRoot) + 1.0) * 0.5 + w * exp(w * w * -0.5) * kNormalDensity;
    return Tensors{chain(slope, ct[0], in[0])};
  };
  return custom_vjp("gelu", {x}, {convert(y, x.dtype())}, {}, backward)[0];
}

Tensor gelu_tanh(const Tensor& x) {
  const auto gate = [](const Tensor& w) { return tanh((w + w * w * w * kGeluCube) * kGeluSlope); };
  const Tensor wide = convert(x, accumulate_type(x.dtype()));
  const Tensor y = wide * (gate(wide) + 1.0) * 0.5;
  const auto backward = [gate](const Tensors& in, const Tensors&, const Tensors&,
                               const Tensors& ct) {
    const Tensor w = convert(in[0], accumulate_type(in[0].dtype()));
    const Tensor t = gate(w);
    const Tensor inner = (w * w * (3 * kGeluCube) + 1.0) * kGeluSlope;
    const Tensor slope = (t + 1.0) * 0.5 + w * (1.0 - t * t) * inner * 0.5;
    return Tensors{chain(slope, ct[0], in[0])};
  };
  return custom_vjp("gelu_tanh", {x}, {convert(y, x.dtype())}, {}, backward)[0];
}

namespace {

Tensors layer_norm_backward(const Tensors& in, const Tensors&, const Tensors& saved,
                            const Tensors& ct) {
  const DType wide = saved[0].dtype();
  const Tensor x = convert(in[0], wide), dy = convert(ct[0], wide);
  const auto width = static_cast<double>(x.dim(-1));
  const Tensor mean_x = along_last(saved[0], x.dims()), rstd = along_last(saved[1], x.dims());
  const Tensor normal = (x - mean_x) * rstd;
  const Tensor dn = dy * convert(in[1], wide);
  const int64_t last = x.rank() - 1;
  const Tensor sum1 = along_last(reduce_sum(dn, {last}), x.dims());
  const Tensor sum2 = along_last(reduce_sum(dn * normal, {last}), x.dims());
  std::vector<int64_t> rows;
  for (int64_t d = 0; d < last; ++d) rows.push_back(d);
  Tensors out = {rstd * (dn - (sum1 + normal * sum2) / width), reduce_sum(dy * normal, rows)};
  if (in.size() == 3) out.push_back(reduce_sum(dy, rows));
  for (size_t i = 0; i < out.size(); ++i) out[i] = convert(out[i], in[i].dtype());
  return out;
}

}  // namespace

Tensor layer_norm(const Tensor& input, const Tensor& scale, const Tensor& bias, double epsilon) {
  const DType wide = accumulate_type(input.dtype());
  const Tensor x = convert(input, wide);
  const int64_t last = x.rank() - 1;
  const Tensor mean_x = mean(x, {last});
  const Tensor centered = x - along_last(mean_x, x.dims());
  const Tensor rstd = rsqrt(mean(centered * centered, {last}) + epsilon);
  Tensor y = centered * along_last(rstd, x.dims()) * convert(scale, wide);
  Tensors inputs = {input, scale};
  if (!bias.empty()) {
    y = y + convert(bias, wide);
    inputs.push_back(bias);
  }
  return custom_vjp("layer_norm", inputs, {convert(y, input.dtype())}, {mean_x, rstd},
                    layer_norm_backward)[0];
}

namespace {

Tensors rms_norm_backward(const Tensors& in, const Tensors&, const Tensors& saved,
                          const Tensors& ct) {
  const DType wide = saved[0].dtype();
  const Tensor x = convert(in[0], wide), dy = convert(ct[0], wide);
  const Tensor root = along_last(saved[0], x.dims());
  const Tensor normal = x * root;
  const Tensor dn = dy * convert(in[1], wide);
  const int64_t last = x.rank() - 1;
  const Tensor mean_n = along_last(mean(dn * normal, {last}), x.dims());
  std::vector<int64_t> rows;
  for (int64_t d = 0; d < last; ++d) rows.push_back(d);
  return {convert(root * (dn - normal * mean_n), in[0].dtype()),
          convert(reduce_sum(dy * normal, rows), in[1].dtype())};
}

}  // namespace

Tensor rms_norm(const Tensor& input, const Tensor& scale, double epsilon) {
  const DType wide = accumulate_type(input.dtype());
  const Tensor x = convert(input, wide);
  const Tensor root = rsqrt(mean(x * x, {x.rank() - 1}) + epsilon);
  const Tensor y = x * along_last(root, x.dims()) * convert(scale, wide);
  return custom_vjp("rms_norm", {input, scale}, {convert(y, input.dtype())}, {root},
                    rms_norm_backward)[0];
}

Tensor swiglu(const Tensor& gate, const Tensor& up) {
  const DType wide = accumulate_type(gate.dtype());
  const Tensor g = convert(gate, wide), u = convert(up, wide);
  const auto backward = [](const Tensors& in, const Tensors&, const Tensors&, const Tensors& ct) {
    const DType w = accumulate_type(in[0].dtype());
    const Tensor x = convert(in[0], w), up_x = convert(in[1], w), dy = convert(ct[0], w);
    const Tensor s = logistic(x);
    const Tensor slope = s * (x * (1.0 - s) + 1.0);
    return Tensors{convert(dy * up_x * slope, in[0].dtype()), convert(dy * x * s, in[1].dtype())};
  };
  return custom_vjp("swiglu", {gate, up}, {convert(g * logistic(g) * u, gate.dtype())}, {},
                    backward)[0];
}

namespace {

Tensor gelu_by_kernel(const Tensor& x, bool tanh) {
  const auto backward = [tanh](const Tensors& in, const Tensors&, const Tensors&,
                               const Tensors& ct) {
    return Tensors{gelu_gradient_kernel(in[0], tanh, ct[0])};
  };
  return custom_vjp("gelu_kernel", {x}, {gelu_kernel(x, tanh)}, {}, backward)[0];
}

}  // namespace

Tensor gelu(const Tensor& x, const Ctx& cx) {
  return cx.has_kernels(x.dtype()) ? gelu_by_kernel(x, false) : gelu(x);
}

Tensor gelu_tanh(const Tensor& x, const Ctx& cx) {
  return cx.has_kernels(x.dtype()) ? gelu_by_kernel(x, true) : gelu_tanh(x);
}

Tensor layer_norm(const Tensor& x, const Tensor& scale, const Tensor& bias, double epsilon,
                  const Ctx& cx) {
  if (!cx.has_kernels(x.dtype())) return layer_norm(x, scale, bias, epsilon);
  const LayerNormKernelResult done = layer_norm_kernel(x, scale, bias, epsilon);
  const auto backward = [](const Tensors& in, const Tensors&, const Tensors& saved,
                           const Tensors& ct) {
    Tensors out = layer_norm_gradient_kernel(in[0], in[1], saved[0], saved[1], ct[0]);
    out.resize(in.size());
    return out;
  };
  Tensors inputs = {x, scale};
  if (!bias.empty()) inputs.push_back(bias);
  return custom_vjp("layer_norm_kernel", inputs, {done.y}, {done.mean, done.rstd}, backward)[0];
}

}  // namespace espalier
