// Attention on the oracle: values against plain loops in float64, gradients against differences,
// sizes of arrays in the text, bfloat16 operands, and the names that recipes choose by.
#include "espalier/nn/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <regex>
#include <thread>

#include "espalier/nn/kv_cache.h"
#include "espalier/ops/op_list.h"
#include "espalier/transform/grad.h"
#include "espalier/transform/module.h"
#include "tests/support/compare.h"
#include "tests/support/derivatives.h"
#include "tests/support/error_of.h"
#include "tests/support/op_cases.h"
#include "tests/support/oracle.h"

namespace espalier::test {
namespace {

struct Shape {
  int64_t batch, queries, keys, heads, key_heads, width;
  std::vector<TensorType> types(DType dtype) const {
    const TensorType kv{dtype, {batch, keys, key_heads, width}};
    return {{dtype, {batch, queries, heads, width}}, kv, kv};
  }
};

// Query t sees keys up to `position` + t.
HostArray naive(const Shape& s, const std::vector<HostArray>& in, int64_t position) {
  const HostArray wide[3] = {in[0].converted(DType::kF64), in[1].converted(DType::kF64),
                             in[2].converted(DType::kF64)};
  const auto q = wide[0].as<double>(), k = wide[1].as<double>(), v = wide[2].as<double>();
  const auto at = [&](int64_t length, int64_t heads, int64_t b, int64_t t, int64_t h) {
    return static_cast<size_t>(((b * length + t) * heads + h) * s.width);
  };
  const auto width = static_cast<size_t>(s.width);
  HostArray out(DType::kF64, in[0].dims());
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) {
      const int64_t g = h * s.key_heads / s.heads;
      for (int64_t t = 0; t < s.queries; ++t) {
        const size_t row = at(s.queries, s.heads, b, t, h);
        std::vector<double> weights;
        double sum = 0;
        for (int64_t j = 0; j <= position + t; ++j) {
          const size_t key = at(s.keys, s.key_heads, b, j, g);
          double score = 0;
          for (size_t i = 0; i < width; ++i) score += q[row + i] * k[key + i];
          weights.push_back(std::exp(score / std::sqrt(static_cast<double>(s.width))));
          sum += weights.back();
        }
        for (int64_t j = 0; j <= position + t; ++j) {
          const size_t key = at(s.keys, s.key_heads, b, j, g);
          for (size_t i = 0; i < width; ++i) {
            out.as<double>()[row + i] += weights[static_cast<size_t>(j)] / sum * v[key + i];
          }
        }
      }
    }
  }
  return out;
}

using Build = std::function<Tensors(const Tensors&)>;
Tensors dense(const Tensors& in) { return {causal_attention(in[0], in[1], in[2])}; }
Build flash(int64_t block) {
  return
      [block](const Tensors& in) { return Tensors{flash_attention(in[0], in[1], in[2], block)}; };
}

// One position, one head, lengths that blocks divide and do not, grouped queries.
const std::vector<Shape> kShapes = {{2, 5, 5, 2, 2, 3}, {1, 1, 1, 1, 1, 2}, {1, 8, 8, 1, 1, 2},
                                    {1, 7, 7, 4, 2, 2}, {2, 6, 6, 3, 1, 2}, {1, 9, 9, 2, 2, 1}};

TEST(CausalAttention, IsTheNaiveOne) {
  for (const Shape& s : kShapes) {
    const auto in = random_arrays(s.types(DType::kF64), -2, 2, "attention");
    const HostArray got = evaluate(trace(s.types(DType::kF64), dense), in)[0];
    EXPECT_TRUE(close_to(got, naive(s, in, 0), 1e-12)) << s.queries << " " << s.key_heads;
  }
}

TEST(CausalAttention, Gradient) {
  expect_gradient(kShapes[0].types(DType::kF64), dense);
  expect_gradient(kShapes[3].types(DType::kF64), dense);  // grouped
}

TEST(FlashAttention, IsTheNaiveOneForEveryBlock) {
  for (const Shape& s : kShapes) {
    const auto in = random_arrays(s.types(DType::kF64), -2, 2, "attention");
    const HostArray want = naive(s, in, 0);
    for (const int64_t block : {1, 2, 3, 4, 16}) {
      const HostArray got = evaluate(trace(s.types(DType::kF64), flash(block)), in)[0];
      EXPECT_TRUE(close_to(got, want, 1e-12)) << s.queries << " " << s.key_heads << " " << block;
    }
  }
}

