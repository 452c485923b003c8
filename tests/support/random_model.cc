#include "tests/support/random_model.h"

#include <algorithm>

#include "espalier/models/gpt2.h"
#include "espalier/models/llama.h"
#include "espalier/models/minigpt.h"
#include "espalier/nn/layout.h"
#include "espalier/ops/elementwise.h"
#include "espalier/random/random.h"

namespace espalier::test {
namespace {

std::unique_ptr<LanguageModel> make(const RandomModelOptions& o) {
  if (o.model == "minigpt") {
    MiniGptConfig config;
    config.vocab_size = o.vocab_size;
    config.maxlen = o.max_len;
    config.embed_dim = 16;
    config.num_heads = 4;
    config.feed_forward_dim = 24;
    config.num_transformer_blocks = 2;
    config.attention = o.attention;
    config.layers = o.layers;
    return make_model(config);
  }
  if (o.model == "llama3") {
    Llama3Config config;
    config.vocab_size = o.vocab_size;
    config.max_seq_len = o.max_len;
    config.dim = 16;
    config.n_layers = 2;
    config.n_heads = 4;
    config.n_kv_heads = 2;
    config.hidden_dim = 24;
    config.rope_theta = 100;
    config.attention = o.attention;
    config.layers = o.layers;
    return make_model(config);
  }
  Gpt2Config config;
  config.vocab_size = o.vocab_size;
  config.n_positions = o.max_len;
  config.n_embd = 16;
  config.n_layer = 2;
  config.n_head = 4;
  config.positions = o.model == "gpt2" ? "learned" : "rope";
  config.attention = o.attention;
  config.layers = o.layers;
  return make_model(config);
}

// How much larger matrices are than a fresh model's.
double gain(const std::string& model) { return model == "minigpt" ? 2 : 20; }

}  // namespace

RandomModel::RandomModel(const RandomModelOptions& o) : options(o), model(make(o)) {
  RuntimeOptions runtime_options;
  runtime_options.mesh = Mesh(o.axes);
  runtime = Runtime::create(runtime_options).value_or_throw();
  for (const auto& [logical, axis] : {std::pair("batch", "batch"), std::pair("heads", "model"),
                                      std::pair("mlp", "model"), std::pair("vocab", "model")}) {
    if (runtime->mesh().has(axis)) rules.axes[logical] = {axis};
  }
  ProgramSpec spec;
  spec.rules = rules;
  const std::vector<ParamLayout> layout = layout_params(model->params(), rules, runtime->mesh());
  for (const ParamLayout& param : layout) {
    layouts.push_back(make_layout(param.type, param.spec));
    spec.results.push_back(param.spec);
  }
  spec.trace([&](const Tensors&) {
    Tensors values = initialize(model->params(), layout, random::key(3));
    for (size_t i = 0; i < values.size(); ++i) {
      if (model->params()[i].kind != ParamKind::kVector) values[i] = values[i] * gain(o.model);
    }
    return values;
  });
  params = compile(runtime, std::move(spec)).value_or_throw().run({}).value_or_throw();
}

std::vector<DeviceArray*> RandomModel::pointers() {
  std::vector<DeviceArray*> out;
  for (DeviceArray& array : params) out.push_back(&array);
  return out;
}

std::vector<float> RandomModel::next_logits(const std::vector<int32_t>& tokens) {
  HostArray padded(DType::kS32, {1, options.max_len});
  std::copy(tokens.begin(), tokens.end(), padded.as<int32_t>().begin());
  DeviceArray input = DeviceArray::from_host(runtime, padded, {}).value_or_throw();
  if (logits_ == nullptr) {
    ProgramSpec spec;
    spec.rules = rules;
    spec.rules.axes.erase("batch");
    for (size_t i = 0; i < layouts.size(); ++i) {
      spec.arguments.push_back({model->params()[i].name, layouts[i]});
    }
    spec.arguments.push_back({"tokens", input.layout()});
    spec.results = {{}};
    spec.trace([&](const Tensors& in) {
      const Ctx stored(model->params(), {in.begin(), in.end() - 1});
      const Ctx cx = stored.computing(options.dtype);
      return Tensors{convert(model->logits(model->hidden(in.back(), cx), cx), DType::kF32)};
    });
    logits_ = std::make_unique<Program>(compile(runtime, std::move(spec)).value_or_throw());
  }
  std::vector<DeviceArray*> arguments = pointers();
  arguments.push_back(&input);
  const auto out = logits_->run(arguments).value_or_throw();
  const HostArray all = out[0].to_host().value_or_throw();
  const auto vocab = static_cast<size_t>(options.vocab_size);
  const auto row = all.as<float>().subspan((tokens.size() - 1) * vocab, vocab);
  return {row.begin(), row.end()};
}

}  // namespace espalier::test
