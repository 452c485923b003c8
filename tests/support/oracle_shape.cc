// The oracle's operations that move elements.
#include <algorithm>

#include "espalier/ops/gather.h"
#include "espalier/ops/shape.h"
#include "tests/support/oracle_array.h"

namespace espalier::test {
namespace {

// A result whose element at each index is `in`'s element at source(index).
Array moved(const Array& in, const Dims& dims, const std::function<Dims(const Dims&)>& source) {
  Array out({in.type.dtype, dims});
  each_index(dims, [&](const Dims& at) { out.at(at) = in.at(source(at)); });
  return out;
}

Array padded(const Pad& op, const Array& in, const Array& value) {
  Dims dims;
  for (size_t i = 0; i < in.type.dims.size(); ++i) {
    const int64_t n = in.type.dims[i];
    dims.push_back(op.low[i] + n + (n > 0 ? (n - 1) * op.interior[i] : 0) + op.high[i]);
  }
  Array out({in.type.dtype, dims});
  for (Cell& c : out.cells) c = value.cells[0];
  each_index(in.type.dims, [&](const Dims& at) {
    Dims to(at.size());
    bool inside = true;
    for (size_t i = 0; i < at.size(); ++i) {
      to[i] = op.low[i] + at[i] * (op.interior[i] + 1);
      inside &= to[i] >= 0 && to[i] < dims[i];
    }
    if (inside) out.at(to) = in.at(at);
  });
  return out;
}

Array joined(int64_t dim, const Arrays& in) {
  const auto d = static_cast<size_t>(dim);
  TensorType type = in[0].type;
  type.dims[d] = 0;
  for (const Array& x : in) type.dims[d] += x.type.dims[d];
  Array out(type);
  int64_t before = 0;
  for (const Array& x : in) {
    each_index(x.type.dims, [&](Dims at) {
      const Cell& cell = x.at(at);
      at[d] += before;
      out.at(at) = cell;
    });
    before += x.type.dims[d];
  }
  return out;
}

// First indices of a block of these dims, moved inside the array.
Dims block_start(const Array& in, const Dims& block, const Arrays& operands, size_t first) {
  Dims out;
  for (size_t i = 0; i < block.size(); ++i) {
    const int64_t last = in.type.dims[i] - block[i];
    out.push_back(std::clamp<int64_t>(operands[first + i].cells[0].whole, 0, last));
  }
  return out;
}

Dims sum(Dims a, const Dims& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

// Calls visit(row's index, id, index inside the row) for every element of (ids.dims, row dims).
void each_row_element(const Array& table, const Array& ids,
                      const std::function<void(const Dims&, int64_t, Dims)>& visit) {
  Dims dims = ids.type.dims;
  dims.insert(dims.end(), table.type.dims.begin() + 1, table.type.dims.end());
  const auto rank = ids.type.rank();
  each_index(dims, [&](const Dims& at) {
    const Dims which(at.begin(), at.begin() + rank);
    visit(at, ids.at(which).whole, {at.begin() + rank, at.end()});
  });
}

}  // namespace

bool evaluate_shape(const Node& node, const Arrays& in, Arrays& out) {
  if (const auto* op = node.as<Reshape>()) {
    Array same = in[0];
    same.type.dims = op->dims;
    out = {same};
  } else if (const auto* op = node.as<BroadcastInDim>()) {
    out = {moved(in[0], op->dims, [&](const Dims& at) {
      Dims from;
      for (size_t i = 0; i < op->map.size(); ++i) {
        from.push_back(in[0].type.dims[i] == 1 ? 0 : at[static_cast<size_t>(op->map[i])]);
      }
      return from;
    })};
  } else if (const auto* op = node.as<Transpose>()) {
    Dims dims;
    for (int64_t p : op->permutation) dims.push_back(in[0].type.dims[static_cast<size_t>(p)]);
    out = {moved(in[0], dims, [&](const Dims& at) {
      Dims from(at.size());
      for (size_t i = 0; i < at.size(); ++i) from[static_cast<size_t>(op->permutation[i])] = at[i];
      return from;
    })};
  } else if (const auto* op = node.as<Slice>()) {
    Dims dims;
    for (size_t i = 0; i < op->start.size(); ++i) {
      int64_t count = 0;
      for (int64_t k = op->start[i]; k < op->limit[i]; k += op->stride[i]) ++count;
      dims.push_back(count);
    }
    out = {moved(in[0], dims, [&](const Dims& at) {
      Dims from = op->start;
      for (size_t i = 0; i < at.size(); ++i) from[i] += at[i] * op->stride[i];
      return from;
    })};
  } else if (const auto* op = node.as<Pad>()) {
    out = {padded(*op, in[0], in[1])};
  } else if (const auto* op = node.as<Concatenate>()) {
    out = {joined(op->dim, in)};
  } else if (const auto* op = node.as<Reverse>()) {
    out = {moved(in[0], in[0].type.dims, [&](Dims at) {
      for (int64_t d : op->dims) {
        const auto i = static_cast<size_t>(d);
        at[i] = in[0].type.dims[i] - 1 - at[i];
      }
      return at;
    })};
  } else if (const auto* op = node.as<DynamicSlice>()) {
    const Dims start = block_start(in[0], op->dims, in, 1);
    out = {moved(in[0], op->dims, [&](const Dims& at) { return sum(at, start); })};
  } else if (node.as<DynamicUpdateSlice>() != nullptr) {
    const Dims start = block_start(in[0], in[1].type.dims, in, 2);
    Array made = in[0];
    each_index(in[1].type.dims, [&](const Dims& at) { made.at(sum(at, start)) = in[1].at(at); });
    out = {made};
  } else if (node.as<Take>() != nullptr) {
    Array made(node.types[0]);
    each_row_element(in[0], in[1], [&](const Dims& at, int64_t id, Dims rest) {
      rest.insert(rest.begin(), std::clamp<int64_t>(id, 0, in[0].type.dims[0] - 1));
      made.at(at) = in[0].at(rest);
    });
    out = {made};
  } else if (node.as<AddRows>() != nullptr) {
    Array made = in[0];
    each_row_element(in[0], in[1], [&](const Dims& at, int64_t id, Dims rest) {
      if (id < 0 || id >= in[0].type.dims[0]) return;
      rest.insert(rest.begin(), id);
      made.at(rest) = plus(made.type.dtype, made.at(rest), in[2].at(at));
    });
    out = {made};
  } else {
    return false;
  }
  return true;
}

}  // namespace espalier::test
