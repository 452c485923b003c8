// Llama 3 against Hugging Face's transformers (../shared/golden/llama): grouped queries, an output
// layer of its own and llama3's scaling of rotary frequencies; as gpt2_test.cc. Greedy texts:
// tests/parity/llama_weights_test.cc.
#include "tests/golden/hf_golden.h"

namespace espalier::test {
namespace {

using Case = HfGoldenCase;

constexpr const char* kBlocks = "flash:16";

class LlamaGolden : public testing::TestWithParam<Case> {};

TEST_P(LlamaGolden, EqualsTheReference) {
  // 9 of each of 3 blocks, two tables, the last norm.
  expect_equals_reference("llama", GetParam(), 30);
}

const char* const kBoth = "{fsdp=4,tensor=2}";
INSTANTIATE_TEST_SUITE_P(Runs, LlamaGolden,
                         testing::Values(Case{"DenseScan", "", "dense", "scan"},
                                         Case{"DenseUnroll", "", "dense", "unroll"},
                                         Case{"BlocksScan", "", kBlocks, "scan"},
                                         Case{"DenseScanBoth", kBoth, "dense", "scan"},
                                         Case{"DenseUnrollBoth", kBoth, "dense", "unroll"},
                                         Case{"BlocksScanBoth", kBoth, kBlocks, "scan"},
                                         Case{"DenseScanFsdp", "{fsdp=8}", "dense", "scan"},
                                         Case{"DenseUnrollTensor", "{tp=2}", "dense", "unroll"}),
                         [](const auto& test) { return test.param.label; });

}  // namespace
}  // namespace espalier::test
