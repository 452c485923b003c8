// Layers on the oracle in float64: values against plain loops, gradients against differences.
#include "espalier/nn/loss.h"

#include <gtest/gtest.h>

#include <cmath>

#include "espalier/nn/stack.h"
#include "espalier/ops/op_list.h"
#include "espalier/random/random.h"
#include "espalier/transform/grad.h"
#include "tests/support/compare.h"
#include "tests/support/derivatives.h"
#include "tests/support/op_cases.h"
#include "tests/support/oracle.h"
#include "tests/unit/nn_testing.h"

namespace espalier::test {
namespace {

Tensor targets() { return constant(HostArray::from<int32_t>({kB, kT}, {0, 4, 2, 2, 1, 3, 4, 0})); }

Build cross_entropy(int64_t chunks, bool bias, int64_t row_devices = 1) {
  return [=](const Tensors& t) {
    const OutputLayer layer{t[1], bias ? t[2] : Tensor()};
    LossOptions options;
    options.chunks = chunks;
    options.row_devices = row_devices;
    const LossSum loss = linear_cross_entropy(t[0], layer, targets(), options);
    return Tensors{loss.sum / loss.count};
  };
}

TEST(LinearCrossEntropy, Value) {
  const std::vector<TensorType> types = {kRows, kWeight, kBias};
  const auto in = random_arrays(types, -1, 1, "loss");
  const auto x = in[0].as<double>(), w = in[1].as<double>(), b = in[2].as<double>();
  const std::vector<size_t> target = {0, 4, 2, 2, 1, 3, 4, 0};
  double loss = 0;
  for (size_t row = 0; row < kB * kT; ++row) {
    std::vector<double> logits(b.begin(), b.end());
    double sum = 0;
    for (size_t v = 0; v < kV; ++v) {
      for (size_t d = 0; d < kD; ++d) logits[v] += x[row * kD + d] * w[d * kV + v];
      sum += std::exp(logits[v]);
    }
    loss += (std::log(sum) - logits[target[row]]) / (kB * kT);
  }
  for (const int64_t chunks : {1, 2, 4}) {
    const HostArray got = value_of(types, cross_entropy(chunks, true), in);
    EXPECT_NEAR(got.as<double>()[0], loss, 1e-12);
  }
}

TEST(LinearCrossEntropy, Gradient) {
  for (const int64_t chunks : {1, 2, 4}) {
    expect_gradient({kRows, kWeight, kBias}, cross_entropy(chunks, true));
    expect_gradient({kRows, kWeight}, cross_entropy(chunks, false));
    // So many devices that the logits' gradient is the smaller one to keep.
    expect_gradient({kRows, kWeight, kBias}, cross_entropy(chunks, true, 1000));
    expect_gradient({kRows, kWeight}, cross_entropy(chunks, false, 1000));
  }
}

// Chunks keep the logits of one part at a time: a loss with huge logits stays finite.
TEST(LinearCrossEntropy, LargeLogits) {
  const std::vector<TensorType> types = {kRows, kWeight, kBias};
  const HostArray loss =
      value_of(types, cross_entropy(2, true), random_arrays(types, 1e3, 2e3, "large"));
  EXPECT_TRUE(std::isfinite(loss.as<double>()[0]));
}

TEST(LinearCrossEntropy, ChunksMustDivide) {
  try {
    trace({kRows, kWeight, kBias}, cross_entropy(3, true));
    ADD_FAILURE() << "taken";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("chunks that divide T"), std::string::npos);
  }
}

TEST(LossChunks, AreTheFewestThatFit) {
  EXPECT_EQ(loss_chunks(8, 256, 1000, 1), 1);
  // 256 rows of 256 tokens and 50257 ids: 13.2 GB, of which 256 MiB may be there at once.
  EXPECT_EQ(loss_chunks(256, 256, 50257, 1), 64);
  EXPECT_EQ(loss_chunks(256, 256, 50257, 8), 8);
  EXPECT_EQ(loss_chunks(1 << 20, 6, 50257, 1), 6);
  EXPECT_EQ(loss_chunks(2, 6, 14'000'000, 1), 3);  // 672 MB: of 1, 2, 3 and 6 parts, three fit
}

// What z_loss and ignored targets should give, position by position.
struct Reference {
  double sum = 0, count = 0;
};
Reference reference(const std::vector<HostArray>& in, double z_loss, int64_t ignore) {
  const auto x = in[0].as<double>(), w = in[1].as<double>();
  const std::vector<int64_t> target = {0, 4, 2, 2, 1, 3, 4, 0};
  Reference out;
  for (size_t row = 0; row < kB * kT; ++row) {
    if (target[row] == ignore) continue;
    std::vector<double> logits(kV, 0);
    double sum = 0;
    for (size_t v = 0; v < kV; ++v) {
      for (size_t d = 0; d < kD; ++d) logits[v] += x[row * kD + d] * w[d * kV + v];
      sum += std::exp(logits[v]);
    }
    const double log_sum = std::log(sum);
    out.sum += log_sum - logits[static_cast<size_t>(target[row])] + z_loss * log_sum * log_sum;
    out.count += 1;
  }
  return out;
}

TEST(LinearCrossEntropy, ZLossAndIgnoredTargets) {
  const auto in = random_arrays({kRows, kWeight}, -1, 1, "options");
  for (const int64_t chunks : {1, 2}) {
    for (const double z_loss : {0.0, 0.3}) {
      for (const int64_t ignore : {-1, 2, 4}) {
        LossOptions options{chunks, z_loss, ignore};
        const Build build = [=](const Tensors& t) {
          const LossSum loss = linear_cross_entropy(t[0], {t[1]}, targets(), options);
          return Tensors{loss.sum, loss.count};
        };
        const auto got = evaluate(trace({kRows, kWeight}, build), in);
        const Reference want = reference(in, z_loss, ignore);
        EXPECT_NEAR(got[0].as<double>()[0], want.sum, 1e-11);
        EXPECT_EQ(got[1].as<double>()[0], want.count);
        expect_gradient({kRows, kWeight}, [=](const Tensors& t) {
          return Tensors{linear_cross_entropy(t[0], {t[1]}, targets(), options).sum};
        });
      }
    }
  }
}

// A weight that is a token embedding used again, (V, D).
TEST(LinearCrossEntropy, VocabFirst) {
  const auto in = random_arrays({kRows, kWeight}, -1, 1, "tied");
  for (const int64_t chunks : {1, 4}) {
    const Build plain = [=](const Tensors& t) {
      const LossSum loss = linear_cross_entropy(t[0], {t[1]}, targets(), {chunks});
      return Tensors{value_and_grad(loss.sum, t).grads[1], loss.sum};
    };
    const Build tied = [=](const Tensors& t) {
      const Tensor table = transpose(t[1], {1, 0});
      const LossSum loss = linear_cross_entropy(t[0], {table, Tensor(), true}, targets(), {chunks});
      return Tensors{value_and_grad(loss.sum, t).grads[1], loss.sum};
    };
    const auto a = evaluate(trace({kRows, kWeight}, plain), in);
    const auto b = evaluate(trace({kRows, kWeight}, tied), in);
    EXPECT_TRUE(close_to(a[0], b[0], 1e-12));
    EXPECT_TRUE(close_to(a[1], b[1], 1e-12));
  }
}

}  // namespace
}  // namespace espalier::test
