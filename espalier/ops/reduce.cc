#include "espalier/ops/reduce.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "espalier/hlo/writer.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/shape.h"
#include "espalier/ops/source.h"

namespace espalier {
namespace {

constexpr const char* kNames[] = {"reduce_sum", "reduce_max", "reduce_min", "reduce_and",
                                  "reduce_or"};
constexpr const char* kOps[] = {"stablehlo.add", "stablehlo.maximum", "stablehlo.minimum",
                                "stablehlo.and", "stablehlo.or"};

// The smallest (sign -1) or largest (+1) value of a type.
Tensor extreme(DType dtype, int sign) {
  const TensorType type{dtype, {}};
  if (is_floating(dtype)) return full(type, sign * std::numeric_limits<double>::infinity());
  if (dtype == DType::kBool) return full_int(type, sign > 0);
  const auto bits = static_cast<int>(byte_size(dtype) * 8);
  if (is_unsigned(dtype))
    return full_int(type, sign < 0 ? 0 : static_cast<int64_t>(~0ULL >> (64 - bits)));
  const int64_t low = std::numeric_limits<int64_t>::min() >> (64 - bits);
  return full_int(type, sign < 0 ? low : -(low + 1));
}

Tensor identity(ReduceKind kind, DType dtype) {
  switch (kind) {
    case ReduceKind::kSum:
    case ReduceKind::kOr:
      return full_int({dtype, {}}, 0);
    case ReduceKind::kAnd:
      return full_int({dtype, {}}, dtype == DType::kBool ? 1 : -1);
    case ReduceKind::kMax:
      return extreme(dtype, -1);
    case ReduceKind::kMin:
      return extreme(dtype, 1);
  }
  return Tensor();
}

std::vector<int64_t> positive(const Tensor& x, std::vector<int64_t> dims) {
  for (int64_t& d : dims) d = d < 0 ? d + x.rank() : d;
  std::sort(dims.begin(), dims.end());
  return dims;
}

// A reduced tensor back at the shape of x.
Tensor spread(const Tensor& reduced, const Tensor& x, const std::vector<int64_t>& dims) {
  std::vector<int64_t> map;
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) map.push_back(d);
  }
  return broadcast_in_dim(reduced, x.dims(), map);
}

}  // namespace

std::string_view Reduce::name() const { return kNames[static_cast<size_t>(kind)]; }
std::vector<TensorType> Reduce::infer(Types in) const {
  require_operands(name(), in, 1);
  Dims out;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0 || dims[i] >= in[0].rank() || (i > 0 && dims[i] <= dims[i - 1])) {
      fail(name(), "needs rising dims of " + to_string(in[0]) + ", got " + to_string(dims));
    }
  }
  const bool bits = kind == ReduceKind::kAnd || kind == ReduceKind::kOr;
  if ((bits && is_floating(in[0].dtype)) ||
      (kind == ReduceKind::kSum && in[0].dtype == DType::kBool)) {
    fail(name(), std::string("does not take elements of type ") + hlo_name(in[0].dtype));
  }
  for (int64_t d = 0; d < in[0].rank(); ++d) {
    if (!std::binary_search(dims.begin(), dims.end(), d)) out.push_back(in[0].dims[d]);
  }
  return {{in[0].dtype, out}};
}
Tensors Reduce::vjp(const VjpArgs& a) const {
  const Tensor& x = a.in[0];
  const Tensor ct = spread(a.ct[0], x, dims);
  if (kind == ReduceKind::kSum) return {ct};
  if (kind == ReduceKind::kAnd || kind == ReduceKind::kOr) return {Tensor()};
  const Tensor hit = convert(compare(x, spread(a.out[0], x, dims), Direction::kEq), x.dtype());
  return {ct * hit / spread(reduce_sum(hit, dims), x, dims)};
}
void Reduce::lower(hlo::Writer& w, const Node& node) const {
  const Tensor init = identity(kind, node.types[0].dtype);
  w.nodes({init});
  const TensorType element{node.types[0].dtype, {}};
  const std::string name = w.fresh();
  w.raw(w.indent() + name + " = \"stablehlo.reduce\"(" + w.value(node.operands[0]) + ", " +
        w.value(init) + ") <{dimensions = " + hlo::i64_array(dims) + "}> (");
  w.region({element, element}, [&](const std::vector<std::string>& args) {
    const std::string sum =
        w.emit(kOps[static_cast<size_t>(kind)], args, {element, element}, element);
    w.line("\"stablehlo.return\"(" + sum + ") : (" + hlo::type_text(element) + ") -> ()");
  });
  w.raw(") : (" + hlo::type_text(node.operands[0].type()) + ", " + hlo::type_text(element) +
        ") -> " + hlo::type_text(node.types[0]) + "\n");
  w.bind(Tensor(node.shared_from_this(), 0), name);
}

