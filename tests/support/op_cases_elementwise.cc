// Cases of elementwise operations and of those without operands.
#include <cmath>
#include <limits>

#include "espalier/ops/annotate.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/source.h"
#include "tests/support/op_cases.h"

namespace espalier::test {
namespace {

const TensorType kVector{DType::kF32, {6}};
const TensorType kMatrix{DType::kF32, {2, 3}};
const TensorType kInts{DType::kS32, {8}};
const TensorType kWords{DType::kU32, {8}};
const TensorType kBools{DType::kBool, {8}};

using Build = std::function<Tensors(const Tensors&)>;

Build unary(UnaryKind kind) {
  return [kind](const Tensors& in) { return Tensors{apply(Unary{kind}, {in[0]})}; };
}
Build binary(BinaryKind kind) {
  return [kind](const Tensors& in) { return Tensors{apply(Binary{kind}, {in[0], in[1]})}; };
}
Build comparison(Direction direction) {
  return [direction](const Tensors& in) { return Tensors{compare(in[0], in[1], direction)}; };
}

void add_unary(std::vector<OpCase>& cases) {
  struct Range {
    UnaryKind kind;
    double low, high;
  };
  const Range kRanges[] = {
      {UnaryKind::kNeg, -2, 2},     {UnaryKind::kAbs, -2, 2},        {UnaryKind::kSign, -2, 2},
      {UnaryKind::kExp, -2, 2},     {UnaryKind::kExpm1, -2, 2},      {UnaryKind::kLog, 0.1, 3},
      {UnaryKind::kLog1p, -0.9, 2}, {UnaryKind::kTanh, -3, 3},       {UnaryKind::kLogistic, -4, 4},
      {UnaryKind::kSqrt, 0.1, 4},   {UnaryKind::kRsqrt, 0.1, 4},     {UnaryKind::kSin, -7, 7},
      {UnaryKind::kCos, -7, 7},     {UnaryKind::kFloor, -5, 5},      {UnaryKind::kCeil, -5, 5},
      {UnaryKind::kErf, -2.5, 2.5}, {UnaryKind::kErfInv, -0.9, 0.9}, {UnaryKind::kIsFinite, -2, 2},
  };
  for (const Range& r : kRanges) {
    const std::string name(Unary{r.kind}.name());
    cases.push_back({name, {kVector}, unary(r.kind), r.low, r.high});
  }
  cases.push_back({"not", {kBools}, unary(UnaryKind::kNot)});
  cases.push_back({"not_integers", {kInts}, unary(UnaryKind::kNot), -9, 9});
  cases.push_back({"neg_integers", {kWords}, unary(UnaryKind::kNeg), 0, 9});
  cases.push_back({"sign_integers", {kInts}, unary(UnaryKind::kSign), -2, 2});
  cases.push_back({"is_finite_special", {kVector}, [](const Tensors& in) {
                     const Tensor huge =
                         full(in[0].type(), std::numeric_limits<double>::infinity());
                     return Tensors{is_finite(huge), is_finite(in[0] - huge + huge)};
                   }});
}

void add_binary(std::vector<OpCase>& cases) {
  for (const BinaryKind kind :
       {BinaryKind::kAdd, BinaryKind::kSub, BinaryKind::kMul, BinaryKind::kMax, BinaryKind::kMin}) {
    const std::string name(Binary{kind}.name());
    cases.push_back({name, {kMatrix, kMatrix}, binary(kind)});
    cases.push_back({name + "_words", {kWords, kWords}, binary(kind), 0, 4e9});
  }
  cases.push_back({"div", {kMatrix, kMatrix}, binary(BinaryKind::kDiv), 0.5, 3});
  cases.push_back({"div_integers",
                   {kInts, kInts},
                   [](const Tensors& in) {
                     return Tensors{div(in[0], bit_or(in[1], full_int(in[1].type(), 1)))};
                   },
                   -20,
                   20});
  cases.push_back({"pow", {kMatrix, kMatrix}, binary(BinaryKind::kPow), 0.2, 2.5});
  // Negative and zero bases with constant exponents.
  cases.push_back({"pow_constant", {kVector}, [](const Tensors& in) {
                     const Tensor nothing = in[0] - stop_gradient(in[0]);
                     return Tensors{pow(in[0], full(in[0].type(), 2)),
                                    pow(nothing, full(in[0].type(), 3)),
                                    pow(nothing, full(in[0].type(), 0))};
                   }});
  ;
  cases.push_back({"pow_integers",
                   {kInts},
                   [](const Tensors& in) { return Tensors{pow(in[0], full_int(in[0].type(), 3))}; },
                   -9,
                   9});
  cases.push_back({"rem", {kMatrix, kMatrix}, [](const Tensors& in) {
                     return Tensors{rem(in[0] * 5.0, in[1] + 3.0)};
                   }});
  cases.push_back({"rem_integers",
                   {kInts, kInts},
                   [](const Tensors& in) {
                     return Tensors{rem(in[0], bit_or(in[1], full_int(in[1].type(), 1)))};
                   },
                   -20,
                   20});
  for (const BinaryKind kind : {BinaryKind::kAnd, BinaryKind::kOr, BinaryKind::kXor}) {
    const std::string name(Binary{kind}.name());
    cases.push_back({name, {kBools, kBools}, binary(kind)});
    cases.push_back({name + "_integers", {kInts, kInts}, binary(kind), -100, 100});
  }
  cases.push_back({"max_bools", {kBools, kBools}, binary(BinaryKind::kMax)});
  cases.push_back({"shift_left",
                   {kInts, kInts},
                   [](const Tensors& in) {
                     return Tensors{shift_left(in[0], bit_and(in[1], full_int(in[1].type(), 31)))};
                   },
                   -100,
                   100});
  cases.push_back({"shift_right",
                   {kInts, kInts},
                   [](const Tensors& in) {
                     return Tensors{shift_right(in[0], bit_and(in[1], full_int(in[1].type(), 31)))};
                   },
                   -100,
                   100});
  cases.push_back(
      {"shift_right_words",
       {kWords},
       [](const Tensors& in) { return Tensors{shift_right(in[0], full_int(in[0].type(), 9))}; },
       0,
       4e9});
  // Ties: half of the cotangent to each, which no numeric difference shows.
  cases.push_back({"max_ties", {kVector}, [](const Tensors& in) {
                     return Tensors{max(in[0], in[0]), min(in[0], in[0])};
                   }});
  cases.push_back({"broadcasting",
                   {kMatrix, {DType::kF32, {3}}, {DType::kF32, {2, 1}}},
                   [](const Tensors& in) { return Tensors{in[0] * in[1] + in[2] - in[1] * 2.0}; }});
}

void add_rest(std::vector<OpCase>& cases) {
  const std::pair<Direction, const char*> kDirections[] = {
      {Direction::kEq, "eq"}, {Direction::kNe, "ne"}, {Direction::kLt, "lt"},
      {Direction::kLe, "le"}, {Direction::kGt, "gt"}, {Direction::kGe, "ge"}};
  for (const auto& [direction, name] : kDirections) {
    cases.push_back({std::string("compare_") + name, {kInts, kInts}, comparison(direction), -2, 2});
  }
  cases.push_back({"compare_floats", {kMatrix, kMatrix}, comparison(Direction::kLt)});
  cases.push_back({"compare_words", {kWords, kWords}, comparison(Direction::kGt), 0, 4e9});
  cases.push_back({"compare_bools", {kBools, kBools}, comparison(Direction::kGe)});
  cases.push_back({"select", {{DType::kBool, {2, 3}}, kMatrix, kMatrix}, [](const Tensors& in) {
                     return Tensors{select(in[0], in[1], in[2])};
                   }});
  cases.push_back({"select_broadcasting",
                   {{DType::kBool, {2, 1}}, kMatrix, {DType::kF32, {}}},
                   [](const Tensors& in) { return Tensors{select(in[0], in[1], in[2])}; }});
  cases.push_back({"convert_to_integers",
                   {kVector},
                   [](const Tensors& in) {
                     return Tensors{convert(in[0], DType::kS32), convert(in[0], DType::kBool)};
                   },
                   -9,
                   9});
  cases.push_back({"convert_to_floats",
                   {kInts, kWords, kBools},
                   [](const Tensors& in) {
                     return Tensors{convert(in[0], DType::kF32), convert(in[1], DType::kF64),
                                    convert(in[2], DType::kF32)};
                   },
                   -9,
                   9});
  cases.push_back({"convert_integers",
                   {kInts, kWords},
                   [](const Tensors& in) {
                     return Tensors{convert(in[0], DType::kS8), convert(in[1], DType::kS64),
                                    convert(in[0], DType::kU16), convert(in[0], DType::kBool)};
                   },
                   -300,
                   300});
  cases.push_back({"convert_widths", {kVector}, [](const Tensors& in) {
                     return Tensors{convert(convert(in[0], DType::kF64) * 2.0, in[0].dtype())};
                   }});
  // Rounding is no differentiable function, and its rule passes the cotangent through.
  cases.push_back({"convert_bf16",
                   {kVector},
                   [](const Tensors& in) {
                     return Tensors{convert(convert(in[0], DType::kBF16), DType::kF32)};
                   },
                   -2,
                   2,
                   false});
  cases.push_back({"bitcast_convert",
                   {kWords},
                   [](const Tensors& in) {
                     const Tensor one_to_two = bit_or(shift_right(in[0], full_int(in[0].type(), 9)),
                                                      full_int(in[0].type(), 0x3F800000));
                     return Tensors{bitcast_convert(one_to_two, DType::kF32),
                                    bitcast_convert(in[0], DType::kS32)};
                   },
                   0,
                   4e9});
  cases.push_back({"splat", {}, [](const Tensors&) {
                     return Tensors{
                         full({DType::kF32, {2}}, 0.1),    full({DType::kF64, {}}, 1e-300),
                         full({DType::kF32, {}}, 1e300),   full_int({DType::kS32, {2}}, -7),
                         full_int({DType::kU32, {}}, -1),  full_int({DType::kU64, {}}, -1),
                         full_int({DType::kBool, {2}}, 1), full({DType::kBF16, {2}}, 1.5),
                         full({DType::kF32, {0, 2}}, 1)};
                   }});
  cases.push_back({"constant", {}, [](const Tensors&) {
                     return Tensors{
                         constant(HostArray::from<float>(
                             {2, 2}, std::vector<float>{1, -2.5f, 0.1f, -INFINITY})),
                         constant(HostArray::from<int32_t>({3}, std::vector<int32_t>{1, -2, 3})),
                         constant(HostArray::from<int64_t>({1}, std::vector<int64_t>{1LL << 40})),
                         constant(HostArray::from<uint32_t>({1}, std::vector<uint32_t>{~0U})),
                         constant(HostArray::scalar(1.0 / 3)),
                         constant(HostArray::scalar(true)),
                         constant(HostArray(DType::kF32, {2, 0}))};
                   }});
  cases.push_back({"iota", {}, [](const Tensors&) {
                     return Tensors{iota({DType::kS32, {2, 3}}, 1), iota({DType::kF32, {2, 3}}, 0),
                                    iota({DType::kU32, {4}}, 0)};
                   }});
}

}  // namespace

void add_elementwise_cases(std::vector<OpCase>& cases) {
  add_unary(cases);
  add_binary(cases);
  add_rest(cases);
}

}  // namespace espalier::test
