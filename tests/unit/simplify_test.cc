// Functions and their simplification: what is merged, what is dropped, what verify() refuses.
#include <gtest/gtest.h>

#include <cmath>

#include "espalier/ir/parameter.h"
#include "espalier/ops/op_list.h"
#include "espalier/transform/grad.h"
#include "espalier/transform/module.h"
#include "espalier/transform/simplify.h"
#include "tests/support/compare.h"
#include "tests/support/error_of.h"
#include "tests/support/op_cases.h"
#include "tests/support/oracle.h"

namespace espalier::test {
namespace {

const TensorType kScalar{DType::kF32, {}};
const TensorType kVector{DType::kF32, {3}};
const TensorType kRows{DType::kF32, {5, 3}};

template <class S>
std::vector<std::shared_ptr<const Node>> nodes_of(const Function& function) {
  std::vector<std::shared_ptr<const Node>> out;
  for (const auto& node : reachable(function.results)) {
    if (node->as<S>() != nullptr) out.push_back(node);
  }
  return out;
}

void expect_equal_values(const Function& a, const Function& b) {
  const auto arguments = random_arrays(types_of(a.params), -1, 1, "arguments");
  const auto x = evaluate(a, arguments), y = evaluate(b, arguments);
  ASSERT_EQ(x.size(), y.size());
  for (size_t i = 0; i < x.size(); ++i) EXPECT_TRUE(close_to(y[i], x[i], 0)) << i;
}

TEST(Merge, EqualNodesBecomeOne) {
  const Function f = trace({kVector}, [](const Tensors& in) {
    return Tensors{sin(in[0] * 2.0) + sin(in[0] * 2.0), cos(in[0] * 2.0)};
  });
  const Function simple = simplify(f);
  EXPECT_EQ(nodes_of<Unary>(f).size(), 3U);
  EXPECT_EQ(nodes_of<Unary>(simple).size(), 2U);
  EXPECT_EQ(nodes_of<Splat>(simple).size(), 1U);
  EXPECT_EQ(count_nodes(simple), 6U);  // parameter, 2, product, sin, cos, sum
  expect_equal_values(f, simple);
}

TEST(Merge, KeepsZeroAndMinusZeroApart) {
  const Function f = trace({}, [](const Tensors&) {
    return Tensors{scalar(DType::kF32, 1) / scalar(DType::kF32, 0.0),
                   scalar(DType::kF32, 1) / scalar(DType::kF32, -0.0)};
  });
  const auto out = evaluate(simplify(f), {});
  EXPECT_EQ(out[0].as<float>()[0], INFINITY);
  EXPECT_EQ(out[1].as<float>()[0], -INFINITY);
}

TEST(Merge, KeepsCallsWithSideEffectsApart) {
  const auto calls = [](bool side_effect) {
    return nodes_of<CustomCall>(
               simplify(trace({kVector},
                              [&](const Tensors& in) {
                                const CustomCall call{"f", {kVector}, {}, side_effect};
                                return Tensors{apply(call, {in[0]}) + apply(call, {in[0]})};
                              })))
        .size();
  };
  EXPECT_EQ(calls(false), 1U);
  EXPECT_EQ(calls(true), 2U);
}

TEST(Prune, ScanLosesUnreadCarriesOutputsAndOperands) {
  const auto build = [](const Tensors& in) {
    const auto body = [&](const Tensors& c, const Tensors& e) {
      // Carry 0 reads carry 2; carry 1 reads carry 3, and both are read by themselves alone.
      return ScanResult{{c[0] * c[2], c[1] + c[3], c[2] + e[0], c[3] * in[2]}, {c[0], c[1], e[1]}};
    };
    return scan(body, {in[0], in[0], in[0], in[0]}, {in[1], in[1]});
  };
  const Function f = trace({kVector, kRows, kVector}, [&](const Tensors& in) {
    const ScanResult out = build(in);
    return Tensors{out.carry[0], out.outputs[0]};
  });
  const Function simple = simplify(f);
  verify(simple);
  const auto scans = nodes_of<Scan>(simple);
  ASSERT_EQ(scans.size(), 1U);
  const Scan& op = *scans[0]->as<Scan>();
  EXPECT_EQ(op.carries, 2U);
  EXPECT_EQ(op.consts, 0U);
  EXPECT_EQ(scans[0]->operands.size(), 3U);  // two carries and one scanned array
  EXPECT_EQ(scans[0]->types.size(), 3U);
  expect_equal_values(f, simple);
}

TEST(Prune, AnUnreadScanGoes) {
  const Function f = trace({kVector}, [](const Tensors& in) {
    const auto body = [](const Tensors& c, const Tensors&) { return ScanResult{{sin(c[0])}, {}}; };
    const Tensor last = scan(body, {in[0]}, {}, 3).carry[0];
    const auto outer = [&](const Tensors& c, const Tensors&) {
      return ScanResult{{c[0] * 2.0, c[1] + 1.0}, {}};
    };
    // The second carry leads to the first scan, through a node, and nobody reads it.
    return Tensors{scan(outer, {in[0], neg(last)}, {}, 2).carry[0]};
  });
  const Function simple = simplify(f);
  EXPECT_EQ(nodes_of<Scan>(simple).size(), 1U);
  EXPECT_EQ(nodes_of<Unary>(simple).size(), 0U);
  expect_equal_values(f, simple);
}

TEST(Prune, AResultReadOnlyByWhatIsPruned) {
  const Function f = trace({kVector}, [](const Tensors& in) {
    const auto body = [](const Tensors& c, const Tensors&) {
      return ScanResult{{sin(c[0]), cos(c[1])}, {}};
    };
    const ScanResult first = scan(body, {in[0], in[0]}, {}, 3);
    const auto outer = [&](const Tensors& c, const Tensors&) {
      return ScanResult{{c[0] * 2.0, c[1] + 1.0}, {}};
    };
    return Tensors{scan(outer, {first.carry[0], neg(first.carry[1])}, {}, 2).carry[0]};
  });
  const Function simple = simplify(f);
  for (const auto& node : nodes_of<Scan>(simple)) EXPECT_EQ(node->types.size(), 1U);
  expect_equal_values(f, simple);
}

TEST(Prune, OneValueIsStackedOnce) {
  const Function f = trace({kVector}, [](const Tensors& in) {
    const auto body = [](const Tensors& c, const Tensors&) {
      const Tensor next = sin(c[0]);
      return ScanResult{{next}, {next * next, sin(c[0]), next, next * next}};
    };
    return scan(body, {in[0]}, {}, 3).outputs;
  });
  const Function simple = simplify(f);
  EXPECT_EQ(nodes_of<Scan>(simple)[0]->types.size(), 3U);  // the carry and two outputs
  expect_equal_values(f, simple);
}

TEST(Prune, InsideWhileCondAndRemat) {
  const Function f = trace({kVector, {DType::kBool, {}}}, [](const Tensors& in) {
    const auto noisy = [](const Tensor& x) {  // a scan of which one output of two is read
      const auto body = [](const Tensors& c, const Tensors&) {
        return ScanResult{{c[0] + 1.0}, {sin(c[0]), cos(c[0])}};
      };
      return reduce_sum(scan(body, {x}, {}, 2).outputs[0], {0});
    };
    const Tensors a = cond(
        in[1], [&] { return Tensors{noisy(in[0])}; }, [&] { return Tensors{in[0]}; });
    const Tensors b = remat([&](const Tensors& x) { return Tensors{noisy(x[0])}; }, a);
    return while_loop(
        [](const Tensors& s) { return compare(reduce_sum(s[0]), -100.0, Direction::kGt); },
        [&](const Tensors& s) { return Tensors{noisy(s[0]) - 50.0}; }, b);
  });
  const Function simple = simplify(f);
  EXPECT_EQ(count_nodes(f) - count_nodes(simple) >= 3, true) << "a cosine of each body";
  expect_equal_values(f, simple);
}

// The forward scan of a gradient stacks what the backward scan reads and nothing else.
TEST(Prune, ScanSavesWhatItsGradientReads) {
  const Function f = trace({kVector, kRows}, [](const Tensors& in) {
    const auto body = [&](const Tensors& c, const Tensors& e) {
      const Tensor h = tanh(c[0] + e[0]);  // reads its result
      const Tensor twice = h * 2.0;        // reads a constant
      return ScanResult{{broadcast_to(reduce_sum(twice), {3})}, {}};
    };
    const Tensor value = reduce_sum(scan(body, {in[0]}, {in[1]}).carry[0]);
    return value_and_grad(value, {in[0], in[1]}).grads;
  });
  const auto scans = nodes_of<Scan>(simplify(f));
  ASSERT_EQ(scans.size(), 2U);
  const Scan& forward = *scans[0]->as<Scan>();
  EXPECT_EQ(scans[0]->types.size() - forward.carries, 1U);
  EXPECT_EQ(scans[0]->types.back(), kRows);
}

// Neither views nor what is made of weights alone is stacked: only the carry that the product
// reads.
TEST(Prune, ScanSavesNoFormsOfWhatItHasAnyway) {
  const Function f =
      trace({{DType::kF32, {4, 3}}, {DType::kF64, {5, 2, 3}}}, [](const Tensors& in) {
        const auto body = [&](const Tensors& c, const Tensors& e) {
          const Tensor w = transpose(convert(e[0], DType::kF32), {1, 0});
          const Tensor h = matmul(shard(stop_gradient(c[0]) + c[0], {"", ""}), w);
          return ScanResult{{c[0] + reduce_sum(h)}, {}};
        };
        const Tensor value = reduce_sum(scan(body, {in[0]}, {in[1]}).carry[0]);
        return value_and_grad(value, {in[0], in[1]}).grads;
      });
  const auto scans = nodes_of<Scan>(simplify(f));
  ASSERT_EQ(scans.size(), 2U);
  EXPECT_EQ(scans[0]->types.size() - scans[0]->as<Scan>()->carries, 1U);
  EXPECT_EQ(scans[0]->types.back(), (TensorType{DType::kF32, {5, 4, 3}}));
}

TEST(Prune, ScanSavesTheNarrowerOfAConvertedValue) {
  const Function f = trace({kVector}, [](const Tensors& in) {
    const auto body = [&](const Tensors& c, const Tensors&) {
      const Tensor wide = convert(convert(c[0] * 2.0, DType::kBF16), DType::kF32);
      return ScanResult{{wide * wide}, {}};
    };
    return value_and_grad(reduce_sum(scan(body, {in[0]}, {}, 5).carry[0]), in).grads;
  });
  const auto scans = nodes_of<Scan>(simplify(f));
  ASSERT_EQ(scans.size(), 2U);
  EXPECT_EQ(scans[0]->types.size() - scans[0]->as<Scan>()->carries, 1U);
  EXPECT_EQ(scans[0]->types.back(), (TensorType{DType::kBF16, {5, 3}}));
}

TEST(Prune, ShardMapLosesUnreadResidualsAndOperands) {
  const Mesh mesh({{"a", 2}});
  const Function f = trace({{DType::kF32, {4}}, {DType::kF32, {4}}}, [&](const Tensors& in) {
    const Tensors out = shard_map(
        mesh, {}, {{{"a"}}, {{"a"}}}, {{{"a"}}, {{"a"}}},
        [](const Tensors& x, const Manual&) {
          return Tensors{sin(x[0]), exp(x[1])};
        },
        in);
    return Tensors{out[0], value_and_grad(reduce_sum(out[0]), {in[0]}).grads[0]};
  });
  const Function simple = simplify(f);
  verify(simple);
  for (const auto& node : nodes_of<ShardMap>(simple)) {
    for (const Tensor& t : node->operands) EXPECT_NE(t, f.params[1]) << "an unread operand";
    EXPECT_EQ(node->types.size(), 1U);
  }
  expect_equal_values(f, simple);
}

TEST(Verify, RefusesAForeignParameter) {
  const Tensor foreign = parameter(kVector);
  EXPECT_EQ(error_of([&] {
              trace({kVector}, [&](const Tensors& in) { return Tensors{in[0] + foreign}; });
            }),
            "[verify] the function reaches a parameter f32[3] of another function; pass it as an "
            "argument");
  EXPECT_EQ(error_of([&] {
              trace({kVector}, [&](const Tensors& in) {
                return shard_map(
                    Mesh({{"a", 1}}), {}, {{}}, {{}},
                    [&](const Tensors& x, const Manual&) { return Tensors{x[0] + in[0]}; }, in);
              });
            }).substr(0, 40),
            "[verify] the function reaches a paramete");
  EXPECT_EQ(error_of([] { trace({}, [](const Tensors&) { return Tensors{Tensor()}; }); }),
            "[verify] a result of the function is an empty Tensor");
}

TEST(Verify, RefusesTypesThatTheRuleDoesNotInfer) {
  const Tensor x = parameter(kVector);
  const Tensors shared = {x, x};
  const auto op = std::make_shared<OpModel<Binary>>(Binary{BinaryKind::kAdd});
  const auto node = std::make_shared<const Node>(~0ULL, op, shared, std::vector{kScalar});
  EXPECT_EQ(error_of([&] {
              verify({{x}, {Tensor(node, 0)}});
            }),
            "[verify] the types of add are not what its rule infers");
}

TEST(Inline, RefusesArgumentsOfAnotherType) {
  const Function f = trace({kVector}, [](const Tensors& in) { return in; });
  EXPECT_EQ(error_of([&] { inline_function(f, {}); }), "[inline] needs 1 arguments, got 0");
  EXPECT_EQ(error_of([&] { inline_function(f, {parameter(kScalar)}); }),
            "[inline] argument 0 needs f32[3], got f32[]");
}

TEST(Close, CapturesValuesAndKeepsConstants) {
  const Tensor outside = parameter(kVector) * 2.0;
  const Closed closed = trace_closed({kVector}, [&](const Tensors& in) {
    return Tensors{in[0] + sin(outside) + 1.0, outside};
  });
  // sin(outside) depends on no parameter: it is captured as a value.
  ASSERT_EQ(closed.captured.size(), 2U);
  EXPECT_NE(closed.captured[0].node().as<Unary>(), nullptr);
  EXPECT_EQ(closed.captured[1], outside);
  verify(*closed.function);
  const Closed inside = trace_inside(
      {kVector}, [&](const Tensors& in) { return Tensors{in[0] + sin(outside) + 1.0}; });
  EXPECT_EQ(inside.captured, Tensors{outside});
  verify(*inside.function);
}

TEST(Graph, LongChainsAreFreedWithoutRecursion) {
  Function f;
  f.params = {parameter(kScalar)};
  Tensor x = f.params[0];
  for (int i = 0; i < 100000; ++i) x = x + x;
  f.results = {x};
  EXPECT_EQ(count_nodes(f), 100001U);
  x = Tensor();
  f = Function();
}

TEST(Graph, LongChainsAreDifferentiatedAndPrinted) {
  const Function f = trace({kScalar}, [](const Tensors& in) {
    Tensor x = in[0];
    for (int i = 0; i < 20000; ++i) x = sin(x);
    return value_and_grad(x, in).grads;
  });
  EXPECT_GT(to_stablehlo(f, {}).size(), 1000000U);
}

TEST(Module, PrintsTheSameTextForFreshTraces) {
  const auto text = [] {
    return to_stablehlo(trace({kVector, kRows},
                              [](const Tensors& in) {
                                const auto body = [&](const Tensors& c, const Tensors& e) {
                                  return ScanResult{{tanh(c[0] * in[0] + sin(e[0]))}, {cos(c[0])}};
                                };
                                const ScanResult out = scan(body, {in[0]}, {in[1]});
                                const Tensor value =
                                    reduce_sum(out.carry[0]) + reduce_sum(out.outputs[0]);
                                return value_and_grad(value, in).grads;
                              }),
                        {});
  };
  EXPECT_EQ(text(), text());
}

TEST(Module, PrintsShardingsAndDonations) {
  ModuleOptions options;
  options.mesh = Mesh({{"a", 2}, {"b", 4}});
  options.in_specs = {{{"a", "b"}, {}}, {}};
  options.out_specs = {PartitionSpec{{}, {"a"}}, std::nullopt};
  options.donated = {1, std::nullopt};
  const TensorType matrix{DType::kF32, {8, 2}};
  const Function f = trace({matrix, kScalar}, [](const Tensors& in) {
    return Tensors{in[0] + in[1], in[0]};
  });
  const std::string text = to_stablehlo(f, options);
  for (const char* part :
       {"mhlo.num_partitions = 8 : i32", "sdy.mesh @mesh = <[\"a\"=2, \"b\"=4]>",
        "%arg0: tensor<8x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"a\", \"b\"}, {}]>, "
        "tf.aliasing_output = 1 : i32}",
        "%arg1: tensor<f32> {sdy.sharding = #sdy.sharding<@mesh, []>}",
        "-> (tensor<8x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {\"a\"}]>}, "
        "tensor<8x2xf32>)"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  }
  options.out_specs = {PartitionSpec{{}, {"b"}}};
  EXPECT_EQ(error_of([&] { to_stablehlo(f, options); }),
            "result 0: dim 1 of shape [8, 2] is 2, which mesh axis 'b' of size 4 does not divide; "
            "change the size, the mesh or the sharding rule");
}

}  // namespace
}  // namespace espalier::test
