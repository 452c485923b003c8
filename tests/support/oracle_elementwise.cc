// The oracle's elementwise operations and constants.
#include <bit>
#include <cmath>

#include "espalier/ops/annotate.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/source.h"
#include "tests/support/oracle_array.h"

namespace espalier::test {
namespace {

// Bisection: erf rises, and beyond 6 it is 1 in double.
double erf_inverse(double y) {
  if (std::abs(y) >= 1) return std::abs(y) > 1 ? std::nan("") : std::copysign(INFINITY, y);
  double low = -6, high = 6;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    (std::erf(middle) < y ? low : high) = middle;
  }
  return (low + high) / 2;
}

double unary_real(UnaryKind kind, double x) {
  switch (kind) {
    case UnaryKind::kNeg:
      return -x;
    case UnaryKind::kAbs:
      return std::abs(x);
    case UnaryKind::kSign:
      return x > 0 ? 1 : x < 0 ? -1 : x;
    case UnaryKind::kExp:
      return std::exp(x);
    case UnaryKind::kExpm1:
      return std::expm1(x);
    case UnaryKind::kLog:
      return std::log(x);
    case UnaryKind::kLog1p:
      return std::log1p(x);
    case UnaryKind::kTanh:
      return std::tanh(x);
    case UnaryKind::kLogistic:
      return 1 / (1 + std::exp(-x));
    case UnaryKind::kSqrt:
      return std::sqrt(x);
    case UnaryKind::kRsqrt:
      return 1 / std::sqrt(x);
    case UnaryKind::kSin:
      return std::sin(x);
    case UnaryKind::kCos:
      return std::cos(x);
    case UnaryKind::kFloor:
      return std::floor(x);
    case UnaryKind::kCeil:
      return std::ceil(x);
    case UnaryKind::kErf:
      return std::erf(x);
    case UnaryKind::kErfInv:
      return erf_inverse(x);
    case UnaryKind::kNot:
    case UnaryKind::kIsFinite:
      break;
  }
  throw Error("[oracle] unary operation on floats");
}

int64_t unary_whole(UnaryKind kind, int64_t x) {
  if (kind == UnaryKind::kNeg) return -x;
  if (kind == UnaryKind::kAbs) return x < 0 ? -x : x;
  if (kind == UnaryKind::kSign) return x > 0 ? 1 : x < 0 ? -1 : 0;
  if (kind == UnaryKind::kNot) return ~x;
  throw Error("[oracle] unary operation on integers");
}

double binary_real(BinaryKind kind, double a, double b) {
  switch (kind) {
    case BinaryKind::kAdd:
      return a + b;
    case BinaryKind::kSub:
      return a - b;
    case BinaryKind::kMul:
      return a * b;
    case BinaryKind::kDiv:
      return a / b;
    case BinaryKind::kMax:
      return a > b ? a : b;
    case BinaryKind::kMin:
      return a < b ? a : b;
    case BinaryKind::kPow:
      return std::pow(a, b);
    case BinaryKind::kRem:
      return std::fmod(a, b);
    default:
      throw Error("[oracle] binary operation on floats");
  }
}

// Unsigned arithmetic wraps around by the language's rules; fit() then narrows it.
int64_t binary_whole(BinaryKind kind, DType dtype, int64_t a, int64_t b) {
  const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  const auto bits = 8 * byte_size(dtype);
  const bool smaller = less(dtype, {0, a}, {0, b});
  switch (kind) {
    case BinaryKind::kAdd:
      return static_cast<int64_t>(x + y);
    case BinaryKind::kSub:
      return static_cast<int64_t>(x - y);
    case BinaryKind::kMul:
      return static_cast<int64_t>(x * y);
    case BinaryKind::kDiv:
      return is_unsigned(dtype) ? static_cast<int64_t>(x / y) : a / b;
    case BinaryKind::kRem:
      return is_unsigned(dtype) ? static_cast<int64_t>(x % y) : a % b;
    case BinaryKind::kMax:
      return smaller ? b : a;
    case BinaryKind::kMin:
      return smaller ? a : b;
    case BinaryKind::kPow: {
      uint64_t power = 1;
      for (int64_t i = 0; i < b; ++i) power *= x;
      return static_cast<int64_t>(power);
    }
    case BinaryKind::kAnd:
      return a & b;
    case BinaryKind::kOr:
      return a | b;
    case BinaryKind::kXor:
      return a ^ b;
    case BinaryKind::kShiftLeft:
      return y >= bits ? 0 : static_cast<int64_t>(x << y);
    case BinaryKind::kShiftRight:
      return y >= bits ? 0 : static_cast<int64_t>((x & (~0ULL >> (64 - bits))) >> y);
  }
  throw Error("[oracle] binary operation on integers");
}

bool holds(Direction direction, bool below, bool same) {
  switch (direction) {
    case Direction::kEq:
      return same;
    case Direction::kNe:
      return !same;
    case Direction::kLt:
      return below;
    case Direction::kLe:
      return below || same;
    case Direction::kGt:
      return !below && !same;
    case Direction::kGe:
      return !below;
  }
  return false;
}

Cell converted(DType from, DType to, const Cell& x) {
  if (is_floating(from)) {
    if (is_floating(to)) return fit(to, x);
    if (to == DType::kBool) return {0, x.real != 0};
    return fit(to, {0, static_cast<int64_t>(x.real)});
  }
  if (is_floating(to)) {
    const bool big = from == DType::kU64;
    return fit(to, {big ? static_cast<double>(static_cast<uint64_t>(x.whole))
                        : static_cast<double>(x.whole),
                    0});
  }
  if (to == DType::kBool) return {0, x.whole != 0};
  return fit(to, x);
}

Cell same_bits(DType from, DType to, const Cell& x) {
  uint64_t bits = static_cast<uint64_t>(x.whole);
  if (from == DType::kF64) bits = std::bit_cast<uint64_t>(x.real);
  if (from == DType::kF32) bits = std::bit_cast<uint32_t>(static_cast<float>(x.real));
  if (from == DType::kBF16) bits = std::bit_cast<uint32_t>(static_cast<float>(x.real)) >> 16;
  if (to == DType::kF64) return {std::bit_cast<double>(bits), 0};
  if (to == DType::kF32) return {std::bit_cast<float>(static_cast<uint32_t>(bits)), 0};
  if (to == DType::kBF16) return {std::bit_cast<float>(static_cast<uint32_t>(bits) << 16), 0};
  return fit(to, {0, static_cast<int64_t>(bits)});
}

bool evaluate_source(const Node& node, Arrays& out) {
  if (const auto* op = node.as<Splat>()) {
    Array made(op->type);
    for (Cell& c : made.cells) c = fit(op->type.dtype, {op->value, op->integer});
    out = {made};
  } else if (const auto* op = node.as<Constant>()) {
    out = {load(op->array)};
  } else if (const auto* op = node.as<Iota>()) {
    Array made(op->type);
    each_index(op->type.dims, [&](const Dims& at) {
      const int64_t i = at[static_cast<size_t>(op->dim)];
      made.at(at) = fit(op->type.dtype, {static_cast<double>(i), i});
    });
    out = {made};
  } else {
    return false;
  }
  return true;
}

}  // namespace

