#include "espalier/train/step.h"

#include "espalier/nn/layers.h"
#include "espalier/ops/control.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/shape.h"
#include "espalier/ops/source.h"
#include "espalier/random/random.h"
#include "espalier/transform/grad.h"

namespace espalier {
namespace {

LayoutPtr token_layout(const ShardingRules& rules, const Mesh& mesh, Dims dims) {
  LogicalAxes axes = {"batch", "seq"};
  if (dims.size() == 3) axes.insert(axes.begin(), "accumulate");
  PartitionSpec spec = rules.resolve(axes, mesh);
  shard_dims(mesh, spec, dims, "a batch (data.batch_size rows of data.seq_len)");
  return make_layout({DType::kS32, std::move(dims)}, std::move(spec));
}

Result<std::vector<DeviceArray>> put_batch(const std::shared_ptr<Runtime>& runtime,
                                           const Batch& batch, const LayoutPtr& layout) {
  std::vector<DeviceArray> out;
  for (const HostArray* array : {&batch.tokens, &batch.targets}) {
    ESPALIER_ASSIGN(DeviceArray put,
                    DeviceArray::from_host(runtime, array->reshaped(layout->type.dims),
                                           layout->spec, batch.lease));
    out.push_back(std::move(put));
  }
  return out;
}

// Loss and gradients of one batch.
ValueAndGrad batch_gradient(const LanguageModel& model, const Tensors& params, const Tensor& tokens,
                            const Tensor& targets, const Tensor& key, int64_t chunks) {
  const Ctx cx = Ctx(model.params(), params).training(key);
  return value_and_grad(model.loss(tokens, targets, cx, chunks), params);
}

// The mean over several batches (accumulate, B, T), one after another.
ValueAndGrad accumulated_gradient(const LanguageModel& model, const Tensors& params,
                                  const Tensor& tokens, const Tensor& targets, const Tensor& key,
                                  int64_t chunks) {
  const int64_t count = tokens.dim(0);
  Tensors sums = {scalar(DType::kF32, 0)};
  for (const Tensor& p : params) sums.push_back(zeros_like(p));
  const auto body = [&](const Tensors& carry, const Tensors& now) -> ScanResult {
    const Tensor own_key = random::fold_in(key, now[2]);
    const ValueAndGrad vg = batch_gradient(model, params, now[0], now[1], own_key, chunks);
    Tensors next = {carry[0] + vg.value};
    for (size_t i = 0; i < vg.grads.size(); ++i) next.push_back(carry[i + 1] + vg.grads[i]);
    return {next, {}};
  };
  const Tensors done = scan(body, sums, {tokens, targets, iota({DType::kS32, {count}}, 0)}).carry;
  ValueAndGrad out{done[0] / static_cast<double>(count), {}, {}};
  for (size_t i = 1; i < done.size(); ++i) {
    out.grads.push_back(done[i] / static_cast<double>(count));
  }
  return out;
}

}  // namespace

Result<TrainStep> TrainStep::create(const std::shared_ptr<Runtime>& runtime,
                                    const LanguageModel& model, const Optimizer& optimizer,
                                    const StateLayout& layout, const ShardingRules& rules,
                                    const StepOptions& options) {
  Dims dims = {options.batch_size, options.seq_len};
  if (options.accumulate > 1) dims.insert(dims.begin(), options.accumulate);
  const LayoutPtr tokens = token_layout(rules, runtime->mesh(), dims);
  const HostArray key_words = HostArray::from<uint32_t>(
      {2}, {static_cast<uint32_t>(options.seed >> 32), static_cast<uint32_t>(options.seed)});
  ESPALIER_ASSIGN(DeviceArray key, DeviceArray::from_host(runtime, key_words, {}));

  ProgramSpec spec;
  spec.name = "train_step";
  spec.rules = rules;
  spec.arguments = layout.arrays();
  spec.arguments.push_back({"key", key.layout()});
  spec.arguments.push_back({"tokens", tokens});
  spec.arguments.push_back({"targets", tokens});
  std::vector<TensorType> types;
  for (const Argument& argument : spec.arguments) types.push_back(argument.layout->type);
  const int64_t chunks =
      loss_chunks(options.batch_size, options.seq_len, model.vocab_size(), runtime->mesh().size());
  const size_t params_end = layout.num_params(), step_at = layout.size() - 1;
  spec.function = trace(types, [&](const Tensors& in) {
    const auto at = [&](size_t i) { return in.begin() + static_cast<int64_t>(i); };
    const Tensors params(at(0), at(params_end)), old(at(params_end), at(step_at));
    const Tensor &step = in[step_at], &x = in[step_at + 2], &y = in[step_at + 3];
    const Tensor now = random::fold_in(in[step_at + 1], step);
    const ValueAndGrad vg = options.accumulate > 1
                                ? accumulated_gradient(model, params, x, y, now, chunks)
                                : batch_gradient(model, params, x, y, now, chunks);
    const OptimizerUpdate next = optimizer.update(layout.infos(), params, vg.grads, old, step);
    Tensors out = next.params;
    out.insert(out.end(), next.state.begin(), next.state.end());
    out.push_back(step + ones_like(step));
    out.push_back(stack({vg.value, next.grad_norm, next.learning_rate}));
    return out;
  });
  for (size_t i = 0; i < layout.size(); ++i) {
    spec.results.push_back(layout.arrays()[i].layout->spec);
    spec.donated.push_back(static_cast<int64_t>(i));
  }
  spec.results.push_back({});
  ESPALIER_ASSIGN(Program program, compile(runtime, std::move(spec)));
  return TrainStep(runtime, std::move(program), std::move(key), tokens);
}

Result<DeviceArray> TrainStep::run(TrainState& state, const Batch& batch) {
  ESPALIER_ASSIGN(std::vector<DeviceArray> input, put_batch(runtime_, batch, tokens_));
  std::vector<DeviceArray*> arguments;
  arguments.reserve(state.size() + 3);
  for (DeviceArray& array : state) arguments.push_back(&array);
  arguments.push_back(&key_);
  for (DeviceArray& array : input) arguments.push_back(&array);
  ESPALIER_ASSIGN(std::vector<DeviceArray> out, program_.run(arguments));
  DeviceArray report = std::move(out.back());
  out.pop_back();
  state = std::move(out);
  return report;
}

Result<StepReport> read_report(const DeviceArray& report) {
  ESPALIER_ASSIGN(const HostArray host, report.to_host());
  const auto values = host.as<float>();
  return StepReport{values[0], values[1], values[2]};
}

Result<EvalStep> EvalStep::create(const std::shared_ptr<Runtime>& runtime,
                                  const LanguageModel& model, const StateLayout& layout,
                                  const ShardingRules& rules, int64_t batch_size, int64_t seq_len) {
  const LayoutPtr tokens = token_layout(rules, runtime->mesh(), {batch_size, seq_len});
  ProgramSpec spec;
  spec.name = "eval_step";
  spec.rules = rules;
  const auto first = layout.arrays().begin();
  spec.arguments.assign(first, first + static_cast<int64_t>(layout.num_params()));
  spec.arguments.push_back({"tokens", tokens});
  spec.arguments.push_back({"targets", tokens});
  std::vector<TensorType> types;
  for (const Argument& argument : spec.arguments) types.push_back(argument.layout->type);
  const int64_t chunks =
      loss_chunks(batch_size, seq_len, model.vocab_size(), runtime->mesh().size());
  spec.function = trace(types, [&](const Tensors& in) {
    const Ctx cx(model.params(), {in.begin(), in.end() - 2});
    return Tensors{model.loss(in[in.size() - 2], in.back(), cx, chunks)};
  });
  spec.results = {{}};
  ESPALIER_ASSIGN(Program program, compile(runtime, std::move(spec)));
  return EvalStep(runtime, std::move(program), layout.num_params(), tokens);
}

Result<double> EvalStep::run(TrainState& state, const Batch& batch) {
  ESPALIER_ASSIGN(std::vector<DeviceArray> input, put_batch(runtime_, batch, tokens_));
  std::vector<DeviceArray*> arguments;
  for (size_t i = 0; i < params_; ++i) arguments.push_back(&state[i]);
  for (DeviceArray& array : input) arguments.push_back(&array);
  ESPALIER_ASSIGN(const std::vector<DeviceArray> out, program_.run(arguments));
  ESPALIER_ASSIGN(const HostArray loss, out[0].to_host());
  return static_cast<double>(loss.as<float>()[0]);
}

}  // namespace espalier
