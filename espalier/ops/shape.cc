#include "espalier/ops/shape.h"

#include <algorithm>
#include <numeric>

#include "espalier/hlo/writer.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/reduce.h"
#include "espalier/ops/source.h"

namespace espalier {

std::vector<TensorType> Reshape::infer(Types in) const {
  require_operands(name(), in, 1);
  if (num_elements(dims) != num_elements(in[0].dims)) {
    fail(name(),
         "needs as many elements as " + to_string(in[0]) + " has, got shape " + to_string(dims));
  }
  return {{in[0].dtype, dims}};
}
Tensors Reshape::vjp(const VjpArgs& a) const { return {reshape(a.ct[0], a.in[0].dims())}; }
void Reshape::lower(hlo::Writer& w, const Node& node) const {
  w.generic(node, "stablehlo.reshape");
}

std::vector<TensorType> BroadcastInDim::infer(Types in) const {
  require_operands(name(), in, 1);
  bool ok = map.size() == in[0].dims.size() && std::is_sorted(map.begin(), map.end()) &&
            std::adjacent_find(map.begin(), map.end()) == map.end();
  for (size_t i = 0; ok && i < map.size(); ++i) {
    ok = map[i] >= 0 && map[i] < static_cast<int64_t>(dims.size()) &&
         (in[0].dims[i] == 1 || in[0].dims[i] == dims[static_cast<size_t>(map[i])]);
  }
  if (!ok) {
    fail(name(), "cannot place " + to_string(in[0]) + " at dims " + to_string(map) + " of shape " +
                     to_string(dims));
  }
  return {{in[0].dtype, dims}};
}
Tensors BroadcastInDim::vjp(const VjpArgs& a) const {
  const Tensor& x = a.in[0];
  std::vector<int64_t> summed;
  for (int64_t d = 0; d < static_cast<int64_t>(dims.size()); ++d) {
    const auto at = std::find(map.begin(), map.end(), d);
    const bool stretched = at != map.end() && x.dim(at - map.begin()) == 1 && dims[d] != 1;
    if (at == map.end() || stretched) summed.push_back(d);
  }
  return {reshape(reduce_sum(a.ct[0], summed), x.dims())};
}
void BroadcastInDim::lower(hlo::Writer& w, const Node& node) const {
  w.generic(node, "stablehlo.broadcast_in_dim", "broadcast_dimensions = " + hlo::i64_array(map));
}

std::vector<TensorType> Transpose::infer(Types in) const {
  require_operands(name(), in, 1);
  std::vector<int64_t> sorted = permutation, all(in[0].dims.size());
  std::sort(sorted.begin(), sorted.end());
  std::iota(all.begin(), all.end(), 0);
  if (sorted != all) {
    fail(name(), "needs a permutation of the dims of " + to_string(in[0]) + ", got " +
                     to_string(permutation));
  }
  Dims dims;
  for (int64_t p : permutation) dims.push_back(in[0].dims[static_cast<size_t>(p)]);
  return {{in[0].dtype, dims}};
}
Tensors Transpose::vjp(const VjpArgs& a) const {
  std::vector<int64_t> inverse(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i) {
    inverse[static_cast<size_t>(permutation[i])] = static_cast<int64_t>(i);
  }
  return {transpose(a.ct[0], inverse)};
}
void Transpose::lower(hlo::Writer& w, const Node& node) const {
  w.generic(node, "stablehlo.transpose", "permutation = " + hlo::i64_array(permutation));
}

std::vector<TensorType> Slice::infer(Types in) const {
  require_operands(name(), in, 1);
  const Dims& from = in[0].dims;
  bool ok =
      start.size() == from.size() && limit.size() == from.size() && stride.size() == from.size();
  Dims dims(from.size());
  for (size_t i = 0; ok && i < from.size(); ++i) {
    ok = 0 <= start[i] && start[i] <= limit[i] && limit[i] <= from[i] && stride[i] >= 1;
    if (ok) dims[i] = (limit[i] - start[i] + stride[i] - 1) / stride[i];
  }
  if (!ok) {
    fail(name(), "cannot take [" + to_string(start) + ", " + to_string(limit) + ") by " +
                     to_string(stride) + " of " + to_string(in[0]));
  }
  return {{in[0].dtype, dims}};
}
Tensors Slice::vjp(const VjpArgs& a) const {
  Dims high(start.size()), interior(start.size());
  for (size_t i = 0; i < start.size(); ++i) {
    const int64_t n = a.out[0].dims()[i];
    const int64_t covered = n == 0 ? 0 : (n - 1) * stride[i] + 1;
    interior[i] = stride[i] - 1;
    high[i] = a.in[0].dims()[i] - start[i] - covered;
  }
  return {pad(a.ct[0], 0, start, high, interior)};
}
void Slice::lower(hlo::Writer& w, const Node& node) const {
  w.generic(node, "stablehlo.slice",
            "limit_indices = " + hlo::i64_array(limit) + ", start_indices = " +
                hlo::i64_array(start) + ", strides = " + hlo::i64_array(stride));
}

std::vector<TensorType> Pad::infer(Types in) const {
  require_operands(name(), in, 2);
  const Dims& from = in[0].dims;
  bool ok = in[1] == TensorType{in[0].dtype, {}} && low.size() == from.size() &&
            high.size() == from.size() && interior.size() == from.size();
  Dims dims(from.size());
  for (size_t i = 0; ok && i < from.size(); ++i) {
    dims[i] = low[i] + high[i] + from[i] + std::max<int64_t>(from[i] - 1, 0) * interior[i];
    ok = interior[i] >= 0 && dims[i] >= 0;
  }
  if (!ok) {
    fail(name(), "cannot pad " + to_string(in[0]) + " with " + to_string(in[1]) + " by low " +
                     to_string(low) + ", high " + to_string(high) + ", interior " +
                     to_string(interior));
  }
  return {{in[0].dtype, dims}};
}
Tensors Pad::vjp(const VjpArgs& a) const {
  // Taking the padding away again: negative padding, then every (interior + 1)-th element.
  Dims minus_low(low.size()), minus_high(low.size()), start(low.size(), 0), stride(low.size());
  for (size_t i = 0; i < low.size(); ++i) {
    minus_low[i] = -low[i];
    minus_high[i] = -high[i];
    stride[i] = interior[i] + 1;
  }
  const Tensor inner = pad(a.ct[0], 0, minus_low, minus_high);
  const Tensor grad = slice(inner, start, inner.dims(), stride);
  return {grad, sub(reduce_sum(a.ct[0]), reduce_sum(grad))};
}
void Pad::lower(hlo::Writer& w, const Node& node) const {
  w.generic(node, "stablehlo.pad",
            "edge_padding_high = " + hlo::i64_array(high) + ", edge_padding_low = " +
                hlo::i64_array(low) + ", interior_padding = " + hlo::i64_array(interior));
}

std::vector<TensorType> Concatenate::infer(Types in) const {
  if (in.empty()) fail(name(), "needs at least one operand");
  TensorType out = in[0];
  if (dim < 0 || dim >= out.rank()) {
    fail(name(), "dim " + std::to_string(dim) + " is outside " + to_string(in[0]));
  }
  for (size_t i = 1; i < in.size(); ++i) {
    TensorType like = in[i];
    if (like.rank() == out.rank()) like.dims[dim] = in[0].dims[dim];
    if (like != in[0]) {
      fail(name(), "operand " + std::to_string(i) + " needs the shape of the first except in dim " +
                       std::to_string(dim) + ": " + to_string(in[0]) + ", got " + to_string(in[i]));
    }
    out.dims[dim] += in[i].dims[dim];
  }
  return {out};
}
Tensors Concatenate::vjp(const VjpArgs& a) const {
  Tensors out;
  int64_t at = 0;
  for (const Tensor& x : a.in) {
    out.push_back(slice_dim(a.ct[0], dim, at, at + x.dim(dim)));
    at += x.dim(dim);
  }
  return out;
}
void Concatenate::lower(hlo::Writer& w, const Node& node) const {
  w.generic(node, "stablehlo.concatenate", "dimension = " + std::to_string(dim) + " : i64");
}

std::vector<TensorType> Reverse::infer(Types in) const {
  require_operands(name(), in, 1);
  for (int64_t d : dims) {
    if (d < 0 || d >= in[0].rank() || std::count(dims.begin(), dims.end(), d) != 1) {
      fail(name(), "needs distinct dims of " + to_string(in[0]) + ", got " + to_string(dims));
    }
  }
  return {in[0]};
}
Tensors Reverse::vjp(const VjpArgs& a) const { return {reverse(a.ct[0], dims)}; }
void Reverse::lower(hlo::Writer& w, const Node& node) const {
  w.generic(node, "stablehlo.reverse", "dimensions = " + hlo::i64_array(dims));
}

namespace {

void require_indices(std::string_view op, Types in, size_t first, int64_t rank) {
  if (in.size() != first + static_cast<size_t>(rank)) {
    fail(op, "needs " + std::to_string(rank) + " indices, got " +
                 std::to_string(in.size() < first ? 0 : in.size() - first));
  }
  for (size_t i = first; i < in.size(); ++i) {
    if (!is_integer(in[i].dtype) || in[i].rank() != 0 || in[i] != in[first]) {
      fail(op, "needs integer scalars of one type as indices, got " + to_string(in[i]));
    }
  }
}

Tensors indices_of(const Tensors& in, size_t first) {
  return {in.begin() + static_cast<int64_t>(first), in.end()};
}

}  // namespace

std::vector<TensorType> DynamicSlice::infer(Types in) const {
  if (in.empty()) fail(name(), "needs an operand");
  require_indices(name(), in, 1, in[0].rank());
  bool ok = dims.size() == in[0].dims.size();
  for (size_t i = 0; ok && i < dims.size(); ++i) ok = dims[i] >= 0 && dims[i] <= in[0].dims[i];
  if (!ok) fail(name(), "a block of shape " + to_string(dims) + " of " + to_string(in[0]));
  return {{in[0].dtype, dims}};
}
Tensors DynamicSlice::vjp(const VjpArgs& a) const {
  Tensors out(a.in.size());
  out[0] = dynamic_update_slice(zeros_like(a.in[0]), a.ct[0], indices_of(a.in, 1));
  return out;
}
void DynamicSlice::lower(hlo::Writer& w, const Node& node) const {
  w.generic(node, "stablehlo.dynamic_slice", "slice_sizes = " + hlo::i64_array(dims));
}

std::vector<TensorType> DynamicUpdateSlice::infer(Types in) const {
  if (in.size() < 2) fail(name(), "needs an operand and an update");
  require_indices(name(), in, 2, in[0].rank());
  bool ok = in[1].rank() == in[0].rank() && in[1].dtype == in[0].dtype;
  for (size_t i = 0; ok && i < in[0].dims.size(); ++i) ok = in[1].dims[i] <= in[0].dims[i];
  if (!ok) fail(name(), "an update " + to_string(in[1]) + " for " + to_string(in[0]));
  return {in[0]};
}
Tensors DynamicUpdateSlice::vjp(const VjpArgs& a) const {
  Tensors out(a.in.size());
  const Tensors at = indices_of(a.in, 2);
  out[0] = dynamic_update_slice(a.ct[0], zeros_like(a.in[1]), at);
  out[1] = dynamic_slice(a.ct[0], at, a.in[1].dims());
  return out;
}
void DynamicUpdateSlice::lower(hlo::Writer& w, const Node& node) const {
  w.generic(node, "stablehlo.dynamic_update_slice");
}

Tensor reshape(const Tensor& x, Dims dims) {
  const auto unknown = std::find(dims.begin(), dims.end(), -1);
  if (unknown != dims.end()) {
    int64_t known = 1;
    for (int64_t d : dims) known *= d == -1 ? 1 : d;
    *unknown = known == 0 ? 0 : x.size() / known;
  }
  return x.dims() == dims ? x : apply(Reshape{std::move(dims)}, {x});
}
Tensor broadcast_in_dim(const Tensor& x, Dims dims, std::vector<int64_t> map) {
  return apply(BroadcastInDim{std::move(dims), std::move(map)}, {x});
}
Tensor broadcast_to(const Tensor& x, const Dims& dims) {
  if (x.dims() == dims) return x;
  if (x.dims().size() > dims.size()) {
    fail("broadcast_to", "cannot make " + to_string(x.type()) + " of shape " + to_string(dims));
  }
  std::vector<int64_t> map(x.dims().size());
  std::iota(map.begin(), map.end(), static_cast<int64_t>(dims.size() - map.size()));
  return broadcast_in_dim(x, dims, std::move(map));
}
Dims broadcast_dims(std::string_view op, const Dims& a, const Dims& b) {
  Dims out(std::max(a.size(), b.size()));
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) {
      fail(op, "shapes " + to_string(a) + " and " + to_string(b) + " do not broadcast");
    }
    out[out.size() - 1 - i] = x == 1 ? y : x;
  }
  return out;
}
Tensor transpose(const Tensor& x, std::vector<int64_t> permutation) {
  std::vector<int64_t> identity(x.dims().size());
  std::iota(identity.begin(), identity.end(), 0);
  return permutation == identity ? x : apply(Transpose{std::move(permutation)}, {x});
}
Tensor slice(const Tensor& x, Dims start, Dims limit, Dims stride) {
  if (stride.empty()) stride.assign(start.size(), 1);
  return apply(Slice{std::move(start), std::move(limit), std::move(stride)}, {x});
}
Tensor slice_dim(const Tensor& x, int64_t dim, int64_t start, int64_t limit) {
  Dims from(x.dims().size(), 0), to = x.dims();
  const auto d = static_cast<size_t>(dim < 0 ? dim + x.rank() : dim);
  if (d >= from.size()) fail("slice", "dim " + std::to_string(dim) + " of " + to_string(x.type()));
  from[d] = start;
  to[d] = limit;
  return start == 0 && limit == x.dims()[d] ? x : slice(x, std::move(from), std::move(to));
}
Tensor pad(const Tensor& x, double value, Dims low, Dims high, Dims interior) {
  if (interior.empty()) interior.assign(low.size(), 0);
  return apply(Pad{std::move(low), std::move(high), std::move(interior)},
               {x, scalar(x.dtype(), value)});
}
Tensor concatenate(const Tensors& xs, int64_t dim) {
  const int64_t rank = xs.empty() ? 0 : xs[0].rank();
  return xs.size() == 1 ? xs[0] : apply(Concatenate{dim < 0 ? dim + rank : dim}, xs);
}
Tensor stack(const Tensors& xs) {
  Tensors rows;
  for (const Tensor& x : xs) {
    Dims dims = x.dims();
    dims.insert(dims.begin(), 1);
    rows.push_back(reshape(x, dims));
  }
  return concatenate(rows, 0);
}
Tensor reverse(const Tensor& x, std::vector<int64_t> dims) {
  return apply(Reverse{std::move(dims)}, {x});
}
Tensor dynamic_slice(const Tensor& x, const Tensors& indices, Dims dims) {
  Tensors operands = {x};
  operands.insert(operands.end(), indices.begin(), indices.end());
  return apply(DynamicSlice{std::move(dims)}, std::move(operands));
}
Tensor dynamic_update_slice(const Tensor& x, const Tensor& update, const Tensors& indices) {
  Tensors operands = {x, update};
  operands.insert(operands.end(), indices.begin(), indices.end());
  return apply(DynamicUpdateSlice{}, std::move(operands));
}

}  // namespace espalier