TEST(FlashAttention, Gradient) {
  expect_gradient(kShapes[0].types(DType::kF64), flash(2));  // three blocks of two, one padded
  expect_gradient(kShapes[2].types(DType::kF64), flash(4));
  expect_gradient(kShapes[3].types(DType::kF64), flash(3));  // grouped
  expect_gradient(kShapes[4].types(DType::kF64), flash(1));
}

// Scores far apart: the highest so far rises from block to block, or was in the first one.
TEST(FlashAttention, LargeScoresStayFinite) {
  const Shape s{1, 6, 6, 1, 1, 1};
  const auto values = HostArray::from<double>({1, 6, 1, 1}, {1, -2, 3, 0.5, -1, 2});
  for (const std::vector<double>& keys :
       {std::vector<double>{1, 90, 180, 270, 360, 450}, {450, 360, 270, 180, 90, 1}}) {
    const auto ones = HostArray::from<double>({1, 6, 1, 1}, {1, 1, 1, 1, 1, 1});
    const std::vector<HostArray> in = {ones, HostArray::from<double>({1, 6, 1, 1}, keys), values};
    const HostArray got = evaluate(trace(s.types(DType::kF64), flash(2)), in)[0];
    EXPECT_TRUE(close_to(got, naive(s, in, 0), 1e-12));
  }
}

// Elements of the largest array that a program's text names.
int64_t largest_array(const std::string& text) {
  int64_t largest = 0;
  const std::regex shape("tensor<((?:[0-9]+x)+)");
  for (auto it = std::sregex_iterator(text.begin(), text.end(), shape);
       it != std::sregex_iterator(); ++it) {
    int64_t size = 1;
    std::istringstream dims((*it)[1].str());
    for (std::string dim; std::getline(dims, dim, 'x');) size *= std::stoll(dim);
    largest = std::max(largest, size);
  }
  return largest;
}

TEST(FlashAttention, NoArrayOfTheSequenceSquared) {
  const Shape s{1, 61, 61, 2, 1, 4};
  const auto text = [&](const Build& build) {
    const Function f = trace(s.types(DType::kF32), [&](const Tensors& in) {
      const Tensor o = build(in)[0];
      const ValueAndGrad vg = value_and_grad(reduce_sum(o * o), in, {o});
      return Tensors{vg.aux[0], vg.grads[0], vg.grads[1], vg.grads[2]};
    });
    ModuleOptions options;
    options.in_specs.resize(3);
    options.out_specs.resize(4);
    return to_stablehlo(f, options);
  };
  EXPECT_GE(largest_array(text(dense)), 61 * 61);
  EXPECT_EQ(largest_array(text(flash(8))), 64 * 2 * 4);  // q, padded to eight blocks of eight
  // In a scan over layers: of each layer q, k, v, the result and the sums' logarithms are kept.
  const auto layers = [](const Tensors& in) {
    const auto layer = [&](const Tensors& x, const Tensors&) -> ScanResult {
      return {{flash_attention(x[0], in[1], in[2], 8)}, {}};
    };
    return scan(layer, {in[0]}, {}, 3).carry;
  };
  EXPECT_EQ(largest_array(text(layers)), 3 * 61 * 2 * 4);
}

// In bfloat16 scores of 40 would be off by up to an eighth, and probabilities with them.
TEST(Attention, ScoresOfBfloat16OperandsAreFloat32) {
  const Shape s{1, 7, 7, 2, 1, 4};
  const auto types = s.types(DType::kBF16);
  std::vector<HostArray> in;
  for (const HostArray& x : random_arrays(s.types(DType::kF64), -9, 9, "wide")) {
    in.push_back(x.converted(DType::kBF16));
  }
  const HostArray want = naive(s, in, 0);
  const auto cached = [](const Tensors& t) {
    return Tensors{cached_attention(t[0], t[1], t[2], full_int({DType::kS32, {}}, 0))};
  };
  for (const Build& build : {Build(dense), flash(3), Build(cached)}) {
    const HostArray got = evaluate(trace(types, build), in)[0];
    EXPECT_EQ(got.dtype(), DType::kBF16);
    EXPECT_TRUE(close_to(got.converted(DType::kF64), want, 1.5e-2));
  }
}

