#include "espalier/kernels/attention_heads.h"

#include <vector>

#include "espalier/kernels/chosen.h"
#include "espalier/kernels/parallel.h"
#include "espalier/kernels/simd.h"
#include "espalier/ops/kernel_calls.h"
#include "espalier/pjrt/ffi.h"

namespace espalier::kernels {
namespace {

namespace ffi = ::xla::ffi;
using Buffer = ffi::Buffer<ffi::F32>;
using Out = ffi::ResultBuffer<ffi::F32>;

// Results have the shapes that ops/kernel_calls.h gives them; of operands this checks the shapes.
ffi::ErrorOr<HeadShape> shape_of(const Buffer& q, const Buffer& k, const Buffer& v) {
  const auto a = q.dimensions(), c = k.dimensions(), d = v.dimensions();
  const bool ok = a.size() == 4 && c.size() == 4 && d == c && a[0] == c[0] && a[1] == c[1] &&
                  a[3] == c[3] && c[2] > 0 && a[2] % c[2] == 0;
  if (!ok) {
    return ffi::Unexpected(ffi::Error::InvalidArgument(
        "espalier_attention needs q (B, T, H, K) and k, v (B, T, G, K) where G divides H"));
  }
  return HeadShape{a[0], a[1], a[2], c[2], a[3]};
}

ffi::Error attention(ffi::ThreadPool pool, Buffer q, Buffer k, Buffer v, Out o, Out log_sum) {
  const ffi::ErrorOr<HeadShape> s = shape_of(q, k, v);
  if (s.has_error()) return s.error();
  const ForwardArrays f{
      *s, q.typed_data(), k.typed_data(), v.typed_data(), o->typed_data(), log_sum->typed_data()};
  for_each_task(pool, s->batch * s->key_heads, [&](int64_t task) {
    std::vector<float> scratch(static_cast<size_t>(forward_scratch(*s)));
    chosen().heads.forward(f, task, scratch.data());
  });
  return ffi::Error::Success();
}

ffi::Error attention_gradient(ffi::ThreadPool pool, Buffer q, Buffer k, Buffer v, Buffer o,
                              Buffer log_sum, Buffer d_o, Out d_q, Out d_k, Out d_v) {
  const ffi::ErrorOr<HeadShape> s = shape_of(q, k, v);
  if (s.has_error()) return s.error();
  if (o.element_count() != q.element_count() || d_o.element_count() != q.element_count() ||
      log_sum.element_count() * static_cast<size_t>(s->width) != q.element_count()) {
    return ffi::Error::InvalidArgument(
        "espalier_attention_gradient needs o and d_o of q's shape and log_sum (B, H, T)");
  }
  const BackwardArrays f{*s,
                         q.typed_data(),
                         k.typed_data(),
                         v.typed_data(),
                         o.typed_data(),
                         log_sum.typed_data(),
                         d_o.typed_data(),
                         d_q->typed_data(),
                         d_k->typed_data(),
                         d_v->typed_data()};
  for_each_task(pool, s->batch * s->key_heads, [&](int64_t task) {
    std::vector<float> scratch(static_cast<size_t>(backward_scratch(*s)));
    chosen().heads.backward(f, task, scratch.data());
  });
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER(kForward, attention,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::ThreadPool>()
                           .Arg<Buffer>()
                           .Arg<Buffer>()
                           .Arg<Buffer>()
                           .Ret<Buffer>()
                           .Ret<Buffer>());
XLA_FFI_DEFINE_HANDLER(kBackward, attention_gradient,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::ThreadPool>()
                           .Arg<Buffer>()
                           .Arg<Buffer>()
                           .Arg<Buffer>()
                           .Arg<Buffer>()
                           .Arg<Buffer>()
                           .Arg<Buffer>()
                           .Ret<Buffer>()
                           .Ret<Buffer>()
                           .Ret<Buffer>());

}  // namespace

int64_t forward_scratch(const HeadShape& s) {
  const int64_t wide = round_up(s.width), tall = round_up(s.length);
  return s.width * tall + tall * wide + kBlock * (tall + wide);
}

int64_t backward_scratch(const HeadShape& s) {
  const int64_t wide = round_up(s.width), tall = round_up(s.length);
  return 2 * s.width * tall + 3 * tall * wide + kBlock * (2 * tall + 3 * wide);
}

Status register_attention(const Plugin& plugin) {
  ESPALIER_TRY(register_ffi_handler(plugin, kAttentionKernel, "Host", kForward));
  return register_ffi_handler(plugin, kAttentionGradientKernel, "Host", kBackward);
}

}  // namespace espalier::kernels
