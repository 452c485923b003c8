// Attention through the CPU plugin in float32: flash against dense in values and gradients, its
// memory over the length of the sequence, and both split over a mesh without moving anything.
#include <gtest/gtest.h>

#include "espalier/nn/attention.h"
#include "espalier/nn/rope.h"
#include "espalier/ops/op_list.h"
#include "espalier/runtime/program.h"
#include "tests/support/attention_cases.h"
#include "tests/support/op_cases.h"

namespace espalier::test {
namespace {

Build flash(int64_t block) {
  return [block](const Tensor& q, const Tensor& k, const Tensor& v) {
    return flash_attention(q, k, v, block);
  };
}

TEST(FlashAttention, EqualsDenseInValuesAndGradients) {
  const auto runtime = Runtime::create({}).value_or_throw();
  const struct {
    AttentionShape shape;
    int64_t block;
  } cases[] = {{{2, 256, 4, 4, 32}, kFlashBlock},
               {{1, 200, 3, 3, 16}, 64},
               {{2, 77, 1, 1, 8}, 16},
               {{3, 1, 2, 2, 8}, kFlashBlock},
               {{1, 130, 8, 2, 16}, kFlashBlock},
               {{2, 65, 4, 1, 8}, 32},
               {{1, 40, 2, 2, 8}, 1}};
  for (const auto& [shape, block] : cases) {
    const auto in = random_arrays(shape.types(), -2, 2, "flash");
    const auto want = run_once(runtime, with_gradients(shape, causal_attention), in);
    const auto got = run_once(runtime, with_gradients(shape, flash(block)), in);
    ASSERT_TRUE(want.ok() && got.ok());
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_LE(apart(got.value()[i], want.value()[i]), 1e-5)
          << "length " << shape.length << ", block " << block << ", result " << i;
    }
  }
}

TEST(FlashAttention, EqualsDenseInBfloat16) {
  const auto runtime = Runtime::create({}).value_or_throw();
  const AttentionShape shape{1, 96, 4, 2, 32};
  std::vector<HostArray> in, wide;
  for (const HostArray& x : random_arrays(shape.types(), -2, 2, "bf16")) {
    in.push_back(x.converted(DType::kBF16));
    wide.push_back(in.back().converted(DType::kF32));
  }
  const auto want = run_once(runtime, with_gradients(shape, causal_attention), wide);
  ASSERT_TRUE(want.ok());
  for (const Build& build : {Build(causal_attention), flash(32)}) {
    const auto got = run_once(runtime, with_gradients(shape, build, DType::kBF16), in);
    ASSERT_TRUE(got.ok()) << got.failure().message;
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(got.value()[i].dtype(), DType::kBF16);
      EXPECT_LE(apart(got.value()[i], want.value()[i]), 1e-2) << i;
    }
  }
}

int64_t temporary_bytes(const std::shared_ptr<Runtime>& runtime, int64_t length,
                        const Build& build) {
  const Function f = with_gradients({1, length, 2, 2, 16}, build);
  const Program program = compile(runtime, program_of(f, {})).value_or_throw();
  return program.executable().memory_stats().value_or_throw().temp;
}

TEST(FlashAttention, MemoryGrowsLinearlyWithTheSequence) {
  const auto runtime = Runtime::create({}).value_or_throw();
  const int64_t flash_1k = temporary_bytes(runtime, 1024, flash(kFlashBlock)),
                flash_2k = temporary_bytes(runtime, 2048, flash(kFlashBlock)),
                flash_4k = temporary_bytes(runtime, 4096, flash(kFlashBlock));
  EXPECT_LE(flash_4k - flash_2k, 2.2 * static_cast<double>(flash_2k - flash_1k));
  EXPECT_LT(flash_4k, 2 * 4096 * 4096 * 4 / 8);  // an eighth of one array of scores
  // The measure sees the arrays of dense attention.
  EXPECT_GE(temporary_bytes(runtime, 1024, causal_attention), 2 * 1024 * 1024 * 4);
}

