// GPT-2 against Hugging Face's transformers (../shared/golden/gpt2): weights read from the folder,
// logits, loss and every gradient, for both attentions, on one device and on meshes, scanned and
// unrolled. tests/parity/verify_test.cc compares greedy texts too.
#include <gtest/gtest.h>

#include <cmath>

#include "espalier/base/locate.h"
#include "espalier/checkpoint/safetensors.h"
#include "espalier/nn/attention.h"
#include "espalier/train/config.h"
#include "espalier/train/model_outputs.h"
#include "espalier/train/pretrained.h"
#include "tests/support/shared.h"

namespace espalier {
namespace {

struct Case {
  std::string label, mesh;
  std::string attention, layers;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.label; }

// flash_attention in several blocks: the reference's 40 positions are less than one of its own.
constexpr const char* kBlocks = "flash:16";

class Gpt2Golden : public testing::TestWithParam<Case> {};

struct Difference {
  double error = 0, largest = 0;  // largest: of the reference
};

Difference difference(const HostArray& got, const HostArray& want) {
  Difference out;
  const auto a = got.as<float>(), b = want.as<float>();
  for (size_t i = 0; i < a.size(); ++i) {
    const double error = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    out.error = std::isnan(error) ? INFINITY : std::max(out.error, error);
    out.largest = std::max(out.largest, std::abs(static_cast<double>(b[i])));
  }
  return out;
}

TEST_P(Gpt2Golden, EqualsTheReference) {
  const auto folder = shared_file("golden/gpt2");
  if (!folder) GTEST_SKIP() << "no golden/gpt2 in the shared folder";
  const auto plugin = plugin_path("cpu");
  if (!plugin) GTEST_SKIP() << plugin.failure().message;
  const SafetensorsFile file =
      SafetensorsFile::open(*folder / "reference.safetensors").value_or_throw();

  std::vector<std::string> overrides = {"model.attention=" + GetParam().attention,
                                        "model.layers=" + GetParam().layers};
  if (!GetParam().mesh.empty()) overrides.push_back("mesh.axes=" + GetParam().mesh);
  const RunConfig config = load_hf_run_config(*folder, overrides).value_or_throw();
  const auto model = config.make_model(0);
  const auto runtime = Runtime::create({.mesh = config.make_mesh()}).value_or_throw();
  const ShardingRules rules = config.make_rules();
  std::vector<DeviceArray> params =
      load_pretrained(runtime, *config.model, model->params(), rules, *folder).value_or_throw();
  std::vector<DeviceArray*> pointers;
  for (DeviceArray& array : params) pointers.push_back(&array);
  const HostArray tokens = file.read("input_ids").value_or_throw().converted(DType::kS32);
  const HostArray targets = file.read("target_ids").value_or_throw().converted(DType::kS32);
  const ModelOutputs got =
      model_outputs(runtime, {*model, rules, DType::kF32}, pointers, tokens, targets)
          .value_or_throw();

  const HostArray logits = file.read("logits").value_or_throw();
  ASSERT_EQ(got.logits.dims(), logits.dims());
  EXPECT_LE(difference(got.logits, logits).error, 2e-5);
  const HostArray loss = file.read("loss").value_or_throw();
  EXPECT_NEAR(got.loss, loss.as<float>()[0], 1e-6);
  size_t compared = 0;
  for (const auto& [name, gradient] : got.gradients) {
    const HostArray want = file.read("grad." + name).value_or_throw();
    ASSERT_EQ(gradient.dims(), want.dims()) << name;
    const Difference found = difference(gradient, want);
    EXPECT_LE(found.error, 1e-5 * found.largest) << name;
    ++compared;
  }
  EXPECT_EQ(compared, 40u);  // 12 of each of 3 blocks, two embeddings, the last norm
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
}  // namespace espalier