std::vector<TensorType> TopK::infer(Types in) const {
  require_operands(name(), in, 1);
  if (in[0].rank() < 1 || k < 1 || k > in[0].dims.back()) {
    fail(name(),
         "needs 1 <= k <= the last dim, got k = " + std::to_string(k) + " of " + to_string(in[0]));
  }
  Dims dims = in[0].dims;
  dims.back() = k;
  return {{in[0].dtype, dims}, {DType::kS32, dims}};
}
Tensors TopK::vjp(const VjpArgs& a) const {
  if (a.ct[0].empty()) return {Tensor()};
  // One-hot rows of the chosen indices, weighted by their cotangents: k is small.
  const Tensor& x = a.in[0];
  Dims wide = a.ct[0].dims();
  wide.push_back(x.dim(-1));
  std::vector<int64_t> map(a.ct[0].dims().size());
  std::iota(map.begin(), map.end(), 0);
  const auto rank = static_cast<int64_t>(wide.size());
  const Tensor chosen = compare(iota({DType::kS32, wide}, rank - 1),
                                broadcast_in_dim(a.out[1], wide, map), Direction::kEq);
  const Tensor ct = broadcast_in_dim(a.ct[0], wide, map);
  return {reduce_sum(select(chosen, ct, zeros_like(ct)), {rank - 2})};
}
void TopK::lower(hlo::Writer& w, const Node& node) const {
  const std::string name = w.fresh();
  const TensorType& in = node.operands[0].type();
  w.line(name + ":2 = chlo.top_k(" + w.value(node.operands[0]) + ", k = " + std::to_string(k) +
         ") : " + hlo::type_text(in) + " -> (" + hlo::type_text(node.types[0]) + ", " +
         hlo::type_text(node.types[1]) + ")");
  for (uint32_t i = 0; i < 2; ++i) {
    w.bind(Tensor(node.shared_from_this(), i), name + "#" + std::to_string(i));
  }
}

Tensor reduce(ReduceKind kind, const Tensor& x, std::vector<int64_t> dims) {
  dims = positive(x, std::move(dims));
  return dims.empty() ? x : apply(Reduce{kind, std::move(dims)}, {x});
}
Tensor reduce_sum(const Tensor& x, std::vector<int64_t> dims) {
  return reduce(ReduceKind::kSum, x, std::move(dims));
}
Tensor reduce_sum(const Tensor& x) {
  std::vector<int64_t> all(x.dims().size());
  std::iota(all.begin(), all.end(), 0);
  return reduce_sum(x, all);
}
Tensor reduce_max(const Tensor& x, std::vector<int64_t> dims) {
  return reduce(ReduceKind::kMax, x, std::move(dims));
}
Tensor reduce_min(const Tensor& x, std::vector<int64_t> dims) {
  return reduce(ReduceKind::kMin, x, std::move(dims));
}
Tensor keep_dims(const Tensor& reduced, const Tensor& x, const std::vector<int64_t>& dims) {
  Dims kept = x.dims();
  for (int64_t d : positive(x, dims)) kept[static_cast<size_t>(d)] = 1;
  return reshape(reduced, kept);
}
Tensor mean(const Tensor& x, std::vector<int64_t> dims) {
  double count = 1;
  for (int64_t d : dims) count *= static_cast<double>(x.dim(d));
  return reduce_sum(x, std::move(dims)) / count;
}
Tensor argmax(const Tensor& x, int64_t dim) {
  const int64_t d = dim < 0 ? dim + x.rank() : dim;
  const Tensor index = iota({DType::kS32, x.dims()}, d);
  const Tensor best = compare(x, keep_dims(reduce_max(x, {d}), x, {d}), Direction::kEq);
  const Tensor none = full_int(index.type(), x.dim(d) - 1);
  return reduce_min(select(best, index, none), {d});
}
TopKResult top_k(const Tensor& x, int64_t k) {
  const Tensors out = apply_all(TopK{k}, {x});
  return {out[0], out[1]};
}

}  // namespace espalier