// Batch and heads are split: every device has what it needs.
TEST(Attention, NothingMovesOnAMesh) {
  const auto one = Runtime::create({}).value_or_throw();
  const Mesh mesh({{"data", 2}, {"tensor", 2}});
  const auto four = Runtime::create({.mesh = mesh}).value_or_throw();
  // Two layers in a scan, as models repeat them, with rotated queries and keys.
  const auto layers = [](const Build& attention) -> Build {
    return [attention](const Tensor& q, const Tensor& k, const Tensor& v) {
      const auto places = iota({DType::kS32, {q.dim(1)}}, 0);
      const auto layer = [&](const Tensors& x, const Tensors&) -> ScanResult {
        return {{x[0] + attention(rope(x[0], places), rope(k, places), v)}, {}};
      };
      return scan(layer, {q}, {}, 2).carry[0];
    };
  };
  for (const AttentionShape& shape :
       {AttentionShape{4, 24, 4, 4, 8}, AttentionShape{4, 21, 8, 2, 8}}) {
    for (const Build& attention : {Build(causal_attention), flash(8)}) {
      for (const Build& build : {attention, layers(attention)}) {
        const Function f = with_gradients(shape, build);
        const auto in = random_arrays(shape.types(), -1, 1, "mesh");
        const auto want = run_once(one, f, in).value_or_throw();

        const PartitionSpec split = {{"data"}, {}, {"tensor"}, {}};
        Program program = compile(four, program_of(f, split)).value_or_throw();
        const Counts counts = program.executable()
                                  .optimized_program()
                                  .value_or_throw()
                                  .opcode_counts()
                                  .value_or_throw();
        for (const auto& [opcode, count] : counts) {
          for (const char* collective :
               {"all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter"}) {
            EXPECT_FALSE(opcode.starts_with(collective))
                << opcode << " " << count << " at length " << shape.length;
          }
        }
        std::vector<DeviceArray> arrays;
        for (const HostArray& x : in) {
          arrays.push_back(DeviceArray::from_host(four, x, split).value_or_throw());
        }
        const auto got =
            program.run({&arrays[0], &arrays[1], &arrays[2], &arrays[3]}).value_or_throw();
        for (size_t i = 0; i < 4; ++i) {
          EXPECT_LE(apart(got[i].to_host().value_or_throw(), want[i]), 1e-5)
              << "result " << i << " at length " << shape.length;
        }
      }
    }
  }
}

// Token by token over a cache whose unused places hold other numbers: dense attention's rows.
TEST(CachedAttention, EqualsDenseTokenByToken) {
  const auto runtime = Runtime::create({}).value_or_throw();
  const AttentionShape shape{2, 12, 4, 2, 8};
  const auto in = random_arrays(shape.types(), -2, 2, "cache");
  const Function both = trace(shape.types(), [&](const Tensors& t) {
    const TensorType cache{DType::kF32, {2, 16, 2, 8}};
    const Tensor keys = full(cache, 5), values = full(cache, -7);
    const Tensor zero = full_int({DType::kS32, {}}, 0);
    const auto step = [&](const Tensors& now, const Tensors& element) -> ScanResult {
      const Tensor& at = element[0];
      const auto token = [&](const Tensor& x) {
        return dynamic_slice(x, {zero, at, zero, zero}, {2, 1, x.dim(2), 8});
      };
      const Tensor k = dynamic_update_slice(now[0], token(t[1]), {zero, at, zero, zero}),
                   v = dynamic_update_slice(now[1], token(t[2]), {zero, at, zero, zero});
      return {{k, v}, {cached_attention(token(t[0]), k, v, at)}};
    };
    const Tensor rows =
        scan(step, {keys, values}, {iota({DType::kS32, {12}}, 0)}).outputs[0];  // (T, B, 1, H, K)
    const Tensor o = reshape(transpose(rows, {1, 0, 2, 3, 4}), t[0].dims());
    return Tensors{o, causal_attention(t[0], t[1], t[2])};
  });
  const auto out = run_once(runtime, both, in).value_or_throw();
  EXPECT_LE(apart(out[0], out[1]), 1e-6);
}

}  // namespace
}  // namespace espalier::test
