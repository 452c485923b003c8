#include "espalier/kernels/rows.h"

#include <algorithm>
#include <vector>

#include "espalier/kernels/chosen.h"
#include "espalier/kernels/parallel.h"
#include "espalier/ops/kernel_calls.h"
#include "espalier/pjrt/ffi.h"

namespace espalier::kernels {
namespace {

namespace ffi = ::xla::ffi;
using Buffer = ffi::Buffer<ffi::F32>;
using Out = ffi::ResultBuffer<ffi::F32>;

// Calls work(task, first, last) for pieces of `count`.
template <class Work>
void for_each_piece(ffi::ThreadPool& pool, int64_t count, int64_t piece, const Work& work) {
  for_each_task(pool, (count + piece - 1) / piece, [&](int64_t task) {
    work(task, task * piece, std::min(count, (task + 1) * piece));
  });
}

constexpr int64_t kRows = 64;
constexpr int64_t kElements = 16384;

ffi::Error wrong_shapes(const char* name) {
  return ffi::Error::InvalidArgument(std::string(name) + ": operands' shapes do not agree");
}

int64_t count(const Buffer& x) { return static_cast<int64_t>(x.element_count()); }

ffi::Error layer_norm(ffi::ThreadPool pool, double epsilon, int64_t has_bias, Buffer x,
                      Buffer scale, Buffer bias, Out y, Out mean, Out rstd) {
  const int64_t width = count(scale);
  if (width == 0 || count(x) % width != 0 || count(bias) != width) {
    return wrong_shapes(kLayerNormKernel);
  }
  const NormArrays a{width,
                     static_cast<float>(epsilon),
                     x.typed_data(),
                     scale.typed_data(),
                     has_bias != 0 ? bias.typed_data() : nullptr,
                     y->typed_data(),
                     mean->typed_data(),
                     rstd->typed_data()};
  for_each_piece(pool, count(x) / width, kRows,
                 [&](int64_t, int64_t first, int64_t last) { chosen().rows.norm(a, first, last); });
  return ffi::Error::Success();
}

ffi::Error layer_norm_gradient(ffi::ThreadPool pool, Buffer x, Buffer scale, Buffer mean,
                               Buffer rstd, Buffer dy, Out dx, Out d_scale, Out d_bias) {
  const int64_t width = count(scale);
  if (width == 0 || count(x) % width != 0 || count(dy) != count(x) ||
      count(mean) != count(x) / width || count(rstd) != count(mean)) {
    return wrong_shapes(kLayerNormGradientKernel);
  }
  const NormGradientArrays a{
      width,           x.typed_data(),  scale.typed_data(), mean.typed_data(), rstd.typed_data(),
      dy.typed_data(), dx->typed_data()};
  const int64_t rows = count(x) / width;
  const auto pieces = static_cast<size_t>((rows + kRows - 1) / kRows);
  const auto wide = static_cast<size_t>(width);
  std::vector<float> parts(pieces * 2 * wide);
  for_each_piece(pool, rows, kRows, [&](int64_t task, int64_t first, int64_t last) {
    float* const own = parts.data() + static_cast<size_t>(task) * 2 * wide;
    chosen().rows.norm_gradient(a, first, last, own, own + wide);
  });
  // Summed in the order of rows, whichever thread took them.
  for (size_t i = 0; i < wide; ++i) {
    float to_scale = 0, to_bias = 0;
    for (size_t piece = 0; piece < pieces; ++piece) {
      to_scale += parts[piece * 2 * wide + i];
      to_bias += parts[(piece * 2 + 1) * wide + i];
    }
    d_scale->typed_data()[i] = to_scale;
    d_bias->typed_data()[i] = to_bias;
  }
  return ffi::Error::Success();
}

ffi::Error gelu(ffi::ThreadPool pool, int64_t tanh, Buffer x, Out y) {
  const GeluArrays a{x.typed_data(), x.typed_data(), y->typed_data()};
  for_each_piece(pool, count(x), kElements, [&](int64_t, int64_t first, int64_t last) {
    chosen().rows.gelu(a, tanh != 0, first, last);
  });
  return ffi::Error::Success();
}

ffi::Error gelu_gradient(ffi::ThreadPool pool, int64_t tanh, Buffer x, Buffer dy, Out dx) {
  if (count(x) != count(dy)) return wrong_shapes(kGeluGradientKernel);
  const GeluArrays a{x.typed_data(), dy.typed_data(), dx->typed_data()};
  for_each_piece(pool, count(x), kElements, [&](int64_t, int64_t first, int64_t last) {
    chosen().rows.gelu_gradient(a, tanh != 0, first, last);
  });
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER(kNorm, layer_norm,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::ThreadPool>()
                           .Attr<double>("epsilon")
                           .Attr<int64_t>("has_bias")
                           .Arg<Buffer>()
                           .Arg<Buffer>()
                           .Arg<Buffer>()
                           .Ret<Buffer>()
                           .Ret<Buffer>()
                           .Ret<Buffer>());
XLA_FFI_DEFINE_HANDLER(kNormGradient, layer_norm_gradient,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::ThreadPool>()
                           .Arg<Buffer>()
                           .Arg<Buffer>()
                           .Arg<Buffer>()
                           .Arg<Buffer>()
                           .Arg<Buffer>()
                           .Ret<Buffer>()
                           .Ret<Buffer>()
                           .Ret<Buffer>());
XLA_FFI_DEFINE_HANDLER(
    kGelu, gelu,
    ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Attr<int64_t>("tanh").Arg<Buffer>().Ret<Buffer>());
XLA_FFI_DEFINE_HANDLER(kGeluGradient, gelu_gradient,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::ThreadPool>()
                           .Attr<int64_t>("tanh")
                           .Arg<Buffer>()
                           .Arg<Buffer>()
                           .Ret<Buffer>());

}  // namespace

Status register_rows(const Plugin& plugin) {
  ESPALIER_TRY(register_ffi_handler(plugin, kLayerNormKernel, "Host", kNorm));
  ESPALIER_TRY(register_ffi_handler(plugin, kLayerNormGradientKernel, "Host", kNormGradient));
  ESPALIER_TRY(register_ffi_handler(plugin, kGeluKernel, "Host", kGelu));
  return register_ffi_handler(plugin, kGeluGradientKernel, "Host", kGeluGradient);
}

}  // namespace espalier::kernels
