// Rematerialization through the CPU plugin: gradients of whole models under each policy, scanned
// and unrolled, with dropout and on a mesh; and the bytes that the compiled program takes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>

#include "espalier/models/gpt2.h"
#include "espalier/nn/layout.h"
#include "espalier/ops/elementwise.h"
#include "espalier/random/random.h"
#include "espalier/runtime/program.h"
#include "espalier/train/step.h"
#include "espalier/transform/grad.h"
#include "tests/support/error_of.h"
#include "tests/support/op_cases.h"

namespace espalier::test {
namespace {

using Saves = RematPolicy::Saves;
using MaybePolicy = std::optional<RematPolicy>;

const std::vector<std::pair<std::string, MaybePolicy>>& policies() {
  static const std::vector<std::pair<std::string, MaybePolicy>> all = {
      {"everything", RematPolicy{Saves::kNothing}},
      {"dots_with_no_batch_dims", RematPolicy{Saves::kDotsWithNoBatchDims}},
      {"dots", RematPolicy{Saves::kDots}},
      {"names", RematPolicy{Saves::kNames, {"qkv", "attn_out", "mlp_hidden"}}}};
  return all;
}

struct Case {
  int64_t batch, length, width, heads, depth;
  std::string layers = "scan", attention = "dense";
  double dropout = 0;
  std::vector<MeshAxis> axes{};
};

// Loss and gradients of a GPT-2.
class Gradient {
 public:
  Gradient(const Case& c, const MaybePolicy& policy) {
    Gpt2Config config;
    config.vocab_size = 64;
    config.n_positions = c.length;
    config.n_embd = c.width;
    config.n_head = c.heads;
    config.n_layer = c.depth;
    config.dropout = c.dropout;
    config.attention = c.attention;
    config.layers = c.layers;
    model_ = make_model(config);
    ShardingRules rules;
    RuntimeOptions options;
    options.mesh = Mesh(c.axes);
    if (!c.axes.empty()) {
      rules.axes = {{"batch", {"data"}}, {"heads", {"model"}}, {"mlp", {"model"}}};
    }
    runtime_ = Runtime::create(options).value_or_throw();
    program_ = std::make_unique<Program>(
        compile(runtime_, spec(c, {*model_, rules, DType::kF32, policy})).value_or_throw());
  }

  // By the parameters' names, "loss" beside them.
  std::map<std::string, HostArray> run() {
    std::vector<DeviceArray> arrays;
    for (const ParamSpec& spec : model_->params()) {
      arrays.push_back(
          put(random_arrays({{DType::kF32, spec.array_dims()}}, -0.3, 0.3, spec.name)[0]));
    }
    const auto ids = random_arrays({tokens_, tokens_}, 0, 63, "tokens");
    arrays.push_back(put(ids[0]));
    arrays.push_back(put(ids[1]));
    std::vector<DeviceArray*> pointers;
    for (DeviceArray& array : arrays) pointers.push_back(&array);
    const auto results = program_->run(pointers).value_or_throw();
    std::map<std::string, HostArray> out;
    for (size_t i = 0; i < results.size(); ++i) {
      const HostArray value = results[i].to_host().value_or_throw();
      out[i == 0 ? "loss" : model_->params()[i - 1].name] = value;
    }
    return out;
  }

  int64_t temporary_bytes() const {
    return program_->executable().memory_stats().value_or_throw().temp;
  }

 private:
  ProgramSpec spec(const Case& c, const ModelOnMesh& on) {
    ProgramSpec out;
    out.rules = on.rules;
    const auto layouts = layout_params(model_->params(), on.rules, runtime_->mesh());
    for (const ParamLayout& layout : layouts) {
      layouts_.push_back(make_layout(layout.type, layout.spec));
    }
    tokens_ = {DType::kS32, {c.batch, c.length}};
    const auto rows = on.rules.resolve({"batch", "seq"}, runtime_->mesh());
    layouts_.insert(layouts_.end(), 2, make_layout(tokens_, rows));
    for (const LayoutPtr& layout : layouts_) out.arguments.push_back({"argument", layout});
    out.trace([&](const Tensors& in) {
      const Tensors params(in.begin(), in.end() - 2);
      const Ctx cx = on.context(on.place(*runtime_), params).training(random::key(3));
      const LossSum loss = model_->loss(in[in.size() - 2], in.back(), cx, {});
      ValueAndGrad vg = value_and_grad(loss.sum / loss.count, params);
      vg.grads.insert(vg.grads.begin(), vg.value);
      return vg.grads;
    });
    out.results = {{}};
    for (const ParamLayout& layout : layouts) out.results.push_back(layout.spec);
    return out;
  }

