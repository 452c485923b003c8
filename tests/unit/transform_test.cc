// Gradients of operations with bodies and of annotations, against numeric differences on the
// oracle. Simple cases are in the operations' table; here are the ways in which they combine.
#include <gtest/gtest.h>

#include "espalier/ir/parameter.h"
#include "espalier/ops/op_list.h"
#include "espalier/transform/grad.h"
#include "espalier/transform/module.h"
#include "espalier/transform/simplify.h"
#include "tests/support/compare.h"
#include "tests/support/derivatives.h"
#include "tests/support/error_of.h"
#include "tests/support/op_cases.h"
#include "tests/support/oracle.h"

namespace espalier::test {
namespace {

const TensorType kScalar{DType::kF64, {}};
const TensorType kVector{DType::kF64, {3}};
const TensorType kRows{DType::kF64, {4, 3}};
const TensorType kMatrix{DType::kF64, {3, 3}};

using Build = std::function<Tensors(const Tensors&)>;

// Gradient of the sum of all results, as a function of the inputs: to differentiate once more.
Build gradient_of(const Build& build) {
  return [build](const Tensors& in) {
    Tensor sum = scalar(DType::kF64, 0);
    for (const Tensor& t : build(in)) sum = sum + reduce_sum(t);
    return value_and_grad(sum, in).grads;
  };
}

std::vector<HostArray> evaluate_on(const std::vector<TensorType>& inputs, const Build& build) {
  return evaluate(trace(inputs, build), random_arrays(inputs, -1, 1, "arguments"));
}

void expect_all(const HostArray& array, double value) {
  for (const double x : array.as<double>()) EXPECT_EQ(x, value);
}

// --- scan ---

// Everything at once: a carry of each kind, captured constants, scanned arrays used and unused.
Tensors rich_scan(const Tensors& in, bool reversed) {
  const Tensor &x0 = in[0], &rows = in[1], &w = in[2], &b = in[3];
  const Tensor ids = iota({DType::kS32, {4}}, 0);
  const auto body = [&](const Tensors& c, const Tensors& e) {
    const Tensor scale = convert(e[1], DType::kF64) * 0.1 + 1.0;
    const Tensor next = tanh(matmul(reshape(c[0], {1, 3}), w)) * scale;
    const Tensor h = reshape(next, {3}) + e[0] * b;
    return ScanResult{{h, c[1] + 1.0, c[2] * 0.5 + reduce_sum(h), h},
                      {h * h, convert(c[1], DType::kF64) * c[2], e[1]}};
  };
  const ScanResult out =
      scan(body, {x0, full_int({DType::kS32, {}}, 1), scalar(DType::kF64, 0), zeros(kVector)},
           {rows, ids}, -1, reversed);
  return {out.carry[0], out.carry[2], out.carry[3], out.outputs[0], out.outputs[1]};
}

TEST(ScanGradient, OfEveryKindOfOperand) {
  for (const bool reversed : {false, true}) {
    expect_gradient({kVector, kRows, kMatrix, kScalar},
                    [&](const Tensors& in) { return rich_scan(in, reversed); });
  }
}

TEST(ScanGradient, OfOneResultAmongMany) {
  for (size_t i = 0; i < 5; ++i) {
    expect_gradient({kVector, kRows, kMatrix, kScalar},
                    [&](const Tensors& in) { return Tensors{rich_scan(in, false)[i]}; });
  }
}

// The carry starts as a constant and depends on x only from the second step on, through another.
TEST(ScanGradient, OfACarryThatBecomesActiveInTheLoop) {
  expect_gradient({kScalar}, [](const Tensors& in) {
    const auto body = [&](const Tensors& c, const Tensors&) {
      return ScanResult{{c[1] * 2.0 + c[0], sin(c[2]), c[2] * 0.5 + in[0]}, {}};
    };
    const Tensor zero = scalar(DType::kF64, 0);
    return Tensors{scan(body, {zero, zero, zero}, {}, 4).carry[0]};
  });
}

TEST(ScanGradient, OfACarryThatEachStepReplaces) {
  expect_gradient({kVector, kRows}, [](const Tensors& in) {
    const auto body = [&](const Tensors& c, const Tensors& e) {
      return ScanResult{{ones_like(c[0])}, {c[0] * e[0]}};
    };
    const ScanResult out = scan(body, {in[0]}, {in[1]});
    return Tensors{out.carry[0], out.outputs[0]};
  });
}

TEST(ScanGradient, OfNestedScansInBothDirections) {
  const auto build = [](const Tensors& in) {
    const auto outer = [&](const Tensors& c, const Tensors& e) {
      const auto inner = [&](const Tensors& d, const Tensors& f) {
        const Tensor next = sin(d[0] * f[0] + in[2]) + reduce_sum(c[0]) * 0.2;
        return ScanResult{{next}, {next * e[0]}};
      };
      const ScanResult inside = scan(inner, {reduce_sum(e[0])}, {c[0]}, -1, true);
      return ScanResult{{c[0] * 0.3 + inside.carry[0]}, {inside.outputs[0]}};
    };
    const ScanResult out = scan(outer, {in[0]}, {in[1]});
    return Tensors{out.carry[0], out.outputs[0]};
  };
  expect_gradient({kVector, kRows, kScalar}, build);
}

TEST(ScanGradient, OfTheGradient) {
  expect_gradient({kVector, kRows, kMatrix, kScalar},
                  gradient_of([](const Tensors& in) { return rich_scan(in, false); }));
}

TEST(ScanGradient, OfTheSameValueInSeveralPlaces) {
  expect_gradient({kRows, kVector}, [](const Tensors& in) {
    const auto body = [&](const Tensors& c, const Tensors& e) {
      return ScanResult{{c[1] * e[0], c[0] * e[1] + in[1]}, {}};
    };
    const ScanResult out = scan(body, {in[1], in[1]}, {in[0], in[0]});
    return Tensors{out.carry[0], out.carry[1]};
  });
}

// --- cond and remat ---

TEST(CondGradient, FollowsTheBranchOfEachStep) {
  const auto build = [](const Tensors& in) {
    const auto body = [&](const Tensors& c, const Tensors& e) {
      const Tensors next = cond(
          compare(reduce_sum(e[0]), 0.0, Direction::kGt),
          [&] {
            return Tensors{sin(c[0]) * e[0], reduce_sum(c[0])};
          },
          [&] {
            return Tensors{c[0] * in[2], scalar(DType::kF64, 1)};
          });
      return ScanResult{{next[0]}, {next[1]}};
    };
    const ScanResult out = scan(body, {in[0]}, {in[1]});
    return Tensors{out.carry[0], out.outputs[0]};
  };
  expect_gradient({kVector, kRows, kScalar}, build);
  expect_gradient({kVector, kRows, kScalar}, gradient_of(build));
}

TEST(CondGradient, KeepsBranchesInside) {
  const Function f = trace({{DType::kBool, {}}, kVector}, [](const Tensors& in) {
    return cond(
        in[0], [&] { return Tensors{exp(in[1])}; }, [&] { return Tensors{in[1]}; });
  });
  for (const auto& node : reachable(f.results)) {
    EXPECT_EQ(node->as<Unary>(), nullptr) << "a branch's operation runs whether taken or not";
  }
}

Tensors two_layers(const Tensors& in) {
  const Tensor h = tanh(matmul(in[0], in[1]));
  return {matmul(sin(h * h), in[1]) * in[2]};
}

TEST(RematGradient, EqualsThePlainOneAndComputesAgain) {
  const std::vector<TensorType> inputs = {kRows, kMatrix, kScalar};
  const auto rematerialized = [](const Tensors& in) {
    return remat([&](const Tensors& x) { return two_layers({x[0], x[1], in[2]}); }, {in[0], in[1]});
  };
  const Function plain = trace(inputs, gradient_of(two_layers));
  const Function again = trace(inputs, gradient_of(rematerialized));
  const auto arguments = random_arrays(inputs, -1, 1, "arguments");
  const auto want = evaluate(plain, arguments), got = evaluate(again, arguments);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(close_to(got[i], want[i], 0)) << i;
  const std::string text = to_stablehlo(again, {});
  EXPECT_NE(text.find("stablehlo.optimization_barrier"), std::string::npos);
  expect_gradient(inputs, gradient_of(rematerialized));
}

// What a scanned, rematerialized body saves is its carry and what it was given, nothing inside.
TEST(RematGradient, InAScanSavesTheCarryAlone) {
  const auto build = [](const Tensors& in) {
    const auto body = [&](const Tensors& c, const Tensors&) {
      return ScanResult{remat(
                            [&](const Tensors& x) {
                              return two_layers({x[0], in[1], in[2]});
                            },
                            c),
                        {}};
    };
    return Tensors{scan(body, {in[0]}, {}, 5).carry[0]};
  };
  expect_gradient({kRows, kMatrix, kScalar}, build);
  const Function grads = simplify(trace({kRows, kMatrix, kScalar}, gradient_of(build)));
  size_t scans = 0;
  for (const auto& node : reachable(grads.results)) {
    const auto* op = node->as<Scan>();
    if (op == nullptr || scans++ > 0) continue;
    EXPECT_EQ(node->types.size() - op->carries, 1U) << "stacked residuals of the forward scan";
    EXPECT_EQ(node->types.back(), (TensorType{DType::kF64, {5, 4, 3}}));
  }
  EXPECT_EQ(scans, 2U);
}

// --- annotations ---

Tensor ten_times(const Tensor& x) {
  return custom_vjp("ten_times", {x}, {sin(x)}, {},
                    [](const Tensors&, const Tensors&, const Tensors&, const Tensors& ct) {
                      return Tensors{ct[0] * 10.0};
                    })[0];
}

TEST(CustomVjp, ReplacesTheNaturalRule) {
  const auto grad = gradient_of([](const Tensors& in) { return Tensors{ten_times(in[0])}; });
  expect_all(evaluate_on({kVector}, grad)[0], 10);
}

TEST(CustomVjp, ReplacesTheNaturalRuleInsideBodies) {
  const auto in_scan = gradient_of([](const Tensors& in) {
    const auto body = [&](const Tensors& c, const Tensors&) {
      return ScanResult{remat([](const Tensors& x) { return Tensors{ten_times(x[0])}; }, c), {}};
    };
    return scan(body, {in[0]}, {}, 3).carry;
  });
  expect_all(evaluate_on({kVector}, in_scan)[0], 1000);
}

TEST(CustomVjp, OfALoopWithoutAGradientOfItsOwn) {
  const auto build = [](const Tensors& in) {
    const Tensors out =
        while_loop([](const Tensors& s) { return compare(s[1], 3.0, Direction::kLt); },
                   [](const Tensors& s) {
                     return Tensors{s[0] * s[0], s[1] + 1.0};
                   },
                   {in[0], full_int({DType::kS32, {}}, 0)});
    const auto rule = [](const Tensors& x, const Tensors& y, const Tensors&, const Tensors& ct) {
      return Tensors{ct[0] * 8.0 * y[0] / x[0]};  // y = x^8
    };
    return custom_vjp("power_8", {in[0]}, {out[0]}, {}, rule);
  };
  expect_gradient({kVector}, build, 0.5, 1.5);
}

TEST(CustomVjp, RefusesARuleThatDoesNotFit) {
  const auto with_rule = [](Tensors cotangents) {
    return error_of([&] {
      trace({kVector}, gradient_of([&](const Tensors& in) {
              return custom_vjp("f", {in[0]}, {sin(in[0])}, {},
                                [&](const Tensors&, const Tensors&, const Tensors&,
                                    const Tensors&) { return cotangents; });
            }));
    });
  };
  EXPECT_EQ(with_rule({}), "[custom_vjp] the gradient rule of 'f' gave 0 cotangents for 1 inputs");
  EXPECT_EQ(with_rule({scalar(DType::kF64, 1)}),
            "[custom_vjp] the gradient rule of 'f' gave a cotangent f64[] for input 0 of type "
            "f64[3]");
}

TEST(StopGradient, EndsTheCotangent) {
  const auto grad = gradient_of([](const Tensors& in) {
    const auto body = [&](const Tensors& c, const Tensors&) {
      return ScanResult{{stop_gradient(c[0]) * 2.0 + in[0]}, {}};
    };
    return scan(body, {in[0]}, {}, 3).carry;
  });
  expect_all(evaluate_on({kVector}, grad)[0], 1);
}

TEST(WhileGradient, FailsWhereACotangentReachesIt) {
  const auto loop = [](const Tensor& x) {
    return while_loop(
        [](const Tensors& s) { return compare(reduce_sum(s[0]), 9.0, Direction::kLt); },
        [](const Tensors& s) { return Tensors{s[0] + 1.0}; }, {x})[0];
  };
  EXPECT_EQ(error_of([&] {
              trace({kVector},
                    gradient_of([&](const Tensors& in) { return Tensors{loop(in[0])}; }));
            }),
            "[grad] a while loop has no reverse-mode gradient, since its length is not known; use "
            "scan, or stop_gradient before it");
  const auto stopped =
      gradient_of([&](const Tensors& in) { return Tensors{loop(stop_gradient(in[0])) + in[0]}; });
  expect_all(evaluate_on({kVector}, stopped)[0], 1);
}

// --- the interface ---

TEST(ValueAndGrad, HandsOutAuxiliaryValuesAndZeros) {
  const auto build = [](const Tensors& in) {
    const Tensor h = in[0] * 3.0;
    const ValueAndGrad out = value_and_grad(reduce_sum(h * h), {in[0], in[1]}, {h});
    return Tensors{out.value, out.aux[0], out.grads[0], out.grads[1]};
  };
  const auto x = HostArray::from<double>({3}, std::vector<double>{1, -2, 0.5});
  const auto out = evaluate(trace({kVector, kMatrix}, build), {x, HostArray(DType::kF64, {3, 3})});
  EXPECT_EQ(out[0].as<double>()[0], 9 * (1 + 4 + 0.25));
  EXPECT_EQ(out[1].as<double>()[1], -6);
  EXPECT_EQ(out[2].as<double>()[1], -36);
  EXPECT_TRUE(close_to(out[3], HostArray(DType::kF64, {3, 3}), 0));
}

TEST(ValueAndGrad, TakesTensorsOnTheWay) {
  const auto build = [](const Tensors& in) {
    const Tensor h = sin(in[0]), g = h * h;
    // By h and by g together: g counts as independent of h, and in[0] as independent of both.
    return value_and_grad(reduce_sum(g * 2.0 + h * 5.0 + in[0]), {h, g, in[0]}).grads;
  };
  const auto out = evaluate_on({kVector}, build);
  expect_all(out[0], 5);
  expect_all(out[1], 2);
  expect_all(out[2], 1);
}

TEST(ValueAndGrad, RefusesWhatHasNoGradient) {
  const Tensor x = parameter(kVector), i = parameter({DType::kS32, {}});
  EXPECT_EQ(error_of([&] { value_and_grad(x, {x}); }),
            "[value_and_grad] needs a floating-point scalar, got f64[3]");
  EXPECT_EQ(error_of([&] { value_and_grad(reduce_sum(x), {i}); }),
            "[grad] needs floating-point tensors to differentiate by, got i32[]");
  const Tensor called = custom_call("f", {x}, {kScalar})[0];
  EXPECT_EQ(error_of([&] { value_and_grad(called, {x}); }),
            "[custom_call] 'f' has no gradient rule; wrap the call in custom_vjp");
}

// --- manual regions against the same computation without them ---

// A tensor-parallel MLP: w1 split by columns, w2 by rows, the batch by the other axis if there is.
Tensors mlp(const Tensors& in) { return {matmul(tanh(matmul(in[0], in[1])), in[2])}; }

TEST(ShardMapGradient, EqualsTheUnshardedOne) {
  const std::vector<TensorType> inputs = {
      {DType::kF64, {4, 3}}, {DType::kF64, {3, 4}}, {DType::kF64, {4, 2}}};
  struct Layout {
    Mesh mesh;
    std::vector<std::string> manual, batch;
  };
  const Layout layouts[] = {{Mesh({{"tp", 4}}), {}, {}},
                            {Mesh({{"dp", 2}, {"tp", 2}}), {}, {"dp"}},
                            {Mesh({{"dp", 2}, {"tp", 2}}), {"tp"}, {}}};
  for (const Layout& layout : layouts) {
    const PartitionSpec rows = {layout.batch, {}};
    const auto sharded = [&](const Tensors& in) {
      return shard_map(
          layout.mesh, layout.manual, {rows, {{}, {"tp"}}, {{"tp"}, {}}}, {rows},
          [](const Tensors& x, const Manual& m) {
            return Tensors{m.all_reduce(mlp(x)[0], {"tp"})};
          },
          in);
    };
    const auto arguments = random_arrays(inputs, -1, 1, "arguments");
    for (const bool twice : {false, true}) {
      const auto derived = [&](const Build& build) {
        return twice ? gradient_of(gradient_of(build)) : gradient_of(build);
      };
      const Function plain = trace(inputs, derived(mlp)), split = trace(inputs, derived(sharded));
      const auto want = evaluate(plain, arguments);
      const auto got = evaluate(split, arguments), simple = evaluate(simplify(split), arguments);
      for (size_t i = 0; i < want.size(); ++i) {
        EXPECT_TRUE(close_to(got[i], want[i], 1e-12)) << layout.mesh.to_string() << " " << i;
        EXPECT_TRUE(close_to(simple[i], want[i], 1e-12)) << layout.mesh.to_string() << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace espalier::test
