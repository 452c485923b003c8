// A model in Hugging Face's form against what transformers computed of it: logits, loss and every
// gradient.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "espalier/base/locate.h"
#include "espalier/checkpoint/safetensors.h"
#include "espalier/train/config.h"
#include "espalier/train/model_outputs.h"
#include "espalier/train/pretrained.h"
#include "tests/support/shared.h"

namespace espalier::test {

struct HfGoldenCase {
  std::string label, mesh;  // mesh.axes, empty for one device
  std::string attention, layers;
};
inline void PrintTo(const HfGoldenCase& c, std::ostream* out) { *out << c.label; }

struct Difference {
  double error = 0, largest = 0;  // largest: of the reference
};

inline Difference difference(const HostArray& got, const HostArray& want) {
  Difference out;
  const auto a = got.as<float>(), b = want.as<float>();
  for (size_t i = 0; i < a.size(); ++i) {
    const double error = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    out.error = std::isnan(error) ? INFINITY : std::max(out.error, error);
    out.largest = std::max(out.largest, std::abs(static_cast<double>(b[i])));
  }
  return out;
}

// Skips with the reason where folder or plugin are missing. `gradients`: how many the model has.
inline void expect_equals_reference(const std::string& name, const HfGoldenCase& c,
                                    size_t gradients) {
  const auto folder = shared_file("golden/" + name);
  if (!folder) GTEST_SKIP() << "no golden/" << name << " in the shared folder";
  const auto plugin = plugin_path("cpu");
  if (!plugin) GTEST_SKIP() << plugin.failure().message;
  const SafetensorsFile file =
      SafetensorsFile::open(*folder / "reference.safetensors").value_or_throw();

  std::vector<std::string> overrides = {"model.attention=" + c.attention,
                                        "model.layers=" + c.layers};
  if (!c.mesh.empty()) overrides.push_back("mesh.axes=" + c.mesh);
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
  for (const auto& [param, gradient] : got.gradients) {
    const HostArray want = file.read("grad." + param).value_or_throw();
    ASSERT_EQ(gradient.dims(), want.dims()) << param;
    const Difference found = difference(gradient, want);
    EXPECT_LE(found.error, 1e-5 * found.largest) << param;
  }
  EXPECT_EQ(got.gradients.size(), gradients);
}

}  // namespace espalier::test
