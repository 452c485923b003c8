// miniGPT against flax nnx and optax (../shared/golden/minigpt.safetensors), on one device and on
// meshes, scanned and unrolled.
#include <gtest/gtest.h>

#include <cmath>

#include "espalier/checkpoint/safetensors.h"
#include "espalier/models/minigpt.h"
#include "espalier/nn/layout.h"
#include "espalier/ops/annotate.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/source.h"
#include "espalier/optim/optimizer.h"
#include "espalier/runtime/program.h"
#include "espalier/transform/grad.h"
#include "tests/support/shared.h"

namespace espalier {
namespace {

struct Case {
  std::string label;
  std::vector<MeshAxis> axes;
  std::string layers;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.label; }

class MiniGptGolden : public testing::TestWithParam<Case> {};

// The reference value of a parameter array: layers stacked where the model stacks them, padded with
// zeros to the layout's shape.
HostArray reference(const SafetensorsFile& file, const std::string& prefix, const ParamSpec& spec,
                    const TensorType& type) {
  HostArray out(DType::kF32, type.dims);
  const int64_t layers = std::max<int64_t>(spec.layers, 1);
  const int64_t rows = num_elements(type.dims) / layers;
  for (int64_t i = 0; i < layers; ++i) {
    const HostArray one = file.read(prefix + spec.layer_name(i)).value_or_throw();
    Dims padded = type.dims;
    if (spec.layers > 0) padded.erase(padded.begin());
    const auto from = one.as<float>();
    auto to = out.as<float>().subspan(static_cast<size_t>(i * rows), static_cast<size_t>(rows));
    // Only a first or last dim is ever padded here.
    const int64_t width = one.dims().back(), wide = padded.back();
    for (int64_t k = 0; k < one.size(); ++k) {
      to[static_cast<size_t>(k / width * wide + k % width)] = from[static_cast<size_t>(k)];
    }
  }
  return out;
}

void expect_near(const HostArray& got, const HostArray& want, double relative,
                 const std::string& what) {
  ASSERT_EQ(got.dims(), want.dims()) << what;
  double largest = 0, worst = 0;
  const auto a = got.as<float>(), b = want.as<float>();
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
    worst = std::max(worst, std::abs(static_cast<double>(a[i]) - b[i]));
  }
  EXPECT_LE(worst, relative * std::max(largest, 1e-30)) << what << " largest " << largest;
}

void expect_below(const HostArray& got, double limit, const std::string& what) {
  for (const float x : got.as<float>()) ASSERT_LE(std::abs(x), limit) << what;
}

TEST_P(MiniGptGolden, EqualsTheReference) {
  const auto path = shared_file("golden/minigpt.safetensors");
  if (!path) GTEST_SKIP() << "no golden/minigpt.safetensors in the shared folder";
  const SafetensorsFile file = SafetensorsFile::open(*path).value_or_throw();

  MiniGptConfig config;
  config.vocab_size = 211;
  config.maxlen = 24;
  config.embed_dim = 32;
  config.num_heads = 4;
  config.feed_forward_dim = 40;
  config.num_transformer_blocks = 3;
  config.dropout = 0;
  config.layers = GetParam().layers;
  const auto model = make_model(config);
  const Mesh mesh(GetParam().axes);
  ShardingRules rules;
  if (!mesh.axes().empty()) {
    rules.axes = {
        {"batch", {"batch"}}, {"heads", {"model"}}, {"mlp", {"model"}}, {"vocab", {"model"}}};
  }
  auto runtime = Runtime::create({.mesh = mesh}).value_or_throw();
  const auto layouts = layout_params(model->params(), rules, mesh);
  const size_t n = layouts.size();

  // One program: (params, adam state, step, tokens, targets) to (params, state, step, loss,
  // logits, grads).
  OptimizerConfig adam;
  adam.name = "adam";
  const Optimizer optimizer = make_optimizer(adam).value_or_throw();
  std::vector<ParamInfo> infos;
  for (size_t i = 0; i < n; ++i) infos.push_back({model->params()[i].name, layouts[i].type});
  const auto state = optimizer.state(infos);

  std::vector<TensorType> types;
  ProgramSpec spec;
  spec.rules = rules;
  spec.name = "golden_step";
  std::vector<DeviceArray> arrays;
  const auto argument = [&](const HostArray& value, const PartitionSpec& split) {
    arrays.push_back(DeviceArray::from_host(runtime, value, split).value_or_throw());
    spec.arguments.push_back({"a" + std::to_string(arrays.size()), arrays.back().layout()});
    types.push_back(arrays.back().type());
  };
  for (size_t i = 0; i < n; ++i) {
    argument(reference(file, "param.", model->params()[i], layouts[i].type), layouts[i].spec);
  }
  for (const StateInfo& s : state) {
    argument(HostArray(DType::kF32, s.type.dims), layouts[s.param].spec);
  }
  argument(HostArray::scalar<int32_t>(0), {});
  const HostArray tokens = file.read("input_ids").value_or_throw();
  const PartitionSpec batch = rules.resolve({"batch", "seq"}, mesh);
  argument(tokens, batch);
  argument(file.read("target_ids").value_or_throw(), batch);

  spec.function = trace(types, [&](const Tensors& in) {
    const auto at = [&](size_t i) { return in.begin() + static_cast<int64_t>(i); };
    const Tensors params(at(0), at(n)), old(at(n), at(n + state.size()));
    const Tensor step = in[n + state.size()], x = in[n + state.size() + 1], y = in.back();
    const Ctx cx(model->params(), params);
    const Tensor logits = shard(model->logits(model->hidden(x, cx), cx), {"batch", "seq", ""});
    LossOptions options;
    options.chunks = 2;
    const LossSum loss = model->loss(x, y, cx, options);
    const ValueAndGrad vg = value_and_grad(loss.sum / loss.count, params, {logits});
    OptimizerUpdate next = optimizer.update(infos, params, vg.grads, old, step);
    Tensors out = next.params;
    out.insert(out.end(), next.state.begin(), next.state.end());
    out.push_back(step + ones_like(step));
    out.push_back(vg.value);
    out.push_back(vg.aux[0]);
    out.insert(out.end(), vg.grads.begin(), vg.grads.end());
    return out;
  });
  for (size_t i = 0; i + 2 < spec.arguments.size(); ++i) {
    spec.results.push_back(spec.arguments[i].layout->spec);
    spec.donated.push_back(static_cast<int64_t>(i));
  }
  spec.results.push_back({});
  spec.results.push_back({});
  for (size_t i = 0; i < n; ++i) spec.results.push_back(layouts[i].spec);
  const size_t kept = n + state.size() + 1;

  Program program = compile(runtime, std::move(spec)).value_or_throw();
  const HostArray losses = file.read("adam_losses").value_or_throw();
  for (int step = 0; step < 10; ++step) {
    std::vector<DeviceArray*> pointers;
    for (DeviceArray& a : arrays) pointers.push_back(&a);
    std::vector<DeviceArray> out = program.run(pointers).value_or_throw();
    const HostArray loss = out[kept].to_host().value_or_throw();
    EXPECT_NEAR(loss.as<float>()[0], losses.as<float>()[step], 1e-5) << "step " << step;
    if (step == 0) {
      const HostArray first = file.read("loss").value_or_throw();
      EXPECT_NEAR(loss.as<float>()[0], first.as<float>()[0], 1e-5);
      const HostArray logits = out[kept + 1].to_host().value_or_throw();
      const HostArray want = file.read("logits").value_or_throw();
      ASSERT_EQ(logits.dims(), want.dims());
      for (int64_t i = 0; i < want.size(); ++i) {
        ASSERT_NEAR(logits.as<float>()[i], want.as<float>()[i], 1e-5) << "logit " << i;
      }
      for (size_t i = 0; i < n; ++i) {
        const HostArray got = out[kept + 2 + i].to_host().value_or_throw();
        const HostArray want = reference(file, "grad.", model->params()[i], layouts[i].type);
        if (model->params()[i].name.ends_with("key.bias")) {
          // A key's bias adds the same to every score of a row, which softmax does not see: its
          // gradient is zero, and both sides hold rounding errors only (the other gradients of
          // this model are 1e-3 and more).
          expect_below(got, 1e-7, model->params()[i].name);
          expect_below(want, 1e-7, "the reference's " + model->params()[i].name);
        } else {
          expect_near(got, want, 1e-5, model->params()[i].name);
        }
      }
    }
    for (size_t i = 0; i < kept; ++i) arrays[i] = std::move(out[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Meshes, MiniGptGolden,
    testing::Values(Case{"one_unrolled", {}, "unroll"}, Case{"one_scanned", {}, "scan"},
                    Case{"batch4_model2_scanned", {{"batch", 4}, {"model", 2}}, "scan"},
                    Case{"batch4_model2_unrolled", {{"batch", 4}, {"model", 2}}, "unroll"},
                    Case{"batch2_model4_scanned", {{"batch", 2}, {"model", 4}}, "scan"}),
    [](const auto& info) { return info.param.label; });

}  // namespace
}  // namespace espalier
