#include "espalier/ops/dot.h"

#include <algorithm>
#include <numeric>

#include "espalier/hlo/writer.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/shape.h"

namespace espalier {
namespace {

using Ints = std::vector<int64_t>;

// Dims of a tensor of this rank in neither list, rising.
Ints free_dims(int64_t rank, const Ints& batch, const Ints& contract) {
  Ints out;
  for (int64_t d = 0; d < rank; ++d) {
    const auto in = [d](const Ints& list) {
      return std::find(list.begin(), list.end(), d) != list.end();
    };
    if (!in(batch) && !in(contract)) out.push_back(d);
  }
  return out;
}

Ints range(int64_t first, size_t count) {
  Ints out(count);
  std::iota(out.begin(), out.end(), first);
  return out;
}

// Cotangent of one operand: the result's cotangent times the other operand over the other's free
// dims, then its dims (batch, mine free, contracted in the other's order) put in my order.
Tensor operand_grad(const Tensor& ct, const Tensor& mine, const Tensor& other, const Ints& my_batch,
                    const Ints& my_contract, const Ints& other_batch, const Ints& other_contract,
                    bool mine_is_left) {
  const Ints my_free = free_dims(mine.rank(), my_batch, my_contract);
  const Ints other_free = free_dims(other.rank(), other_batch, other_contract);
  const auto batches = static_cast<int64_t>(my_batch.size());
  const auto mine_count = static_cast<int64_t>(my_free.size());
  const Ints ct_contract = mine_is_left ? range(batches + mine_count, other_free.size())
                                        : range(batches, other_free.size());
  // The contracted dims come out in the order in which they stand in `other`.
  Ints order(my_contract.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int64_t a, int64_t b) { return other_contract[a] < other_contract[b]; });
  // The right operand's gradient is laid out contracted-first, so that matmul's weight gradient
  // x^T ct is one dot whose result needs no transposition.
  Tensor grad;
  Ints source;  // my dim at each dim of grad
  source.insert(source.end(), my_batch.begin(), my_batch.end());
  if (mine_is_left) {
    grad = dot_general(ct, other, range(0, my_batch.size()), other_batch, ct_contract, other_free);
    source.insert(source.end(), my_free.begin(), my_free.end());
    for (int64_t i : order) source.push_back(my_contract[static_cast<size_t>(i)]);
  } else {
    grad = dot_general(other, ct, other_batch, range(0, my_batch.size()), other_free, ct_contract);
    for (int64_t i : order) source.push_back(my_contract[static_cast<size_t>(i)]);
    source.insert(source.end(), my_free.begin(), my_free.end());
  }
  Ints permutation(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    permutation[static_cast<size_t>(source[i])] = static_cast<int64_t>(i);
  }
  return convert(transpose(grad, permutation), mine.dtype());
}

}  // namespace

std::vector<TensorType> DotGeneral::infer(Types in) const {
  require_operands(name(), in, 2);
  const TensorType &a = in[0], &b = in[1];
  const auto inside = [](const Ints& dims, const TensorType& t) {
    return std::all_of(dims.begin(), dims.end(), [&](int64_t d) { return d >= 0 && d < t.rank(); });
  };
  const auto distinct = [](Ints dims, const Ints& more) {
    dims.insert(dims.end(), more.begin(), more.end());
    std::sort(dims.begin(), dims.end());
    return std::adjacent_find(dims.begin(), dims.end()) == dims.end();
  };
  bool ok = a.dtype == b.dtype && left_batch.size() == right_batch.size() &&
            left_contract.size() == right_contract.size() && inside(left_batch, a) &&
            inside(left_contract, a) && inside(right_batch, b) && inside(right_contract, b) &&
            distinct(left_batch, left_contract) && distinct(right_batch, right_contract);
  for (size_t i = 0; ok && i < left_batch.size(); ++i) {
    ok = a.dims[left_batch[i]] == b.dims[right_batch[i]];
  }
  for (size_t i = 0; ok && i < left_contract.size(); ++i) {
    ok = a.dims[left_contract[i]] == b.dims[right_contract[i]];
  }
  if (!ok) {
    fail(name(), "needs equal types and equal sizes in distinct batch dims " +
                     to_string(left_batch) + " and " + to_string(right_batch) +
                     " and contracted dims " + to_string(left_contract) + " and " +
                     to_string(right_contract) + ", got " + to_string(a) + " and " + to_string(b));
  }
  Dims dims;
  for (int64_t d : left_batch) dims.push_back(a.dims[d]);
  for (int64_t d : free_dims(a.rank(), left_batch, left_contract)) dims.push_back(a.dims[d]);
  for (int64_t d : free_dims(b.rank(), right_batch, right_contract)) dims.push_back(b.dims[d]);
  return {{result, dims}};
}

