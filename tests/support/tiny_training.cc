#include "tests/support/tiny_training.h"

#include <nlohmann/json.hpp>

#include "tests/unit/data_testing.h"

namespace espalier::test {
namespace {

uint64_t mixed(uint64_t x) {  // SplitMix64's finalizer
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

TinyTraining::TinyTraining(const TinyOptions& o) : options(o), mesh(o.axes) {
  MiniGptConfig config;
  config.vocab_size = o.vocab_size;
  config.maxlen = kTinySeqLen;
  config.embed_dim = 16;
  config.num_heads = 4;
  config.feed_forward_dim = 24;
  config.num_transformer_blocks = 2;
  config.dropout = o.dropout;
  config.layers = o.layers;
  model = make_model(config);
  for (const auto& [logical, axis] : {std::pair("batch", "batch"), std::pair("heads", "model"),
                                      std::pair("mlp", "model"), std::pair("vocab", "model")}) {
    if (mesh.has(axis)) rules.axes[logical] = {axis};
  }
  OptimizerConfig adam;
  adam.name = "adamw";
  adam.learning_rate = 5e-3;
  adam.weight_decay = 0.1;
  adam.clip_norm = 1;
  optimizer = std::make_unique<Optimizer>(make_optimizer(adam).value_or_throw());
  layout = std::make_unique<StateLayout>(model->params(), *optimizer, rules, mesh);
  RuntimeOptions runtime_options;
  runtime_options.mesh = mesh;
  runtime_options.program_cache = o.program_cache;
  runtime = Runtime::create(runtime_options).value_or_throw();
  state = make_state(runtime, model->params(), *layout, 7).value_or_throw();
}

TrainStep& TinyTraining::step() {
  if (step_ != nullptr) return *step_;
  StepOptions step_options;
  step_options.batch_size = options.batch_size;
  step_options.seq_len = kTinySeqLen;
  step_options.accumulate = options.accumulate;
  step_options.seed = 7;
  step_ = std::make_unique<TrainStep>(
      TrainStep::create(runtime, {*model, rules}, *optimizer, *layout, step_options)
          .value_or_throw());
  return *step_;
}

Batch TinyTraining::batch(int64_t step_number) const {
  const int64_t rows = options.batch_size * options.accumulate;
  Batch out;
  out.tokens = HostArray(DType::kS32, {rows, kTinySeqLen});
  out.targets = HostArray(DType::kS32, {rows, kTinySeqLen});
  for (int64_t r = 0; r < rows; ++r) {
    uint64_t random = mixed(static_cast<uint64_t>(step_number * 1000 + r));
    auto token = static_cast<int32_t>(random % static_cast<uint64_t>(options.vocab_size));
    for (int64_t t = 0; t < kTinySeqLen; ++t) {
      random = mixed(random);
      const auto next = static_cast<int32_t>(
          (random % 4 == 0 ? random / 4 : static_cast<uint64_t>(token) * 5 + 3) %
          static_cast<uint64_t>(options.vocab_size));
      out.tokens.as<int32_t>()[static_cast<size_t>(r * kTinySeqLen + t)] = token;
      out.targets.as<int32_t>()[static_cast<size_t>(r * kTinySeqLen + t)] = next;
      token = next;
    }
  }
  return out;
}

std::vector<StepReport> TinyTraining::run(int64_t from, int64_t to) {
  std::vector<StepReport> out;
  for (int64_t i = from; i < to; ++i) {
    const PendingReport report = step().run(state, batch(i)).value_or_throw();
    out.push_back(step().read(report).value_or_throw());
  }
  return out;
}

std::map<std::string, HostArray> TinyTraining::stored_values() const {
  const TemporaryFolder folder;
  std::vector<CheckpointTensor> tensors;
  for (const StoredArray& stored : layout->stored()) {
    for (CheckpointTensor& tensor : stored_tensors(stored)) tensors.push_back(std::move(tensor));
  }
  CheckpointWriter writer =
      CheckpointWriter::begin(folder / "checkpoints", 1, tensors).value_or_throw();
  save_state(writer, *layout, state).value_or_throw();
  writer.commit(nlohmann::json::object()).value_or_throw();
  const CheckpointReader reader =
      CheckpointReader::open(folder / "checkpoints", "latest").value_or_throw();
  std::map<std::string, HostArray> out;
  for (const TensorInfo& tensor : reader.tensors()) {
    out[tensor.name] = reader.read(tensor.name).value_or_throw();
  }
  return out;
}

}  // namespace espalier::test
