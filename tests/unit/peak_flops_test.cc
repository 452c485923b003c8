// The table of published FLOP/s, and model FLOPs that do not depend on the attention that runs.
#include "espalier/train/peak_flops.h"

#include <gtest/gtest.h>

#include "espalier/models/gpt2.h"
#include "espalier/models/minigpt.h"
#include "espalier/train/step.h"

namespace espalier {
namespace {

TEST(PublishedPeakFlops, ByTheNamesOfDevices) {
  struct Row {
    const char* kind;
    double bf16, f32;
  };
  const Row rows[] = {
      {"NVIDIA A10", 125e12, 62.5e12},
      {"NVIDIA A100-SXM4-40GB", 312e12, 156e12},
      {"NVIDIA A100-SXM4-80GB", 312e12, 156e12},
      {"NVIDIA A100-PCIE-40GB", 312e12, 156e12},
      {"A100-SXM4-40GB", 312e12, 156e12},
      {"NVIDIA A100 80GB PCIe", 312e12, 156e12},
      {"NVIDIA H100 80GB HBM3", 989.4e12, 494.7e12},
      {"NVIDIA H100 PCIe", 756e12, 378e12},
      {"NVIDIA H100 NVL", 835e12, 417.5e12},
      {"NVIDIA H200", 989.4e12, 494.7e12},
      {"NVIDIA H200 NVL", 835e12, 417.5e12},
      {"NVIDIA L4", 121e12, 60e12},
      {"NVIDIA L40", 181e12, 90.5e12},
      {"NVIDIA L40S", 362e12, 183e12},
      {"TPU v4", 275e12, 275e12},
      {"TPU v5 lite", 197e12, 197e12},
      {"TPU v5e", 197e12, 197e12},
      {"TPU v5", 459e12, 459e12},
      {"TPU v5p", 459e12, 459e12},
      {"TPU v6 lite", 918e12, 918e12},
      {"TPU v6e", 918e12, 918e12},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(published_peak_flops(row.kind, DType::kBF16), row.bf16) << row.kind;
    EXPECT_EQ(published_peak_flops(row.kind, DType::kF32), row.f32) << row.kind;
  }
}

// Names that begin or end like a listed one, shares of a device, and parts nobody listed.
TEST(PublishedPeakFlops, UnknownVariantsAreUnknown) {
  for (const char* kind :
       {"", "NVIDIA", "cpu", "NVIDIA L40G", "NVIDIA L400", "NVIDIA A10G", "NVIDIA A16",
        "NVIDIA H100 XYZ", "NVIDIA H100 80GB HBM2e", "NVIDIA GH200 480GB", "NVIDIA H2000",
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA A1000", "Tesla V100-SXM2-16GB",
        "NVIDIA RTX 4000 Ada", "TPU v4 lite", "TPU v50", "TPU v7"}) {
    EXPECT_EQ(published_peak_flops(kind, DType::kBF16), 0) << kind;
    EXPECT_EQ(published_peak_flops(kind, DType::kF32), 0) << kind;
  }
}

// 6 N + 12 L H K T a token, N without tables that are only looked up and without vectors.
TEST(TrainFlops, AreThoseOfTheFormulaWhateverAttentionRuns) {
  int calls = 0;
  register_attention("values", [&](const Tensor&, const Tensor&, const Tensor& v, const Ctx&) {
    ++calls;
    return v;
  });
  constexpr int64_t kLayers = 2, kWidth = 32, kSeq = 32, kVocab = 30;
  constexpr double kWanted =
      6.0 * (kLayers * 12 * kWidth * kWidth + kVocab * kWidth) + 12.0 * kLayers * kWidth * kSeq;
  for (const char* attention : {"dense", "flash", "flash:8", "values"}) {
    for (const char* layers : {"scan", "unroll"}) {
      Gpt2Config gpt2;
      gpt2.vocab_size = kVocab;
      gpt2.n_positions = kSeq;
      gpt2.n_embd = kWidth;
      gpt2.n_layer = kLayers;
      gpt2.n_head = 4;
      gpt2.attention = attention;
      gpt2.layers = layers;
      EXPECT_DOUBLE_EQ(train_flops_per_token(*make_model(gpt2), kSeq), kWanted)
          << attention << " " << layers;
      MiniGptConfig minigpt;
      minigpt.vocab_size = kVocab;
      minigpt.maxlen = kSeq;
      minigpt.embed_dim = kWidth;
      minigpt.feed_forward_dim = 4 * kWidth;
      minigpt.num_heads = 4;
      minigpt.num_transformer_blocks = kLayers;
      minigpt.attention = attention;
      minigpt.layers = layers;
      EXPECT_DOUBLE_EQ(train_flops_per_token(*make_model(minigpt), kSeq), kWanted)
          << attention << " " << layers;
    }
  }
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace espalier
