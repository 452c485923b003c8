// The oracle's reductions, products, top_k and Threefry.
#include <algorithm>
#include <array>
#include <limits>

#include "espalier/ops/dot.h"
#include "espalier/ops/reduce.h"
#include "espalier/ops/threefry.h"
#include "tests/support/oracle_array.h"

namespace espalier::test {
namespace {

bool holds(const std::vector<int64_t>& list, int64_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// What a reduction of no elements gives.
Cell start_of(ReduceKind kind, DType dtype) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  const bool top = is_unsigned(dtype) || dtype == DType::kBool;
  const int64_t largest =
      fit(dtype, {0, top ? -1 : ~(int64_t{1} << (8 * byte_size(dtype) - 1))}).whole;
  const int64_t smallest = top ? 0 : -largest - 1;
  switch (kind) {
    case ReduceKind::kSum:
    case ReduceKind::kOr:
      break;
    case ReduceKind::kAnd:
      return fit(dtype, {0, -1});
    case ReduceKind::kMax:
      return {-kInfinite, smallest};
    case ReduceKind::kMin:
      return {kInfinite, largest};
  }
  return {};
}

Cell combined(ReduceKind kind, DType dtype, const Cell& a, const Cell& b) {
  switch (kind) {
    case ReduceKind::kSum:  // rounded at the end alone
      return {a.real + b.real, static_cast<int64_t>(static_cast<uint64_t>(a.whole) +
                                                    static_cast<uint64_t>(b.whole))};
    case ReduceKind::kMax:
      return less(dtype, a, b) ? b : a;
    case ReduceKind::kMin:
      return less(dtype, b, a) ? b : a;
    case ReduceKind::kAnd:
      return {0, a.whole & b.whole};
    case ReduceKind::kOr:
      return {0, a.whole | b.whole};
  }
  return {};
}

Array reduced(const Reduce& op, const Array& in) {
  const DType dtype = in.type.dtype;
  Dims dims;
  for (int64_t d = 0; d < in.type.rank(); ++d) {
    if (!holds(op.dims, d)) dims.push_back(in.type.dims[static_cast<size_t>(d)]);
  }
  Array out({dtype, dims});
  for (Cell& c : out.cells) c = start_of(op.kind, dtype);
  each_index(in.type.dims, [&](const Dims& at) {
    Dims to;
    for (int64_t d = 0; d < in.type.rank(); ++d) {
      if (!holds(op.dims, d)) to.push_back(at[static_cast<size_t>(d)]);
    }
    Cell& cell = out.at(to);
    cell = combined(op.kind, dtype, cell, in.at(at));
  });
  for (Cell& c : out.cells) c = fit(dtype, c);
  return out;
}

Arrays top(const TopK& op, const Array& in) {
  Dims rows = in.type.dims;
  const int64_t n = rows.back();
  rows.back() = op.k;
  Array values({in.type.dtype, rows}), indices({DType::kS32, rows});
  rows.pop_back();
  each_index(rows, [&](Dims at) {
    at.push_back(0);
    std::vector<bool> taken(static_cast<size_t>(n));
    for (int64_t k = 0; k < op.k; ++k) {
      int64_t best = -1;
      const auto cell = [&](int64_t i) {
        at.back() = i;
        return in.at(at);
      };
      for (int64_t i = 0; i < n; ++i) {
        if (taken[static_cast<size_t>(i)]) continue;
        if (best < 0 || less(in.type.dtype, cell(best), cell(i))) best = i;
      }
      taken[static_cast<size_t>(best)] = true;
      const Cell found = cell(best);
      at.back() = k;
      values.at(at) = found;
      indices.at(at) = {0, best};
    }
  });
  return {values, indices};
}

Array product(const DotGeneral& op, const Array& a, const Array& b, const TensorType& type) {
  std::vector<size_t> left_free, right_free;
  for (int64_t d = 0; d < a.type.rank(); ++d) {
    if (!holds(op.left_batch, d) && !holds(op.left_contract, d)) left_free.push_back(d);
  }
  for (int64_t d = 0; d < b.type.rank(); ++d) {
    if (!holds(op.right_batch, d) && !holds(op.right_contract, d)) right_free.push_back(d);
  }
  Dims contracted;
  for (int64_t d : op.left_contract) contracted.push_back(a.type.dims[static_cast<size_t>(d)]);
  Array out(type);
  each_index(type.dims, [&](const Dims& at) {
    Dims left(a.type.dims.size()), right(b.type.dims.size());
    size_t next = 0;
    for (size_t i = 0; i < op.left_batch.size(); ++i, ++next) {
      left[static_cast<size_t>(op.left_batch[i])] = at[next];
      right[static_cast<size_t>(op.right_batch[i])] = at[next];
    }
    for (size_t d : left_free) left[d] = at[next++];
    for (size_t d : right_free) right[d] = at[next++];
    double real = 0;
    uint64_t whole = 0;
    each_index(contracted, [&](const Dims& k) {
      for (size_t i = 0; i < k.size(); ++i) {
        left[static_cast<size_t>(op.left_contract[i])] = k[i];
        right[static_cast<size_t>(op.right_contract[i])] = k[i];
      }
      real += a.at(left).real * b.at(right).real;
      whole += static_cast<uint64_t>(a.at(left).whole) * static_cast<uint64_t>(b.at(right).whole);
    });
    out.at(at) = fit(type.dtype, {real, static_cast<int64_t>(whole)});
  });
  return out;
}

// Twenty rounds in the paper's form: four rounds, then a key is injected.
std::array<uint32_t, 2> threefry_block(std::array<uint32_t, 2> key, std::array<uint32_t, 2> x) {
  constexpr std::array<unsigned, 8> kRotate = {13, 15, 26, 6, 17, 29, 16, 24};
  const std::array<uint32_t, 3> schedule = {key[0], key[1], 0x1BD11BDA ^ key[0] ^ key[1]};
  x[0] += schedule[0];
  x[1] += schedule[1];
  for (unsigned round = 0; round < 20; ++round) {
    x[0] += x[1];
    const unsigned r = kRotate[round % 8];
    x[1] = (x[1] << r | x[1] >> (32 - r)) ^ x[0];
    if (round % 4 == 3) {
      const unsigned injection = round / 4 + 1;
      x[0] += schedule[injection % 3];
      x[1] += schedule[(injection + 1) % 3] + injection;
    }
  }
  return x;
}

}  // namespace

bool evaluate_sums(const Node& node, const Arrays& in, Arrays& out) {
  if (const auto* op = node.as<Reduce>()) {
    out = {reduced(*op, in[0])};
  } else if (const auto* op = node.as<TopK>()) {
    out = top(*op, in[0]);
  } else if (const auto* op = node.as<DotGeneral>()) {
    out = {product(*op, in[0], in[1], node.types[0])};
  } else if (node.as<Threefry>() != nullptr) {
    out = {Array(node.types[0]), Array(node.types[1])};
    for (size_t i = 0; i < in[0].cells.size(); ++i) {
      const auto word = [&](size_t k) { return static_cast<uint32_t>(in[k].cells[i].whole); };
      const auto made = threefry_block({word(0), word(1)}, {word(2), word(3)});
      out[0].cells[i].whole = made[0];
      out[1].cells[i].whole = made[1];
    }
  } else {
    return false;
  }
  return true;
}

}  // namespace espalier::test
