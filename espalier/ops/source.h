// Values without operands: constants and iota.
#pragma once

#include "espalier/base/host_array.h"
#include "espalier/ir/op.h"

namespace espalier {

// One number in every element. Integers and bools are stored exactly in `integer`.
struct Splat {
  TensorType type;
  double value = 0;
  int64_t integer = 0;

  std::string_view name() const { return "splat"; }
  bool operator==(const Splat& other) const;  // by bits: -0.0 is not 0.0
  std::vector<TensorType> infer(Types in) const;
  Tensors vjp(const VjpArgs& args) const;
  void lower(hlo::Writer& writer, const Node& node) const;
};

// A dense constant of at most a few thousand elements: it is printed in full. f32, f64, s32, s64,
// u32 and bool.
struct Constant {
  HostArray array;

  std::string_view name() const { return "constant"; }
  bool operator==(const Constant& other) const;
  std::vector<TensorType> infer(Types in) const;
  Tensors vjp(const VjpArgs& args) const;
  void lower(hlo::Writer& writer, const Node& node) const;
};

// Element index along `dim`.
struct Iota {
  TensorType type;
  int64_t dim = 0;

  std::string_view name() const { return "iota"; }
  bool operator==(const Iota&) const = default;
  std::vector<TensorType> infer(Types in) const;
  Tensors vjp(const VjpArgs& args) const;
  void lower(hlo::Writer& writer, const Node& node) const;
};

Tensor full(TensorType type, double value);
// The value exactly. Throws Error where the type cannot hold it: a bool holds 0 and 1; an unsigned
// type takes a negative value of as many bits too, for its two's complement (-1: all bits set).
Tensor full_int(TensorType type, int64_t value);
Tensor scalar(DType dtype, double value);
Tensor zeros(TensorType type);
Tensor zeros_like(const Tensor& x);
Tensor ones_like(const Tensor& x);
Tensor constant(HostArray array);
Tensor iota(TensorType type, int64_t dim);

}  // namespace espalier
