// GPT-2 against Hugging Face's transformers (../shared/golden/gpt2): weights read from the folder,
// logits, loss and every gradient, for both attentions, on one device and on meshes, scanned and
// unrolled. tests/parity/verify_test.cc compares greedy texts too.
#include "tests/golden/hf_golden.h"

namespace espalier::test {
namespace {

using Case = HfGoldenCase;

// flash_attention in several blocks: the reference's 40 positions are less than one of its own.
constexpr const char* kBlocks = "flash:16";

class Gpt2Golden : public testing::TestWithParam<Case> {};

TEST_P(Gpt2Golden, EqualsTheReference) {
  // 12 of each of 3 blocks, two embeddings, the last norm.
  expect_equals_reference("gpt2", GetParam(), 40);
}

const char* const kData = "{data=4,tensor=2}";
INSTANTIATE_TEST_SUITE_P(Runs, Gpt2Golden,
                         testing::Values(Case{"DenseScan", "", "dense", "scan"},
                                         Case{"FlashScan", "", "flash", "scan"},
                                         Case{"DenseUnroll", "", "dense", "unroll"},
                                         Case{"BlocksScan", "", kBlocks, "scan"},
                                         Case{"BlocksUnroll", "", kBlocks, "unroll"},
                                         Case{"DenseScanDataTensor", kData, "dense", "scan"},
                                         Case{"BlocksScanDataTensor", kData, kBlocks, "scan"},
                                         Case{"DenseScanFsdp", "{fsdp=8}", "dense", "scan"},
                                         Case{"BlocksScanFsdp", "{fsdp=8}", kBlocks, "scan"},
                                         Case{"BlocksUnrollFsdp", "{fsdp=8}", kBlocks, "unroll"},
                                         Case{"DenseUnrollModel", "{model=2}", "dense", "unroll"}),
                         [](const auto& test) { return test.param.label; });

}  // namespace
}  // namespace espalier::test
