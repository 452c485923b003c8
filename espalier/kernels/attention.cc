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
  return HeadShape{a[0], a[1], a[2], c[2], a[3], a[2] * a[3], c[2] * c[3]};
}

ffi::ErrorOr<HeadShape> shape_of(const Buffer& qkv) {
  const auto a = qkv.dimensions();
  if (a.size() != 5 || a[2] != 3) {
    return ffi::Unexpected(
        ffi::Error::InvalidArgument("espalier_packed_attention needs (B, T, 3, H, K)"));
  }
  const int64_t row = 3 * a[3] * a[4];
  return HeadShape{a[0], a[1], a[3], a[3], a[4], row, row};
}

ffi::Error run_forward(ffi::ThreadPool& pool, const ForwardArrays& f) {
  for_each_task(pool, f.s.batch * f.s.key_heads, [&](int64_t task) {
    std::vector<float> scratch(static_cast<size_t>(forward_scratch(f.s)));
    chosen().heads.forward(f, task, scratch.data());
  });
  return ffi::Error::Success();
}

ffi::Error run_backward(ffi::ThreadPool& pool, const BackwardArrays& f) {
  for_each_task(pool, f.s.batch * f.s.key_heads, [&](int64_t task) {
    std::vector<float> scratch(static_cast<size_t>(backward_scratch(f.s)));
    chosen().heads.backward(f, task, scratch.data());
  });
  return ffi::Error::Success();
}

// Of results of attention, and what comes back of them.
bool are_results(const HeadShape& s, const Buffer& o, const Buffer& log_sum, const Buffer& d_o) {
  const auto rows = static_cast<size_t>(s.batch * s.length * s.heads);
  const size_t elements = rows * static_cast<size_t>(s.width);
  return o.element_count() == elements && d_o.element_count() == elements &&
         log_sum.element_count() == rows;
}

ffi::Error wrong_results() {
  return ffi::Error::InvalidArgument(
      "attention's gradient needs o and d_o (B, T, H, K) and log_sum (B, H, T)");
}

ffi::Error attention(ffi::ThreadPool pool, Buffer q, Buffer k, Buffer v, Out o, Out log_sum) {
  const ffi::ErrorOr<HeadShape> s = shape_of(q, k, v);
  if (s.has_error()) return s.error();
  return run_forward(pool, {*s, q.typed_data(), k.typed_data(), v.typed_data(), o->typed_data(),
                            log_sum->typed_data()});
}

ffi::Error packed_attention(ffi::ThreadPool pool, Buffer qkv, Out o, Out log_sum) {
  const ffi::ErrorOr<HeadShape> s = shape_of(qkv);
  if (s.has_error()) return s.error();
  const float* const q = qkv.typed_data();
  const int64_t part = s->heads * s->width;
  return run_forward(pool, {*s, q, q + part, q + 2 * part, o->typed_data(), log_sum->typed_data()});
}

ffi::Error attention_gradient(ffi::ThreadPool pool, Buffer q, Buffer k, Buffer v, Buffer o,
                              Buffer log_sum, Buffer d_o, Out d_q, Out d_k, Out d_v) {
  const ffi::ErrorOr<HeadShape> s = shape_of(q, k, v);
  if (s.has_error()) return s.error();
  if (!are_results(*s, o, log_sum, d_o)) return wrong_results();
  return run_backward(pool, {*s, q.typed_data(), k.typed_data(), v.typed_data(), o.typed_data(),
                             log_sum.typed_data(), d_o.typed_data(), d_q->typed_data(),
                             d_k->typed_data(), d_v->typed_data()});
}

ffi::Error packed_attention_gradient(ffi::ThreadPool pool, Buffer qkv, Buffer o, Buffer log_sum,
                                     Buffer d_o, Out d_qkv) {
  const ffi::ErrorOr<HeadShape> s = shape_of(qkv);
  if (s.has_error()) return s.error();
  if (!are_results(*s, o, log_sum, d_o)) return wrong_results();
  const float* const q = qkv.typed_data();
  float* const d_q = d_qkv->typed_data();
  const int64_t part = s->heads * s->width;
  return run_backward(pool, {*s, q, q + part, q + 2 * part, o.typed_data(), log_sum.typed_data(),
                             d_o.typed_data(), d_q, d_q + part, d_q + 2 * part});
}

XLA_FFI_DEFINE_HANDLER(kForward, attention,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::ThreadPool>()
                           .Arg<Buffer>()
                           .Arg<Buffer>()
                           .Arg<Buffer>()
                           .Ret<Buffer>()
                           .Ret<Buffer>());
XLA_FFI_DEFINE_HANDLER(
    kPackedForward, packed_attention,
    ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Buffer>().Ret<Buffer>().Ret<Buffer>());
XLA_FFI_DEFINE_HANDLER(kPackedBackward, packed_attention_gradient,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::ThreadPool>()
                           .Arg<Buffer>()
                           .Arg<Buffer>()
                           .Arg<Buffer>()
                           .Arg<Buffer>()
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
  ESPALIER_TRY(register_ffi_handler(plugin, kAttentionGradientKernel, "Host", kBackward));
  ESPALIER_TRY(register_ffi_handler(plugin, kPackedAttentionKernel, "Host", kPackedForward));
  return register_ffi_handler(plugin, kPackedAttentionGradientKernel, "Host", kPackedBackward);
}

}  // namespace espalier::kernels
