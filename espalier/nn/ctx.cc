#include "espalier/nn/ctx.h"

#include "espalier/ops/annotate.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/shape.h"
#include "espalier/ops/source.h"
#include "espalier/random/random.h"

namespace espalier {

Tensor Ctx::operator[](Param p) const { return convert(stored(p), dtype_); }

Tensor Ctx::stored(Param p) const {
  const ParamSpec& spec = (*specs_)[p.index];
  const Tensor& array = arrays_.at(p.index);
  // Inside a stack the array is one layer's; outside it has the dim of the layers.
  const Dims wanted =
      array.rank() == static_cast<int64_t>(spec.dims.size()) ? spec.dims : spec.array_dims();
  return array.dims() == wanted ? array : slice(array, Dims(wanted.size(), 0), wanted);
}

Ctx Ctx::computing(DType dtype) const {
  Ctx out = *this;
  out.dtype_ = dtype;
  return out;
}

Ctx Ctx::on(PlacementPtr placement) const {
  Ctx out = *this;
  out.placement_ = std::move(placement);
  return out;
}

const Placement& Ctx::placement() const {
  static const Placement unknown;
  return placement_ == nullptr ? unknown : *placement_;
}

bool Ctx::has_kernels(DType dtype) const {
  return placement().platform == "cpu" && placement().mesh.size() == 1 && dtype == DType::kF32;
}

Tensor Ctx::settled(const Tensor& x) const {
  return placement().platform == "cpu" ? optimization_barrier({x})[0] : x;
}

Ctx Ctx::decoding(KvCache* cache) const {
  Ctx out = *this;
  out.cache_ = cache;
  return out;
}

Ctx Ctx::rematerializing(RematPolicy policy) const {
  Ctx out = *this;
  out.remat_ = std::move(policy);
  return out;
}

Ctx Ctx::plain_attention() const {
  Ctx out = *this;
  out.plain_attention_ = true;
  return out;
}

Ctx Ctx::training(Tensor key) const {
  Ctx out = *this;
  out.key_ = std::move(key);
  out.draws_ = 0;
  return out;
}

Tensors Ctx::arrays(size_t first, size_t last) const {
  return {arrays_.begin() + static_cast<int64_t>(first),
          arrays_.begin() + static_cast<int64_t>(last)};
}

Ctx Ctx::layer(size_t first, Tensors values, const Tensor& layer) const {
  Ctx out = *this;
  std::move(values.begin(), values.end(), out.arrays_.begin() + static_cast<int64_t>(first));
  out.draws_ = 0;
  if (is_training()) out.key_ = random::fold_in(key_, layer);
  return out;
}

Tensor Ctx::dropout(const Tensor& x, double rate) const {
  if (!is_training() || rate == 0) return x;
  // The high bit keeps these keys apart from those of layers, which fold in small numbers.
  const Tensor key = random::fold_in(key_, 0x80000000u + draws_++);
  const Tensor keep = random::bernoulli(key, static_cast<float>(1 - rate), x.dims());
  return select(keep, x / (1 - rate), zeros_like(x));
}

}  // namespace espalier
