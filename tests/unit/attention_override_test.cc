// An attention given from outside, by name: every model calls it in its training step, and it sees
// the mesh.
#include <gtest/gtest.h>

#include "espalier/nn/attention.h"
#include "espalier/train/config.h"
#include "espalier/train/setup.h"
#include "espalier/train/step.h"

namespace espalier::test {
namespace {

struct Seen {
  int calls = 0;
  Placement placement;
  Dims q, k;
};

class AttentionOverride : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(AttentionOverride, IsCalledByModelsAndSeesTheMesh) {
  Seen seen;
  register_attention("outside",
                     [&](const Tensor& q, const Tensor& k, const Tensor& v, const Ctx& cx) {
                       ++seen.calls;
                       seen.placement = cx.placement();
                       seen.q = q.dims();
                       seen.k = k.dims();
                       return causal_attention(q, k, v);
                     });
  std::vector<std::string> keys = GetParam();
  keys.insert(keys.end(), {"model.attention=outside", "data.source=synthetic", "data.batch_size=8",
                           "data.seq_len=16", "mesh.axes={data=4, tensor=2}", "sample.every=0",
                           "optimizer.warmup_steps=0"});
  const std::string recipe = std::string(ESPALIER_SOURCE_DIR) + "/recipes/default.toml";
  const RunConfig config = load_run_config(recipe, keys).value_or_throw();
  const RunSetup setup = set_up_step(config).value_or_throw();
  const ModelOnMesh on = setup.on_mesh();
  train_step_spec(on, on.place("tpu", setup.mesh), *setup.optimizer, *setup.layout,
                  step_options(setup.config));
  EXPECT_GE(seen.calls, 1);
  EXPECT_EQ(seen.placement.platform, "tpu");
  EXPECT_EQ(seen.placement.mesh, setup.mesh);
  const PartitionSpec split = {{"data"}, {}, {"tensor"}, {}};
  EXPECT_EQ(seen.placement.rules.resolve({"batch", "seq", "heads", "head_dim"}, setup.mesh), split);
  EXPECT_EQ(seen.q, (Dims{8, 16, 4, 8}));
  EXPECT_EQ(seen.k[0], 8);
}

INSTANTIATE_TEST_SUITE_P(
    Models, AttentionOverride,
    testing::Values(
        std::vector<std::string>{
            R"(model={name="minigpt", vocab_size=64, maxlen=16, embed_dim=32, )"
            R"(num_heads=4, feed_forward_dim=64, num_transformer_blocks=2})"},
        std::vector<std::string>{R"(model={name="gpt2", vocab_size=64, n_positions=16, n_embd=32, )"
                                 R"(n_head=4, n_layer=2})"},
        std::vector<std::string>{R"(model={name="llama3", vocab_size=64, max_seq_len=16, dim=32, )"
                                 R"(n_heads=4, n_kv_heads=2, n_layers=2})"}));

}  // namespace
}  // namespace espalier::test
