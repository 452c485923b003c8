// Elementwise operations: one row of a table each (see elementwise.cc), plus compare, select and
// conversions. Binary functions broadcast as NumPy does; the operations themselves do not.
#pragma once

#include "espalier/ir/op.h"

namespace espalier {

enum class UnaryKind {
  kNeg,
  kAbs,
  kSign,
  kExp,
  kExpm1,
  kLog,
  kLog1p,
  kTanh,
  kLogistic,
  kSqrt,
  kRsqrt,
  kSin,
  kCos,
  kFloor,
  kCeil,
  kNot,
  kErf,
  kErfInv,
  kIsFinite,
};
inline constexpr int kUnaryKinds = 19;

struct Unary {
  UnaryKind kind;

  std::string_view name() const;
  bool operator==(const Unary&) const = default;
  std::vector<TensorType> infer(Types in) const;
  Tensors vjp(const VjpArgs& args) const;
  void lower(hlo::Writer& writer, const Node& node) const;
};

enum class BinaryKind {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMax,
  kMin,
  kPow,
  kRem,
  kAnd,
  kOr,
  kXor,
  kShiftLeft,
  kShiftRight,
};
inline constexpr int kBinaryKinds = 13;

// Operands of equal type. kShiftRight is logical (fills with zeros). kMax and kMin give each of two
// equal operands half of the cotangent, as jax.lax does.
struct Binary {
  BinaryKind kind;

  std::string_view name() const;
  bool operator==(const Binary&) const = default;
  std::vector<TensorType> infer(Types in) const;
  Tensors vjp(const VjpArgs& args) const;
  void lower(hlo::Writer& writer, const Node& node) const;
};

enum class Direction { kEq, kNe, kLt, kLe, kGt, kGe };

// Operands of equal type; a bool result.
struct Compare {
  Direction direction;

  std::string_view name() const { return "compare"; }
  bool operator==(const Compare&) const = default;
  std::vector<TensorType> infer(Types in) const;
  Tensors vjp(const VjpArgs& args) const;
  void lower(hlo::Writer& writer, const Node& node) const;
};

// (bool mask, on_true, on_false), all of one shape.
struct Select {
  std::string_view name() const { return "select"; }
  bool operator==(const Select&) const = default;
  std::vector<TensorType> infer(Types in) const;
  Tensors vjp(const VjpArgs& args) const;
  void lower(hlo::Writer& writer, const Node& node) const;
};

// Element type by value: 1.7f becomes 1.
struct Convert {
  DType dtype;

  std::string_view name() const { return "convert"; }
  bool operator==(const Convert&) const = default;
  std::vector<TensorType> infer(Types in) const;
  Tensors vjp(const VjpArgs& args) const;
  void lower(hlo::Writer& writer, const Node& node) const;
};

// Element type by bits, of equal width.
struct BitcastConvert {
  DType dtype;

  std::string_view name() const { return "bitcast_convert"; }
  bool operator==(const BitcastConvert&) const = default;
  std::vector<TensorType> infer(Types in) const;
  Tensors vjp(const VjpArgs& args) const;
  void lower(hlo::Writer& writer, const Node& node) const;
};

Tensor neg(const Tensor& x);
Tensor abs(const Tensor& x);
Tensor sign(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor expm1(const Tensor& x);
Tensor log(const Tensor& x);
Tensor log1p(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor logistic(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
Tensor logical_not(const Tensor& x);  // bitwise on integers
Tensor erf(const Tensor& x);
Tensor erf_inv(const Tensor& x);
Tensor is_finite(const Tensor& x);

Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
Tensor max(const Tensor& a, const Tensor& b);
Tensor min(const Tensor& a, const Tensor& b);
Tensor pow(const Tensor& a, const Tensor& b);
Tensor rem(const Tensor& a, const Tensor& b);
Tensor bit_and(const Tensor& a, const Tensor& b);
Tensor bit_or(const Tensor& a, const Tensor& b);
Tensor bit_xor(const Tensor& a, const Tensor& b);
Tensor shift_left(const Tensor& a, const Tensor& b);
Tensor shift_right(const Tensor& a, const Tensor& b);

Tensor compare(const Tensor& a, const Tensor& b, Direction direction);
// Broadcasts all three.
Tensor select(const Tensor& mask, const Tensor& on_true, const Tensor& on_false);
// The tensor itself when it has that type already.
Tensor convert(const Tensor& x, DType dtype);
Tensor bitcast_convert(const Tensor& x, DType dtype);

// A number takes the tensor's element type.
Tensor add(const Tensor& a, double b);
Tensor sub(const Tensor& a, double b);
Tensor mul(const Tensor& a, double b);
Tensor div(const Tensor& a, double b);
Tensor max(const Tensor& a, double b);
Tensor compare(const Tensor& a, double b, Direction direction);

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator-(const Tensor& a) { return neg(a); }
inline Tensor operator+(const Tensor& a, double b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, double b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, double b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, double b) { return div(a, b); }
Tensor operator-(double a, const Tensor& b);

}  // namespace espalier
