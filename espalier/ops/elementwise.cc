#include "espalier/ops/elementwise.h"

#include <array>
#include <cmath>
#include <numbers>

#include "espalier/hlo/writer.h"
#include "espalier/ops/shape.h"
#include "espalier/ops/source.h"

namespace espalier {
namespace {

enum class Accepts { kFloat, kSigned, kNumber, kInteger, kBits };

void require_accepted(std::string_view name, Accepts accepts, DType dtype) {
  struct Need {
    bool ok;
    const char* what;
  };
  const auto need = [&]() -> Need {
    switch (accepts) {
      case Accepts::kFloat:
        return {is_floating(dtype), "floating-point elements"};
      case Accepts::kSigned:
        return {dtype != DType::kBool && !is_unsigned(dtype), "signed numbers"};
      case Accepts::kNumber:
        return {dtype != DType::kBool, "numbers"};
      case Accepts::kInteger:
        return {is_integer(dtype), "integers"};
      case Accepts::kBits:
        break;
    }
    return {!is_floating(dtype), "integers or bools"};
  }();
  if (!need.ok) fail(name, std::string("needs ") + need.what + ", got " + hlo_name(dtype));
}

// One row per unary operation: `grad(x, y, ct)` is the cotangent of x, null where it is zero.
struct UnaryRow {
  UnaryKind kind;
  const char* name;
  const char* op;
  Accepts accepts;
  Tensor (*grad)(const Tensor& x, const Tensor& y, const Tensor& ct);
};

constexpr auto kNoGrad = nullptr;

const std::array<UnaryRow, kUnaryKinds> kUnary = {{
    {UnaryKind::kNeg, "neg", "stablehlo.negate", Accepts::kNumber,
     [](const Tensor&, const Tensor&, const Tensor& ct) { return neg(ct); }},
    {UnaryKind::kAbs, "abs", "stablehlo.abs", Accepts::kSigned,
     [](const Tensor& x, const Tensor&, const Tensor& ct) { return ct * sign(x); }},
    {UnaryKind::kSign, "sign", "stablehlo.sign", Accepts::kSigned, kNoGrad},
    {UnaryKind::kExp, "exp", "stablehlo.exponential", Accepts::kFloat,
     [](const Tensor&, const Tensor& y, const Tensor& ct) { return ct * y; }},
    {UnaryKind::kExpm1, "expm1", "stablehlo.exponential_minus_one", Accepts::kFloat,
     [](const Tensor&, const Tensor& y, const Tensor& ct) { return ct * (y + 1.0); }},
    {UnaryKind::kLog, "log", "stablehlo.log", Accepts::kFloat,
     [](const Tensor& x, const Tensor&, const Tensor& ct) { return ct / x; }},
    {UnaryKind::kLog1p, "log1p", "stablehlo.log_plus_one", Accepts::kFloat,
     [](const Tensor& x, const Tensor&, const Tensor& ct) { return ct / (x + 1.0); }},
    {UnaryKind::kTanh, "tanh", "stablehlo.tanh", Accepts::kFloat,
     [](const Tensor&, const Tensor& y, const Tensor& ct) { return ct * (1.0 - y * y); }},
    {UnaryKind::kLogistic, "logistic", "stablehlo.logistic", Accepts::kFloat,
     [](const Tensor&, const Tensor& y, const Tensor& ct) { return ct * y * (1.0 - y); }},
    {UnaryKind::kSqrt, "sqrt", "stablehlo.sqrt", Accepts::kFloat,
     [](const Tensor&, const Tensor& y, const Tensor& ct) { return ct * 0.5 / y; }},
    {UnaryKind::kRsqrt, "rsqrt", "stablehlo.rsqrt", Accepts::kFloat,
     [](const Tensor& x, const Tensor& y, const Tensor& ct) { return ct * -0.5 * y / x; }},
    {UnaryKind::kSin, "sin", "stablehlo.sine", Accepts::kFloat,
     [](const Tensor& x, const Tensor&, const Tensor& ct) { return ct * cos(x); }},
    {UnaryKind::kCos, "cos", "stablehlo.cosine", Accepts::kFloat,
     [](const Tensor& x, const Tensor&, const Tensor& ct) { return neg(ct * sin(x)); }},
    {UnaryKind::kFloor, "floor", "stablehlo.floor", Accepts::kFloat, kNoGrad},
    {UnaryKind::kCeil, "ceil", "stablehlo.ceil", Accepts::kFloat, kNoGrad},
    {UnaryKind::kNot, "not", "stablehlo.not", Accepts::kBits, kNoGrad},
    {UnaryKind::kErf, "erf", "chlo.erf", Accepts::kFloat,
     [](const Tensor& x, const Tensor&, const Tensor& ct) {
       return ct * exp(neg(x * x)) * (2.0 / std::sqrt(std::numbers::pi));
     }},
    {UnaryKind::kErfInv, "erf_inv", "chlo.erf_inv", Accepts::kFloat,
     [](const Tensor&, const Tensor& y, const Tensor& ct) {
       return ct * exp(y * y) * (std::sqrt(std::numbers::pi) / 2.0);
     }},
    {UnaryKind::kIsFinite, "is_finite", "stablehlo.is_finite", Accepts::kFloat, kNoGrad},
}};

const UnaryRow& row(UnaryKind kind) { return kUnary[static_cast<size_t>(kind)]; }

// One row per binary operation: `grad` sets the cotangents of both operands.
struct BinaryRow {
  BinaryKind kind;
  const char* name;
  const char* op;
  Accepts accepts;
  Tensors (*grad)(const Tensor& a, const Tensor& b, const Tensor& y, const Tensor& ct);
};

// Cotangents of max and min: all to the operand that won, half to each where they are equal.
Tensors extremum_grad(const Tensor& a, const Tensor& b, const Tensor& y, const Tensor& ct) {
  const Tensor half = ct * 0.5, none = zeros_like(ct);
  const Tensor equal = compare(a, b, Direction::kEq);
  const auto share = [&](const Tensor& x) {
    return select(equal, half, select(compare(x, y, Direction::kEq), ct, none));
  };
  return {share(a), share(b)};
}

// d a^b: b a^(b-1), 0 at b = 0 even where a = 0, and a^b ln a, 0 at a = 0.
Tensors pow_grad(const Tensor& a, const Tensor& b, const Tensor& y, const Tensor& ct) {
  const Tensor zero = compare(a, 0.0, Direction::kEq);
  const Tensor safe = select(zero, ones_like(a), a);
  const Tensor less = select(compare(b, 0.0, Direction::kEq), zeros_like(b), b - 1.0);
  return {ct * b * pow(a, less), ct * y * select(zero, zeros_like(a), log(safe))};
}

// x mod m = x - m trunc(x / m).
Tensors rem_grad(const Tensor& a, const Tensor& b, const Tensor&, const Tensor& ct) {
  const Tensor quotient = a / b;
  return {ct, neg(ct * sign(quotient) * floor(abs(quotient)))};
}

const std::array<BinaryRow, kBinaryKinds> kBinary = {{
    {BinaryKind::kAdd, "add", "stablehlo.add", Accepts::kNumber,
     [](const Tensor&, const Tensor&, const Tensor&, const Tensor& ct) {
       return Tensors{ct, ct};
     }},
    {BinaryKind::kSub, "sub", "stablehlo.subtract", Accepts::kNumber,
     [](const Tensor&, const Tensor&, const Tensor&, const Tensor& ct) {
       return Tensors{ct, neg(ct)};
     }},
    {BinaryKind::kMul, "mul", "stablehlo.multiply", Accepts::kNumber,
     [](const Tensor& a, const Tensor& b, const Tensor&, const Tensor& ct) {
       return Tensors{ct * b, ct * a};
     }},
    {BinaryKind::kDiv, "div", "stablehlo.divide", Accepts::kNumber,
     [](const Tensor&, const Tensor& b, const Tensor& y, const Tensor& ct) {
       return Tensors{ct / b, neg(ct * y / b)};
     }},
    {BinaryKind::kMax, "max", "stablehlo.maximum", Accepts::kNumber, extremum_grad},
    {BinaryKind::kMin, "min", "stablehlo.minimum", Accepts::kNumber, extremum_grad},
    {BinaryKind::kPow, "pow", "stablehlo.power", Accepts::kNumber, pow_grad},
    {BinaryKind::kRem, "rem", "stablehlo.remainder", Accepts::kNumber, rem_grad},
    {BinaryKind::kAnd, "and", "stablehlo.and", Accepts::kBits, kNoGrad},
    {BinaryKind::kOr, "or", "stablehlo.or", Accepts::kBits, kNoGrad},
    {BinaryKind::kXor, "xor", "stablehlo.xor", Accepts::kBits, kNoGrad},
    {BinaryKind::kShiftLeft, "shift_left", "stablehlo.shift_left", Accepts::kInteger, kNoGrad},
    {BinaryKind::kShiftRight, "shift_right", "stablehlo.shift_right_logical", Accepts::kInteger,
     kNoGrad},
}};

const BinaryRow& row(BinaryKind kind) { return kBinary[static_cast<size_t>(kind)]; }

Tensor broadcast_binary(BinaryKind kind, const Tensor& a, const Tensor& b) {
  const Dims dims = broadcast_dims(row(kind).name, a.dims(), b.dims());
  return apply(Binary{kind}, {broadcast_to(a, dims), broadcast_to(b, dims)});
}

void require_equal_types(std::string_view name, Types in) {
  require_operands(name, in, 2);
  if (in[0] != in[1]) {
    fail(name,
         "needs operands of equal type, got " + to_string(in[0]) + " and " + to_string(in[1]));
  }
}

constexpr const char* kDirections[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};

}  // namespace

std::string_view Unary::name() const { return row(kind).name; }
std::vector<TensorType> Unary::infer(Types in) const {
  require_operands(name(), in, 1);
  require_accepted(name(), row(kind).accepts, in[0].dtype);
  return {{kind == UnaryKind::kIsFinite ? DType::kBool : in[0].dtype, in[0].dims}};
}
Tensors Unary::vjp(const VjpArgs& a) const {
  const auto grad = row(kind).grad;
  return {grad == nullptr ? Tensor() : grad(a.in[0], a.out[0], a.ct[0])};
}
void Unary::lower(hlo::Writer& w, const Node& node) const { w.generic(node, row(kind).op); }

std::string_view Binary::name() const { return row(kind).name; }
std::vector<TensorType> Binary::infer(Types in) const {
  require_equal_types(name(), in);
  const bool extremum_of_bools =
      in[0].dtype == DType::kBool && (kind == BinaryKind::kMax || kind == BinaryKind::kMin);
  if (!extremum_of_bools) require_accepted(name(), row(kind).accepts, in[0].dtype);
  return {in[0]};
}
Tensors Binary::vjp(const VjpArgs& a) const {
  const auto grad = row(kind).grad;
  if (grad == nullptr) return {Tensor(), Tensor()};
  return grad(a.in[0], a.in[1], a.out[0], a.ct[0]);
}
void Binary::lower(hlo::Writer& w, const Node& node) const { w.pretty(node, row(kind).op); }

std::vector<TensorType> Compare::infer(Types in) const {
  require_equal_types(name(), in);
  return {{DType::kBool, in[0].dims}};
}
Tensors Compare::vjp(const VjpArgs&) const { return {Tensor(), Tensor()}; }
void Compare::lower(hlo::Writer& w, const Node& node) const {
  const DType dtype = node.operands[0].dtype();
  const char* type = is_floating(dtype)                            ? "FLOAT"
                     : is_unsigned(dtype) || dtype == DType::kBool ? "UNSIGNED"
                                                                   : "SIGNED";
  w.generic(node, "stablehlo.compare",
            std::string("compare_type = #stablehlo<comparison_type ") + type +
                ">, comparison_direction = #stablehlo<comparison_direction " +
                kDirections[static_cast<size_t>(direction)] + ">");
}

std::vector<TensorType> Select::infer(Types in) const {
  require_operands(name(), in, 3);
  if (in[0].dtype != DType::kBool || in[0].dims != in[1].dims || in[1] != in[2]) {
    fail(name(), "needs a bool mask and two operands of one type, all of one shape, got " +
                     to_string(in[0]) + ", " + to_string(in[1]) + " and " + to_string(in[2]));
  }
  return {in[1]};
}
Tensors Select::vjp(const VjpArgs& a) const {
  const Tensor none = zeros_like(a.ct[0]);
  return {Tensor(), select(a.in[0], a.ct[0], none), select(a.in[0], none, a.ct[0])};
}
void Select::lower(hlo::Writer& w, const Node& node) const { w.generic(node, "stablehlo.select"); }

std::vector<TensorType> Convert::infer(Types in) const {
  require_operands(name(), in, 1);
  return {{dtype, in[0].dims}};
}
Tensors Convert::vjp(const VjpArgs& a) const {
  const DType from = a.in[0].dtype();
  if (!is_floating(from) || !is_floating(dtype)) return {Tensor()};
  return {convert(a.ct[0], from)};
}
void Convert::lower(hlo::Writer& w, const Node& node) const {
  w.generic(node, "stablehlo.convert");
}

std::vector<TensorType> BitcastConvert::infer(Types in) const {
  require_operands(name(), in, 1);
  const bool is_bool =
      in[0].dtype == DType::kBool || dtype == DType::kBool;  // one bit in StableHLO
  if (is_bool || byte_size(in[0].dtype) != byte_size(dtype)) {
    fail(name(), std::string("needs types of equal width, got ") + hlo_name(in[0].dtype) + " and " +
                     hlo_name(dtype));
  }
  return {{dtype, in[0].dims}};
}
Tensors BitcastConvert::vjp(const VjpArgs&) const { return {Tensor()}; }
void BitcastConvert::lower(hlo::Writer& w, const Node& node) const {
  w.generic(node, "stablehlo.bitcast_convert");
}

Tensor neg(const Tensor& x) { return apply(Unary{UnaryKind::kNeg}, {x}); }
Tensor abs(const Tensor& x) { return apply(Unary{UnaryKind::kAbs}, {x}); }
Tensor sign(const Tensor& x) { return apply(Unary{UnaryKind::kSign}, {x}); }
Tensor exp(const Tensor& x) { return apply(Unary{UnaryKind::kExp}, {x}); }
Tensor expm1(const Tensor& x) { return apply(Unary{UnaryKind::kExpm1}, {x}); }
Tensor log(const Tensor& x) { return apply(Unary{UnaryKind::kLog}, {x}); }
Tensor log1p(const Tensor& x) { return apply(Unary{UnaryKind::kLog1p}, {x}); }
Tensor tanh(const Tensor& x) { return apply(Unary{UnaryKind::kTanh}, {x}); }
Tensor logistic(const Tensor& x) { return apply(Unary{UnaryKind::kLogistic}, {x}); }
Tensor sqrt(const Tensor& x) { return apply(Unary{UnaryKind::kSqrt}, {x}); }
Tensor rsqrt(const Tensor& x) { return apply(Unary{UnaryKind::kRsqrt}, {x}); }
Tensor sin(const Tensor& x) { return apply(Unary{UnaryKind::kSin}, {x}); }
Tensor cos(const Tensor& x) { return apply(Unary{UnaryKind::kCos}, {x}); }
Tensor floor(const Tensor& x) { return apply(Unary{UnaryKind::kFloor}, {x}); }
Tensor ceil(const Tensor& x) { return apply(Unary{UnaryKind::kCeil}, {x}); }
Tensor logical_not(const Tensor& x) { return apply(Unary{UnaryKind::kNot}, {x}); }
Tensor erf(const Tensor& x) { return apply(Unary{UnaryKind::kErf}, {x}); }
Tensor erf_inv(const Tensor& x) { return apply(Unary{UnaryKind::kErfInv}, {x}); }
Tensor is_finite(const Tensor& x) { return apply(Unary{UnaryKind::kIsFinite}, {x}); }

Tensor add(const Tensor& a, const Tensor& b) { return broadcast_binary(BinaryKind::kAdd, a, b); }
Tensor sub(const Tensor& a, const Tensor& b) { return broadcast_binary(BinaryKind::kSub, a, b); }
Tensor mul(const Tensor& a, const Tensor& b) { return broadcast_binary(BinaryKind::kMul, a, b); }
Tensor div(const Tensor& a, const Tensor& b) { return broadcast_binary(BinaryKind::kDiv, a, b); }
Tensor max(const Tensor& a, const Tensor& b) { return broadcast_binary(BinaryKind::kMax, a, b); }
Tensor min(const Tensor& a, const Tensor& b) { return broadcast_binary(BinaryKind::kMin, a, b); }
Tensor pow(const Tensor& a, const Tensor& b) { return broadcast_binary(BinaryKind::kPow, a, b); }
Tensor rem(const Tensor& a, const Tensor& b) { return broadcast_binary(BinaryKind::kRem, a, b); }
Tensor bit_and(const Tensor& a, const Tensor& b) {
  return broadcast_binary(BinaryKind::kAnd, a, b);
}
Tensor bit_or(const Tensor& a, const Tensor& b) { return broadcast_binary(BinaryKind::kOr, a, b); }
Tensor bit_xor(const Tensor& a, const Tensor& b) {
  return broadcast_binary(BinaryKind::kXor, a, b);
}
Tensor shift_left(const Tensor& a, const Tensor& b) {
  return broadcast_binary(BinaryKind::kShiftLeft, a, b);
}
Tensor shift_right(const Tensor& a, const Tensor& b) {
  return broadcast_binary(BinaryKind::kShiftRight, a, b);
}

Tensor compare(const Tensor& a, const Tensor& b, Direction direction) {
  const Dims dims = broadcast_dims("compare", a.dims(), b.dims());
  return apply(Compare{direction}, {broadcast_to(a, dims), broadcast_to(b, dims)});
}
Tensor select(const Tensor& mask, const Tensor& on_true, const Tensor& on_false) {
  const Dims dims = broadcast_dims("select", mask.dims(),
                                   broadcast_dims("select", on_true.dims(), on_false.dims()));
  return apply(Select{}, {broadcast_to(mask, dims), broadcast_to(on_true, dims),
                          broadcast_to(on_false, dims)});
}
Tensor convert(const Tensor& x, DType dtype) {
  return x.dtype() == dtype ? x : apply(Convert{dtype}, {x});
}
Tensor bitcast_convert(const Tensor& x, DType dtype) {
  return x.dtype() == dtype ? x : apply(BitcastConvert{dtype}, {x});
}

Tensor add(const Tensor& a, double b) { return add(a, full(a.type(), b)); }
Tensor sub(const Tensor& a, double b) { return sub(a, full(a.type(), b)); }
Tensor mul(const Tensor& a, double b) { return mul(a, full(a.type(), b)); }
Tensor div(const Tensor& a, double b) { return div(a, full(a.type(), b)); }
Tensor max(const Tensor& a, double b) { return max(a, full(a.type(), b)); }
Tensor compare(const Tensor& a, double b, Direction direction) {
  return compare(a, full(a.type(), b), direction);
}
Tensor operator-(double a, const Tensor& b) { return sub(full(b.type(), a), b); }

}  // namespace espalier
