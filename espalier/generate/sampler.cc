#include "espalier/generate/sampler.h"

#include <algorithm>

#include "espalier/ops/control.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/gather.h"
#include "espalier/ops/reduce.h"
#include "espalier/ops/shape.h"
#include "espalier/ops/source.h"
#include "espalier/random/random.h"

namespace espalier {
namespace {

// One draw from logits (V): an s32 scalar.
Tensor draw(const Tensor& logits, int64_t top_k, const Tensor& temperature, const Tensor& key) {
  const TopKResult best = top_k > 0 ? espalier::top_k(logits, top_k) : TopKResult{logits, Tensor()};
  // At temperature 0 the likeliest token; dividing by 1 there keeps the other branch finite.
  const Tensor greedy = compare(temperature, 0.0, Direction::kEq);
  const Tensor divisor = select(greedy, ones_like(temperature), temperature);
  const Tensor drawn = random::categorical(key, best.values / divisor);
  const Tensor chosen = select(greedy, argmax(best.values, 0), drawn);
  return best.indices.empty() ? chosen : take(best.indices, chosen);
}

}  // namespace

Result<Sampler> Sampler::create(const std::shared_ptr<Runtime>& runtime, const LanguageModel& model,
                                const std::vector<LayoutPtr>& params, const ShardingRules& rules,
                                const SamplerOptions& options) {
  const int64_t length = model.max_len();
  if (options.top_k > model.vocab_size()) {
    throw Error("sample.top_k = " + std::to_string(options.top_k) +
                " is larger than the vocabulary of " + std::to_string(model.vocab_size()));
  }
  ProgramSpec spec;
  spec.name = "sample";
  spec.rules = rules;
  spec.rules.axes.erase("batch");  // one text: there is nothing to split
  std::vector<TensorType> types;
  const auto argument = [&](const std::string& name, const LayoutPtr& layout) {
    spec.arguments.push_back({name, layout});
    types.push_back(layout->type);
  };
  const auto replicated = [](TensorType type) { return make_layout(std::move(type)); };
  for (size_t i = 0; i < params.size(); ++i) argument(model.params()[i].name, params[i]);
  argument("tokens", replicated({DType::kS32, {1, length}}));
  argument("lengths", replicated({DType::kS32, {2}}));  // of the prompt and of the whole text
  argument("temperature", replicated({DType::kF32, {}}));
  argument("key", replicated({DType::kU32, {2}}));

  spec.function = trace(types, [&](const Tensors& in) {
    const size_t n = params.size();
    const Ctx cx(model.params(), {in.begin(), in.begin() + static_cast<int64_t>(n)});
    const Tensor tokens = in[n], temperature = in[n + 2], key = in[n + 3];
    const auto length_at = [&](int64_t i) {
      return reshape(slice_dim(in[n + 1], 0, i, i + 1), {});
    };
    const Tensor limit = length_at(1), zero = full_int({DType::kS32, {}}, 0);
    // State: tokens, how many there are, whether the text has ended.
    const auto going = [&](const Tensors& now) {
      return bit_and(compare(now[1], limit, Direction::kLt), logical_not(now[2]));
    };
    const auto step = [&](const Tensors& now) -> Tensors {
      const Tensor hidden = model.hidden(now[0], cx);
      const Tensor last = dynamic_slice(hidden, {zero, now[1] - full_int(zero.type(), 1), zero},
                                        {1, 1, hidden.dim(2)});
      const Tensor logits = reshape(model.logits(last, cx), {model.vocab_size()});
      const Tensor id = draw(convert(logits, DType::kF32), options.top_k, temperature,
                             random::fold_in(key, now[1]));
      Tensor ended = now[2];
      if (options.stop_at) {
        ended = compare(id, full_int(id.type(), *options.stop_at), Direction::kEq);
      }
      // The token that ends the text is not counted.
      const Tensor count = select(ended, now[1], now[1] + full_int(now[1].type(), 1));
      return {dynamic_update_slice(now[0], reshape(id, {1, 1}), {zero, now[1]}), count, ended};
    };
    const Tensors done =
        while_loop(going, step, {tokens, length_at(0), full_int({DType::kBool, {}}, 0)});
    return Tensors{done[0], done[1]};
  });
  spec.results = {{}, {}};
  ESPALIER_ASSIGN(Program program, compile(runtime, std::move(spec)));
  return Sampler(runtime, std::move(program), length, model.vocab_size());
}

Status Sampler::check(const Request& request) const {
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  if (prompt == 0 || prompt >= max_len_) {
    return Failure{Code::kInvalidArgument,
                   prompt == 0 ? "the prompt has no tokens; give a text to continue"
                               : "the prompt has " + std::to_string(prompt) +
                                     " tokens, but the model takes at most " +
                                     std::to_string(max_len_ - 1) + "; shorten the prompt"};
  }
  for (const int32_t id : request.prompt) {
    if (id < 0 || id >= vocab_) {
      return Failure{Code::kInvalidArgument, "the prompt has token id " + std::to_string(id) +
                                                 ", outside the model's vocabulary of " +
                                                 std::to_string(vocab_)};
    }
  }
  return {};
}

Result<std::vector<int32_t>> Sampler::generate(std::span<DeviceArray* const> params,
                                               const Request& request) {
  ESPALIER_TRY(check(request));
  const auto prompt = static_cast<int32_t>(request.prompt.size());
  HostArray tokens(DType::kS32, {1, max_len_});
  std::copy(request.prompt.begin(), request.prompt.end(), tokens.as<int32_t>().begin());
  const int64_t limit = request.max_tokens > 0 ? std::min(request.max_tokens, max_len_) : max_len_;
  const HostArray lengths = HostArray::from<int32_t>({2}, {prompt, static_cast<int32_t>(limit)});
  const HostArray key = HostArray::from<uint32_t>(
      {2}, {static_cast<uint32_t>(request.seed >> 32), static_cast<uint32_t>(request.seed)});
  std::vector<DeviceArray> own;
  for (const HostArray& array :
       {tokens, lengths, HostArray::scalar(static_cast<float>(request.temperature)), key}) {
    ESPALIER_ASSIGN(DeviceArray put, DeviceArray::from_host(runtime_, array, {}));
    own.push_back(std::move(put));
  }
  std::vector<DeviceArray*> arguments(params.begin(), params.end());
  for (DeviceArray& array : own) arguments.push_back(&array);
  ESPALIER_ASSIGN(const std::vector<DeviceArray> out, program_.run(arguments));
  ESPALIER_ASSIGN(const HostArray text, out[0].to_host());
  ESPALIER_ASSIGN(const HostArray count, out[1].to_host());
  const auto ids = text.as<int32_t>().first(static_cast<size_t>(count.as<int32_t>()[0]));
  return std::vector<int32_t>(ids.begin(), ids.end());
}

}  // namespace espalier