bool evaluate_elementwise(const Node& node, const Arrays& in, Arrays& out) {
  if (evaluate_source(node, out)) return true;
  if (in.empty()) return false;
  if (node.as<Shard>() != nullptr || node.as<StopGradient>() != nullptr ||
      node.as<OptimizationBarrier>() != nullptr || node.as<CheckpointName>() != nullptr ||
      node.as<PlaceInMemory>() != nullptr) {
    out = in;
    return true;
  }
  if (const auto* op = node.as<CustomVjp>()) {
    const auto first = in.begin() + static_cast<int64_t>(op->inputs);
    out.assign(first, first + static_cast<int64_t>(op->outputs));
    return true;
  }
  const DType from = in[0].type.dtype;
  std::function<Cell(size_t)> cell;
  DType to = from;
  if (const auto* op = node.as<Unary>()) {
    if (op->kind == UnaryKind::kIsFinite) {
      to = DType::kBool;
      cell = [&](size_t i) { return Cell{0, std::isfinite(in[0].cells[i].real)}; };
    } else {
      cell = [&, kind = op->kind](size_t i) {
        const Cell& x = in[0].cells[i];
        return is_floating(from) ? Cell{unary_real(kind, x.real), 0}
                                 : Cell{0, unary_whole(kind, x.whole)};
      };
    }
  } else if (const auto* op = node.as<Binary>()) {
    cell = [&, kind = op->kind](size_t i) {
      const Cell &a = in[0].cells[i], &b = in[1].cells[i];
      return is_floating(from) ? Cell{binary_real(kind, a.real, b.real), 0}
                               : Cell{0, binary_whole(kind, from, a.whole, b.whole)};
    };
  } else if (const auto* op = node.as<Compare>()) {
    to = DType::kBool;
    cell = [&, direction = op->direction](size_t i) {
      const Cell &a = in[0].cells[i], &b = in[1].cells[i];
      return Cell{0, holds(direction, less(from, a, b), equal(from, a, b))};
    };
  } else if (node.as<Select>() != nullptr) {
    to = in[1].type.dtype;
    cell = [&](size_t i) { return in[in[0].cells[i].whole != 0 ? 1 : 2].cells[i]; };
  } else if (const auto* op = node.as<Convert>()) {
    to = op->dtype;
    cell = [&](size_t i) { return converted(from, to, in[0].cells[i]); };
  } else if (const auto* op = node.as<BitcastConvert>()) {
    to = op->dtype;
    cell = [&](size_t i) { return same_bits(from, to, in[0].cells[i]); };
  } else {
    return false;
  }
  Array made({to, in[0].type.dims});
  for (size_t i = 0; i < made.cells.size(); ++i) made.cells[i] = fit(to, cell(i));
  out = {made};
  return true;
}

}  // namespace espalier::test
