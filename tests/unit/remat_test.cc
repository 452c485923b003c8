// Rematerialization by policy: what a body keeps for its backward pass, that gradients stay what
// they are, and the text of offloading. On the oracle.
#include <gtest/gtest.h>

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

using Saves = RematPolicy::Saves;
using Build = std::function<Tensors(const Tensors&)>;

constexpr int64_t kLayers = 3;
const TensorType kX{DType::kF64, {2, 4, 3}}, kWide{DType::kF64, {kLayers, 3, 5}},
    kNarrow{DType::kF64, {kLayers, 5, 3}};
const std::vector<TensorType> kInputs = {kX, kWide, kNarrow};

// x exp(r), where r is a residual of its own.
Tensor with_own_rule(const Tensor& x, bool named) {
  Tensor r = sin(x), y = x * exp(r);
  if (named) r = checkpoint_name(r, "kept"), y = checkpoint_name(y, "kept");
  const auto rule = [](const Tensors& in, const Tensors& out, const Tensors& saved,
                       const Tensors& ct) {
    return Tensors{ct[0] * (exp(saved[0]) + out[0] * cos(in[0]))};
  };
  return custom_vjp("own", {x}, {y}, {r}, rule)[0];
}

// A product with weights, one with a batch dim, a rule of its own, a product with weights.
Tensor layer(const Tensor& x, const Tensor& wide, const Tensor& narrow, bool named = false) {
  const Tensor h = checkpoint_name(tanh(matmul(x, wide)), "hidden");
  const Tensor mixed = dot_general(dot_general(h, h, {0}, {0}, {2}, {2}), h, {0}, {0}, {2}, {1});
  return x + matmul(with_own_rule(mixed, named), narrow);
}

Tensor layers(const Tensors& in, bool scanned, const std::optional<RematPolicy>& policy,
              bool named = false) {
  const auto run = [&](const Tensor& x, const Tensor& wide, const Tensor& narrow) {
    if (!policy) return layer(x, wide, narrow, named);
    const auto body = [&](const Tensors& c) -> Tensors {
      return {layer(checkpoint_name(c[0], "input"), wide, narrow, named)};
    };
    return remat(body, {x}, *policy, !scanned)[0];
  };
  if (scanned) {
    const auto body = [&](const Tensors& c, const Tensors& e) -> ScanResult {
      return {{run(c[0], e[0], e[1])}, {}};
    };
    return scan(body, {in[0]}, {in[1], in[2]}).carry[0];
  }
  Tensor x = in[0];
  for (int64_t i = 0; i < kLayers; ++i) {
    x = run(x, reshape(slice_dim(in[1], 0, i, i + 1), {3, 5}),
            reshape(slice_dim(in[2], 0, i, i + 1), {5, 3}));
  }
  return x;
}

Build gradient(bool scanned, const std::optional<RematPolicy>& policy, bool named = false) {
  return [=](const Tensors& in) {
    const Tensor out = layers(in, scanned, policy, named);
    return value_and_grad(reduce_sum(sin(out)), in).grads;
  };
}

std::vector<RematPolicy> policies() {
  return {{Saves::kNothing},
          {Saves::kDots},
          {Saves::kDotsWithNoBatchDims},
          {Saves::kNames, {"hidden"}},
          {Saves::kNames, {"input", "hidden"}}};
}

TEST(RematPolicies, GradientsStayWhatTheyAre) {
  const auto arguments = random_arrays(kInputs, -1, 1, "arguments");
  for (const bool scanned : {false, true}) {
    const auto want = evaluate(trace(kInputs, gradient(scanned, {})), arguments);
    for (RematPolicy policy : policies()) {
      for (const bool offload : {false, true}) {
        policy.offload = offload;
        const Function grads = trace(kInputs, gradient(scanned, policy));
        const auto got = evaluate(grads, arguments);
        for (size_t i = 0; i < want.size(); ++i) {
          EXPECT_TRUE(close_to(got[i], want[i], 1e-14)) << i;
        }
        const auto simple = evaluate(simplify(grads), arguments);
        for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(close_to(simple[i], got[i], 0)) << i;
      }
    }
  }
}

TEST(RematPolicies, CanBeDifferentiatedTwice) {
  const auto twice = [](const std::optional<RematPolicy>& policy) {
    const Function f = trace(kInputs, [&](const Tensors& in) {
      Tensor sum = scalar(DType::kF64, 0);
      for (const Tensor& t : gradient(true, policy)(in)) sum = sum + reduce_sum(t * t);
      return value_and_grad(sum, in).grads;
    });
    return evaluate(f, random_arrays(kInputs, -1, 1, "arguments"));
  };
  const auto want = twice({});
  for (const RematPolicy& policy : policies()) {
    const auto got = twice(policy);
    for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(close_to(got[i], want[i], 1e-12)) << i;
  }
}