Tensors DotGeneral::vjp(const VjpArgs& a) const {
  const Tensor ct = convert(a.ct[0], a.in[0].dtype());
  return {operand_grad(ct, a.in[0], a.in[1], left_batch, left_contract, right_batch, right_contract,
                       true),
          operand_grad(ct, a.in[1], a.in[0], right_batch, right_contract, left_batch, left_contract,
                       false)};
}

namespace {

// Dims that follow each other, from the first on.
bool consecutive(const Ints& dims) {
  for (size_t i = 1; i < dims.size(); ++i) {
    if (dims[i] != dims[i - 1] + 1) return false;
  }
  return true;
}

// The operand with its contracted dims as one.
std::string merged(hlo::Writer& w, const Tensor& operand, const Ints& contract, TensorType& type) {
  type = operand.type();
  const auto first = type.dims.begin() + contract[0];
  int64_t size = 1;
  for (const int64_t d : contract) size *= type.dims[static_cast<size_t>(d)];
  type.dims.erase(first + 1, first + static_cast<int64_t>(contract.size()));
  type.dims[static_cast<size_t>(contract[0])] = size;
  const std::string id = w.fresh();
  w.line(id + " = stablehlo.reshape " + w.value(operand) + " : (" + hlo::type_text(operand.type()) +
         ") -> " + hlo::type_text(type));
  return id;
}

}  // namespace

void DotGeneral::lower(hlo::Writer& w, const Node& node) const {
  // On one device a product over several dims is one over their merged dim, which XLA for CPU takes
  // as it stands in memory; of several dims it first makes a transposed copy. On a mesh each dim
  // keeps its own sharding.
  if (w.mesh().size() == 1 && left_batch.empty() && left_contract.size() > 1 &&
      consecutive(left_contract) && consecutive(right_contract)) {
    TensorType left, right;
    const std::string a = merged(w, node.operands[0], left_contract, left);
    const std::string b = merged(w, node.operands[1], right_contract, right);
    const std::string id = w.fresh();
    w.line(id + " = stablehlo.dot_general " + a + ", " + b + ", contracting_dims = [" +
           std::to_string(left_contract[0]) + "] x [" + std::to_string(right_contract[0]) +
           "] : (" + hlo::type_text(left) + ", " + hlo::type_text(right) + ") -> " +
           hlo::type_text(node.types[0]));
    w.bind(Tensor(node.shared_from_this(), 0), id);
    return;
  }
  std::string dims;
  const auto list = [&](const char* key, const Ints& values) {
    if (!values.empty())
      dims += (dims.empty() ? "" : ", ") + std::string(key) + " = " + to_string(values);
  };
  list("lhs_batching_dimensions", left_batch);
  list("rhs_batching_dimensions", right_batch);
  list("lhs_contracting_dimensions", left_contract);
  list("rhs_contracting_dimensions", right_contract);
  w.generic(node, "stablehlo.dot_general", "dot_dimension_numbers = #stablehlo.dot<" + dims + ">");
}

Tensor dot_general(const Tensor& left, const Tensor& right, Ints left_batch, Ints right_batch,
                   Ints left_contract, Ints right_contract, std::optional<DType> result) {
  return apply(DotGeneral{std::move(left_batch), std::move(right_batch), std::move(left_contract),
                          std::move(right_contract), result.value_or(left.dtype())},
               {left, right});
}

Tensor matmul(const Tensor& x, const Tensor& w) {
  if (x.rank() < 1 || w.rank() != 2) {
    fail("matmul", "needs x (..., K) and w (K, N), got " + to_string(x.type()) + " and " +
                       to_string(w.type()));
  }
  return dot_general(x, w, {}, {}, {x.rank() - 1}, {0});
}

Tensor matmul_transposed(const Tensor& x, const Tensor& w) {
  if (x.rank() < 1 || w.rank() != 2) {
    fail("matmul", "needs x (..., K) and w (N, K), got " + to_string(x.type()) + " and " +
                       to_string(w.type()));
  }
  return dot_general(x, w, {}, {}, {x.rank() - 1}, {1});
}

}  // namespace espalier