TEST(Attention, GradientsOfBfloat16OperandsAreCloseToThoseOfFloat64) {
  const Shape s{1, 7, 7, 2, 1, 4};
  const auto grads = [&](const Build& build, DType dtype) {
    return trace(s.types(dtype), [&](const Tensors& in) {
      const Tensor o = convert(build(in)[0], DType::kF64);
      return value_and_grad(reduce_sum(o * o), in).grads;
    });
  };
  std::vector<HostArray> narrow, wide;
  for (const HostArray& x : random_arrays(s.types(DType::kF64), -1, 1, "narrow")) {
    narrow.push_back(x.converted(DType::kBF16));
    wide.push_back(narrow.back().converted(DType::kF64));
  }
  const auto want = evaluate(grads(dense, DType::kF64), wide);
  for (const Build& build : {Build(dense), flash(3)}) {
    const auto got = evaluate(grads(build, DType::kBF16), narrow);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(got[i].dtype(), DType::kBF16);
      EXPECT_TRUE(close_to(got[i].converted(DType::kF64), want[i], 2e-2)) << i;
    }
  }
}

TEST(CachedAttention, IsTheNaiveOneFromAnyPlace) {
  const Shape s{2, 3, 8, 4, 2, 3};
  auto types = s.types(DType::kF64);
  types.push_back({DType::kS32, {}});
  const Function f = trace(types, [](const Tensors& in) {
    return Tensors{cached_attention(in[0], in[1], in[2], in[3])};
  });
  for (const int32_t position : {0, 1, 5}) {
    auto in = random_arrays(s.types(DType::kF64), -2, 2, "cache");
    const HostArray want = naive(s, in, position);
    // What no query sees does not matter.
    for (size_t i : {1, 2}) {
      auto x = in[i].as<double>();
      for (size_t b = 0; b < 2; ++b) {
        const size_t first = (b * 8 + static_cast<size_t>(position) + 3) * 6;
        for (size_t n = first; n < (b + 1) * 8 * 6; ++n) x[n] = 1e6;
      }
    }
    in.push_back(HostArray::from<int32_t>({}, {position}));
    EXPECT_TRUE(close_to(evaluate(f, in)[0], want, 1e-12)) << position;
  }
}

TEST(Attention, WrongShapesAreRefused) {
  const TensorType q{DType::kF32, {2, 4, 6, 8}};
  const auto refusal = [&](const TensorType& k, const TensorType& v, const Build& build) {
    return error_of([&] { trace({q, k, v}, build); });
  };
  const Tensor place = full_int({DType::kU32, {}}, 0);
  const TensorType four{DType::kF32, {2, 4, 4, 8}}, longer{DType::kF32, {2, 5, 6, 8}},
      bf16{DType::kBF16, q.dims}, flat{DType::kF32, {2, 4, 48}};
  for (const Build& build : {Build(dense), flash(2)}) {
    EXPECT_NE(refusal(four, four, build).find("G divides H"), std::string::npos);
    EXPECT_NE(refusal(bf16, bf16, build).find("one floating-point type"), std::string::npos);
    EXPECT_NE(refusal(flat, flat, build).find("needs q (B, T, H, K)"), std::string::npos);
    EXPECT_NE(refusal(q, longer, build).find("f32[2, 5, 6, 8]"), std::string::npos);
    EXPECT_NE(refusal(longer, longer, build).find("as many keys as queries"), std::string::npos);
  }
  EXPECT_NE(refusal(q, q, flash(0)).find("blocks of at least 1"), std::string::npos);
  EXPECT_NE(
      refusal(q, q,
              [&](const Tensors& t) { return Tensors{cached_attention(t[0], t[1], t[2], place)}; })
          .find("the position as i32[], got ui32[]"),
      std::string::npos);
}

