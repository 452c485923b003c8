// Values of the oracle and the pieces that its files share; internal to tests/support.
#pragma once

#include <functional>
#include <vector>

#include "espalier/base/host_array.h"
#include "espalier/ir/op.h"
#include "espalier/ir/tensor.h"

namespace espalier::test {

// An element: `real` where the type is floating, else `whole` (bools are 0 and 1, u64 its bits).
struct Cell {
  double real = 0;
  int64_t whole = 0;
};

struct Array {
  TensorType type;
  std::vector<Cell> cells;  // row-major

  Array() = default;
  explicit Array(TensorType t) : type(std::move(t)) {
    cells.resize(static_cast<size_t>(num_elements(type.dims)));
  }
  Cell& at(const Dims& index) { return cells[offset(index)]; }
  const Cell& at(const Dims& index) const { return cells[offset(index)]; }
  size_t offset(const Dims& index) const;
};

// One array per device; a single one outside of manual regions.
using Lanes = std::vector<Array>;
using Arrays = std::vector<Array>;

Array load(const HostArray& array);
HostArray store(const Array& array);

// The element as the type can hold it: rounded, or wrapped around.
Cell fit(DType dtype, Cell cell);
bool less(DType dtype, const Cell& a, const Cell& b);
bool equal(DType dtype, const Cell& a, const Cell& b);
// a + b in the type.
Cell plus(DType dtype, const Cell& a, const Cell& b);

// Calls `visit` with every index of an array of these dims, in row-major order.
void each_index(const Dims& dims, const std::function<void(const Dims&)>& visit);

// Operations that look at one device alone: false where the node is none of theirs.
bool evaluate_elementwise(const Node& node, const Arrays& in, Arrays& out);
bool evaluate_shape(const Node& node, const Arrays& in, Arrays& out);
bool evaluate_sums(const Node& node, const Arrays& in, Arrays& out);
// Operations with bodies, and those that look at several devices.
bool evaluate_control(const Node& node, const std::vector<Lanes>& in, size_t lanes,
                      std::vector<Lanes>& out);
bool evaluate_manual(const Node& node, const std::vector<Lanes>& in, std::vector<Lanes>& out);

// The function on `lanes` devices in step; arguments and results [value][device].
std::vector<Lanes> run(const Function& function, const std::vector<Lanes>& arguments, size_t lanes);

}  // namespace espalier::test