// Types that the forward scan stacks for the backward scan, sorted.
std::vector<std::string> stacked(const std::optional<RematPolicy>& policy, bool named = false) {
  const Function grads = simplify(trace(kInputs, gradient(true, policy, named)));
  for (const auto& node : reachable(grads.results)) {
    const auto* op = node->as<Scan>();
    if (op == nullptr) continue;
    std::vector<std::string> out;
    for (size_t i = op->carries; i < node->types.size(); ++i) {
      out.push_back(to_string(node->types[i]));
    }
    std::sort(out.begin(), out.end());
    return out;
  }
  return {"no scan"};
}

TEST(RematPolicies, KeepWhatTheyName) {
  using List = std::vector<std::string>;
  const std::string x = "f64[3, 2, 4, 3]", hidden = "f64[3, 2, 4, 5]", pairs = "f64[3, 2, 4, 4]";
  EXPECT_EQ(stacked(RematPolicy{Saves::kNothing}), (List{x}));
  // The last product is read by nothing; of the batched two the second is the rule's operand.
  EXPECT_EQ(stacked(RematPolicy{Saves::kDotsWithNoBatchDims}), (List{x, hidden}));
  EXPECT_EQ(stacked(RematPolicy{Saves::kDots}), (List{x, pairs, hidden, hidden}));
  EXPECT_EQ(stacked(RematPolicy{Saves::kNames, {"hidden"}}), (List{x, hidden}));
  // The name of an input keeps the carry once.
  EXPECT_EQ(stacked(RematPolicy{Saves::kNames, {"input"}}), (List{x}));
  EXPECT_GT(stacked({}).size(), 4U);
}

size_t count_of(const Function& function, UnaryKind kind) {
  size_t out = 0;
  for (const auto& node : reachable(function.results)) {
    const auto* op = node->as<Unary>();
    out += op != nullptr && op->kind == kind;
    if (const auto* loop = node->as<Scan>()) out += count_of(*loop->body, kind);
  }
  return out;
}

// The forward computation of an operation with its own rule is spared where its output and its
// residual are kept: sin(mixed) is in the forward pass alone, also where the output is read as the
// result of custom_vjp.
TEST(RematPolicies, ANameInsideARuleSparesItsForwardComputation) {
  const RematPolicy policy{Saves::kNames, {"kept"}};
  const std::string wide = "f64[3, 2, 4, 5]";
  EXPECT_EQ(stacked(policy, true), (std::vector<std::string>{"f64[3, 2, 4, 3]", wide, wide}));
  const auto sines = [](const std::optional<RematPolicy>& by) {
    return count_of(simplify(trace(kInputs, gradient(true, by, true))), UnaryKind::kSin);
  };
  EXPECT_EQ(sines(policy) + 1, sines(RematPolicy{Saves::kNothing}));
}

TEST(RematPolicies, UnknownNamesAreErrors) {
  const auto build = [](std::vector<std::string> names) {
    return [names = std::move(names)] {
      trace(kInputs, gradient(true, RematPolicy{Saves::kNames, names}));
    };
  };
  EXPECT_NO_THROW(build({"hidden"})());
  const std::string message = error_of(build({"hidden", "attn"}));
  EXPECT_NE(message.find("'attn' (train.remat_names); there are 'hidden', 'input'"),
            std::string::npos)
      << message;
}

size_t times(const std::string& text, const std::string& part) {
  size_t out = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++out;
  return out;
}

TEST(RematOffload, MovesKeptValuesToTheHostAndBack) {
  RematPolicy policy{Saves::kNames, {"input", "hidden"}};
  const auto text = [&](bool scanned) {
    return to_stablehlo(trace(kInputs, gradient(scanned, policy)), {});
  };
  const std::string call = "stablehlo.custom_call @annotate_device_placement",
                    to_host = "_xla_buffer_placement = \"pinned_host\"",
                    back = "_xla_buffer_placement = \"device\"";
  EXPECT_EQ(times(text(true), call), 0U);
  policy.offload = true;
  // Once in each loop for each of the two values; unrolled, once for each layer.
  EXPECT_EQ(times(text(true), to_host), 2U);
  EXPECT_EQ(times(text(true), back), 2U);
  EXPECT_EQ(times(text(true), call), 4U);
  EXPECT_EQ(times(text(false), to_host), 2U * kLayers);
  EXPECT_EQ(times(text(false), back), 2U * kLayers);
  // The device keeps none of them beside.
  EXPECT_EQ(stacked(policy).size(), 2U);
}

}  // namespace
}  // namespace espalier::test