TEST(AttentionRegistry, ANameChoosesTheAttention) {
  int calls = 0;
  register_attention("twice", [&](const Tensor& q, const Tensor&, const Tensor&, const Ctx&) {
    ++calls;
    return q * 2.0;
  });
  ParamSpecs specs;
  const Ctx cx(specs, {});
  const Shape s{1, 6, 6, 1, 1, 2};
  const auto in = random_arrays(s.types(DType::kF64), -1, 1, "registry");
  const auto run = [&](const std::string& name) {
    const Attention attention = find_attention(name);
    return evaluate(
        trace(s.types(DType::kF64),
              [&](const Tensors& t) { return Tensors{attention(t[0], t[1], t[2], cx)}; }),
        in)[0];
  };
  EXPECT_TRUE(close_to(run("dense"), naive(s, in, 0), 1e-12));
  EXPECT_TRUE(close_to(run("flash"), naive(s, in, 0), 1e-12));
  EXPECT_EQ(calls, 0);
  const HostArray twice = run("twice");
  EXPECT_EQ(twice.as<double>()[3], 2 * in[0].as<double>()[3]);
  EXPECT_EQ(calls, 1);
  // The last one registered counts.
  register_attention(
      "twice", [](const Tensor& q, const Tensor&, const Tensor&, const Ctx&) { return q * 3.0; });
  const HostArray again = run("twice");
  EXPECT_EQ(again.as<double>()[3], 3 * in[0].as<double>()[3]);
}

// A context made for plain attention takes the model's own one out of use, in a stack's layers too.
TEST(Attend, ByTheModelsAttentionOrPlainly) {
  int calls = 0;
  const Attention doubled = [&](const Tensor& q, const Tensor&, const Tensor&, const Ctx&) {
    ++calls;
    return q * 2.0;
  };
  ParamSpecs specs;
  const Ctx own(specs, {});
  EXPECT_FALSE(own.is_attention_plain());
  const Shape s{1, 6, 6, 2, 1, 2};
  const auto in = random_arrays(s.types(DType::kF64), -1, 1, "attend");
  const auto run = [&](const Ctx& cx) {
    const auto call = [&](const Tensors& t) {
      return Tensors{attend(doubled, t[0], t[1], t[2], cx)};
    };
    return evaluate(trace(s.types(DType::kF64), call), in)[0];
  };
  const HostArray twice = run(own);
  EXPECT_EQ(twice.as<double>()[3], 2 * in[0].as<double>()[3]);
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(close_to(run(own.plain_attention()), naive(s, in, 0), 1e-12));
  const auto in_layer = [&](const Tensors& t) {
    const Ctx cx = own.plain_attention().layer(0, {}, full_int({DType::kS32, {}}, 0));
    return Tensors{attend(doubled, t[0], t[1], t[2], cx)};
  };
  const HostArray got = evaluate(trace(s.types(DType::kF64), in_layer), in)[0];
  EXPECT_TRUE(close_to(got, naive(s, in, 0), 1e-12));
  EXPECT_EQ(calls, 1);
}

TEST(AttentionRegistry, ErrorsSayWhatIsKnown) {
  const Attention own = [](const Tensor& q, const Tensor&, const Tensor&, const Ctx&) { return q; };
  EXPECT_NE(error_of([&] { register_attention("flash", own); }).find("'flash' is built in"),
            std::string::npos);
  EXPECT_NE(error_of([&] { register_attention("", own); }).find("needs a name"), std::string::npos);
  EXPECT_NE(error_of([&] { register_attention("empty", {}); }).find("'empty'"), std::string::npos);
  EXPECT_NE(error_of([&] { register_attention("flash:8", own); }).find("is built in"),
            std::string::npos);
  EXPECT_NE(error_of([&] { find_attention("flash:0"); }).find("at least 1"), std::string::npos);
  register_attention("own", own);
  const std::string message = error_of([&] { find_attention("flush"); });
  EXPECT_NE(message.find("'flush'"), std::string::npos) << message;
  EXPECT_NE(message.find("'dense', 'flash'"), std::string::npos) << message;
  EXPECT_NE(message.find("'own'"), std::string::npos) << message;
  EXPECT_EQ(message.find("'empty'"), std::string::npos) << message;
}

TEST(AttentionRegistry, ManyThreadsAtOnce) {
  std::vector<std::thread> threads;
  for (int n = 0; n < 8; ++n) {
    threads.emplace_back([n] {
      const std::string name = "thread" + std::to_string(n);
      for (int i = 0; i < 200; ++i) {
        register_attention(
            name, [](const Tensor& q, const Tensor&, const Tensor&, const Ctx&) { return q; });
        find_attention(name);
        find_attention("dense");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int n = 0; n < 8; ++n) find_attention("thread" + std::to_string(n));
}

}  // namespace
}  // namespace espalier::test
