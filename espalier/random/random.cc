#include "espalier/random/random.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "espalier/ops/elementwise.h"
#include "espalier/ops/reduce.h"
#include "espalier/ops/shape.h"
#include "espalier/ops/source.h"
#include "espalier/ops/threefry.h"

namespace espalier::random {
namespace {

constexpr std::string_view kName = "random";

// Both words of a key as scalars.
TwoWords words(const Tensor& key) {
  if (key.type() != TensorType{DType::kU32, {2}}) {
    fail(kName,
         "needs a key, u32[2], got " + to_string(key.type()) + "; take one of several with key_at");
  }
  return {reshape(slice_dim(key, 0, 0, 1), {}), reshape(slice_dim(key, 0, 1, 2), {})};
}

TwoWords hash(const Tensor& key, const TwoWords& count) {
  const TwoWords k = words(key);
  return threefry(k.first, k.second, count.first, count.second);
}

// Row-major index of each element in a type wide enough.
Tensor global_index(DType dtype, const Dims& dims) {
  const TensorType type{dtype, dims};
  Tensor index;
  int64_t stride = 1;
  for (int64_t d = type.rank() - 1; d >= 0; --d) {
    Tensor term = iota(type, d);
    if (stride != 1) term = mul(term, full_int(type, stride));
    index = index.empty() ? term : add(index, term);
    stride *= dims[static_cast<size_t>(d)];
  }
  return index.empty() ? zeros(type) : index;
}

// The index as upper and lower word. 64-bit integers are slow on accelerators, so they are used
// only where the upper word is not all zeros.
TwoWords counter(const Dims& dims) {
  if (num_elements(dims) <= int64_t{1} << 32) {
    return {zeros({DType::kU32, dims}), global_index(DType::kU32, dims)};
  }
  const Tensor index = global_index(DType::kU64, dims);
  const Tensor upper = shift_right(index, full_int(index.type(), 32));
  return {convert(upper, DType::kU32), convert(index, DType::kU32)};
}

Tensor pair(const Tensor& first, const Tensor& second) {
  const Dims dims = {1};
  return concatenate({reshape(first, dims), reshape(second, dims)}, 0);
}

// In [low, high) for bounds that are f32 scalars: 23 bits become the mantissa of a number in
// [1, 2), which is exact, and so is taking 1 away.
Tensor uniform_between(const Tensor& key, const Dims& dims, const Tensor& low, const Tensor& high) {
  const TensorType type{DType::kU32, dims};
  const Tensor mantissa = shift_right(bits(key, dims), full_int(type, 9));
  const Tensor one_to_two =
      bitcast_convert(bit_or(mantissa, full_int(type, 0x3F800000)), DType::kF32);
  return max(low, add(mul(one_to_two - 1.0, sub(high, low)), low));
}

}  // namespace

HostArray key_data(uint64_t seed) {
  return HostArray::from<uint32_t>(
      {2}, {static_cast<uint32_t>(seed >> 32), static_cast<uint32_t>(seed)});
}

Tensor key(uint64_t seed) { return constant(key_data(seed)); }

Tensor key(const Tensor& seed) {
  const DType dtype = seed.dtype();
  if (seed.rank() != 0 || !is_integer(dtype) || byte_size(dtype) < 4) {
    fail(kName, "a seed is a scalar integer of 32 or 64 bits, got " + to_string(seed.type()));
  }
  if (byte_size(dtype) == 4) {
    return pair(full_int({DType::kU32, {}}, 0), bitcast_convert(seed, DType::kU32));
  }
  const Tensor whole = bitcast_convert(seed, DType::kU64);
  const Tensor upper = shift_right(whole, full_int(whole.type(), 32));
  return pair(convert(upper, DType::kU32), convert(whole, DType::kU32));
}

Tensor split(const Tensor& key, int64_t n) {
  if (n < 1) fail(kName, "a key splits into at least 1, asked for " + std::to_string(n));
  const TwoWords out = hash(key, counter({n}));
  return concatenate({reshape(out.first, {n, 1}), reshape(out.second, {n, 1})}, 1);
}

Tensor key_at(const Tensor& keys, int64_t i) {
  if (keys.rank() != 2 || keys.dim(1) != 2 || i < 0 || i >= keys.dim(0)) {
    fail(kName, "key_at needs keys (n, 2) and an index below n, got " + to_string(keys.type()) +
                    " and " + std::to_string(i));
  }
  return reshape(slice_dim(keys, 0, i, i + 1), {2});
}

Tensor fold_in(const Tensor& key, uint32_t data) {
  return fold_in(key, full_int({DType::kU32, {}}, data));
}

Tensor fold_in(const Tensor& key, const Tensor& data) {
  if (data.rank() != 0 || (data.dtype() != DType::kU32 && data.dtype() != DType::kS32)) {
    fail(kName, "fold_in takes a scalar u32 or s32, got " + to_string(data.type()));
  }
  const Tensor lower = bitcast_convert(data, DType::kU32);
  const TwoWords out = hash(key, {zeros_like(lower), lower});
  return pair(out.first, out.second);
}

Tensor bits(const Tensor& key, const Dims& dims) {
  const TwoWords out = hash(key, counter(dims));
  return bit_xor(out.first, out.second);
}

Tensor uniform(const Tensor& key, const Dims& dims, float low, float high) {
  return uniform_between(key, dims, scalar(DType::kF32, low), scalar(DType::kF32, high));
}

Tensor normal(const Tensor& key, const Dims& dims) {
  const Tensor u = uniform(key, dims, std::nextafter(-1.0f, 0.0f), 1.0f);
  return erf_inv(u) * std::numbers::sqrt2;
}

Tensor truncated_normal(const Tensor& key, float low, float high, const Dims& dims) {
  if (!(low < high)) {
    fail(kName, "truncated_normal needs low < high, got " + std::to_string(low) + " and " +
                    std::to_string(high));
  }
  const Tensor sqrt2 = scalar(DType::kF32, std::numbers::sqrt2);
  const auto probability = [&](float x) { return erf(div(scalar(DType::kF32, x), sqrt2)); };
  const Tensor u = uniform_between(key, dims, probability(low), probability(high));
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  // Rounding may not lead out of the open interval.
  return min(max(mul(sqrt2, erf_inv(u)), std::nextafter(low, kInfinity)),
             scalar(DType::kF32, std::nextafter(high, -kInfinity)));
}

Tensor bernoulli(const Tensor& key, float p, const Dims& dims) {
  return compare(uniform(key, dims), p, Direction::kLt);
}

Tensor gumbel(const Tensor& key, const Dims& dims) {
  return neg(log(neg(log(uniform(key, dims, std::numeric_limits<float>::min(), 1.0f)))));
}

Tensor categorical(const Tensor& key, const Tensor& logits, int64_t dim) {
  if (logits.dtype() != DType::kF32 || dim < -logits.rank() || dim >= logits.rank()) {
    fail(kName, "categorical needs f32 logits and one of their dims, got " +
                    to_string(logits.type()) + " and dim " + std::to_string(dim));
  }
  return argmax(add(gumbel(key, logits.dims()), logits), dim);
}

}  // namespace espalier::random