  DeviceArray put(const HostArray& host) {
    return DeviceArray::from_host(runtime_, host, layouts_.at(placed_++)->spec).value_or_throw();
  }
  std::unique_ptr<LanguageModel> model_;
  std::shared_ptr<Runtime> runtime_;
  std::unique_ptr<Program> program_;
  std::vector<LayoutPtr> layouts_;
  TensorType tokens_;
  size_t placed_ = 0;
};

// The largest difference as a part of the largest element.
double apart(const HostArray& got, const HostArray& want) {
  double difference = 0, largest = 0;
  for (size_t i = 0; i < want.as<float>().size(); ++i) {
    const double x = got.as<float>()[i], y = want.as<float>()[i];
    if (!std::isfinite(x)) return INFINITY;
    difference = std::max(difference, std::abs(x - y));
    largest = std::max(largest, std::abs(y));
  }
  return largest == 0 ? difference : difference / largest;
}

// Gradients and temporary bytes of the case without rematerialization and under these policies.
std::map<std::string, int64_t> compare(const Case& c, const std::vector<std::string>& names) {
  Gradient plain(c, {});
  const auto want = plain.run();
  std::map<std::string, int64_t> bytes = {{"none", plain.temporary_bytes()}};
  for (const auto& [name, policy] : policies()) {
    if (std::find(names.begin(), names.end(), name) == names.end()) continue;
    Gradient program(c, policy);
    bytes[name] = program.temporary_bytes();
    const auto got = program.run();
    for (const auto& [parameter, value] : want) {
      EXPECT_LE(apart(got.at(parameter), value), 1e-6) << name << ", " << parameter;
    }
  }
  for (const auto& [name, count] : bytes) {
    std::cout << c.layers << ", train.remat = \"" << name << "\": " << count
              << " bytes of temporaries\n";
  }
  return bytes;
}

// Attention is small beside the width, so that its scores, which "dots" keeps and no policy at all
// does not, weigh little.
TEST(RematPlugin, ScannedLayersKeepTheirGradientsAndTakeLessMemory) {
  auto bytes = compare({8, 32, 64, 2, 8, "scan", "dense", 0.1},
                       {"everything", "dots_with_no_batch_dims", "dots", "names"});
  EXPECT_LT(bytes["everything"], bytes["dots_with_no_batch_dims"]);
  EXPECT_LE(bytes["dots_with_no_batch_dims"], bytes["dots"]);
  EXPECT_LT(bytes["dots"], bytes["none"]);
  EXPECT_LT(bytes["everything"], bytes["names"]);
  EXPECT_LT(bytes["names"], bytes["none"]);
  EXPECT_LT(bytes["everything"] * 2, bytes["none"]);
}

TEST(RematPlugin, UnrolledLayersKeepTheirGradientsAndTakeLessMemory) {
  auto bytes = compare({8, 32, 64, 2, 4, "unroll"}, {"everything", "dots_with_no_batch_dims"});
  EXPECT_LT(bytes["everything"], bytes["dots_with_no_batch_dims"]);
  EXPECT_LT(bytes["dots_with_no_batch_dims"], bytes["none"]);
  EXPECT_LT(bytes["everything"] * 2, bytes["none"]);
}

// Products inside of loops, and a rule of its own.
TEST(RematPlugin, FlashAttentionKeepsItsGradients) {
  compare({2, 16, 16, 2, 2, "scan", "flash:8"}, {"everything", "names"});
}

TEST(RematPlugin, GradientsOnAMeshAreThoseWithoutIt) {
  compare({4, 16, 16, 2, 2, "scan", "dense", 0.25, {{"data", 2}, {"model", 2}}}, {"names"});
}

TEST(RematPlugin, OffloadIsRefusedWithoutAMemoryToOffloadTo) {
  RematPolicy policy = *policies()[1].second;
  policy.offload = true;
  const std::string message = error_of([&] { Gradient({2, 8, 8, 2, 1}, policy); });
  EXPECT_NE(message.find("train.offload = true: a device of platform \"cpu\""), std::string::npos)
      << message;
}

}  // namespace
}  // namespace espalier::test
