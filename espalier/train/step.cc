#include "espalier/train/step.h"

#include <limits>

#include "espalier/ops/control.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/reduce.h"
#include "espalier/ops/shape.h"
#include "espalier/ops/source.h"
#include "espalier/random/random.h"
#include "espalier/train/step_clock.h"
#include "espalier/transform/cost.h"
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

// Sum of the loss over positions, how many count, and the sum's gradient.
struct Gradient {
  Tensor sum, count;
  Tensors grads;
};

Gradient batch_gradient(const PlacementPtr& placement, const ModelOnMesh& on, const Tensors& params,
                        const Tensor& tokens, const Tensor& targets, const Tensor& key,
                        const LossOptions& loss) {
  const Ctx cx = on.context(placement, params).training(key);
  const LossSum value = on.model.loss(tokens, targets, cx, loss);
  ValueAndGrad vg = value_and_grad(value.sum, params, {value.count});
  return {vg.value, vg.aux[0], std::move(vg.grads)};
}

// The sums over several batches (accumulate, B, T), one after another.
Gradient accumulated_gradient(const PlacementPtr& placement, const ModelOnMesh& on,
                              const Tensors& params, const Tensor& tokens, const Tensor& targets,
                              const Tensor& key, const LossOptions& loss) {
  Tensors sums = {scalar(DType::kF32, 0), scalar(DType::kF32, 0)};
  for (const Tensor& p : params) sums.push_back(zeros({DType::kF32, p.dims()}));
  const auto body = [&](const Tensors& carry, const Tensors& now) -> ScanResult {
    const Tensor own_key = random::fold_in(key, now[2]);
    const Gradient g = batch_gradient(placement, on, params, now[0], now[1], own_key, loss);
    Tensors next = {carry[0] + g.sum, carry[1] + g.count};
    for (size_t i = 0; i < g.grads.size(); ++i) {
      next.push_back(carry[i + 2] + convert(g.grads[i], DType::kF32));
    }
    return {next, {}};
  };
  const Tensor order = iota({DType::kS32, {tokens.dim(0)}}, 0);
  const Tensors done = scan(body, sums, {tokens, targets, order}).carry;
  return {done[0], done[1], {done.begin() + 2, done.end()}};
}

// Index of the first parameter, layers counted apart, whose gradient is not finite; their number
// where all are. An f32 scalar.
Tensor first_nonfinite(Tensors grad_squares) {
  // The end, found where all before are finite.
  grad_squares.push_back(full({DType::kF32, {1}}, std::numeric_limits<double>::infinity()));
  const Tensor finite = convert(is_finite(concatenate(grad_squares, 0)), DType::kF32);
  return convert(argmax(1.0 - finite, 0), DType::kF32);
}

// Whether all elements of all arrays are finite: a bool scalar.
Tensor all_finite(const Tensors& arrays) {
  Tensors least;
  for (const Tensor& array : arrays) {
    std::vector<int64_t> dims;
    for (int64_t d = 0; d < array.rank(); ++d) dims.push_back(d);
    least.push_back(reduce_min(convert(is_finite(array), DType::kF32), dims));
  }
  return compare(reduce_min(stack(least), {0}), 0.0, Direction::kGt);
}

std::vector<std::string> layer_names(const ParamSpecs& specs) {
  std::vector<std::string> out;
  for (const ParamSpec& spec : specs) {
    for (int64_t i = 0; i < std::max<int64_t>(spec.layers, 1); ++i) {
      out.push_back(spec.layer_name(i));
    }
  }
  return out;
}

}  // namespace

PlacementPtr ModelOnMesh::place(std::string platform, const Mesh& mesh) const {
  return std::make_shared<const Placement>(Placement{std::move(platform), mesh, rules});
}

PlacementPtr ModelOnMesh::place(const Runtime& runtime) const {
  return place(runtime.client().platform_name(), runtime.mesh());
}

Ctx ModelOnMesh::context(PlacementPtr placement, Tensors params) const {
  const bool on_host = placement != nullptr && placement->platform == "cpu";
  if (remat && remat->offload && on_host) {
    throw Error(
        "train.offload = true: a device of platform \"cpu\" has no memory apart from the host's; "
        "leave it out, or train on another platform");
  }
  const Ctx cx = Ctx(model.params(), std::move(params)).computing(dtype).on(std::move(placement));
  return remat ? cx.rematerializing(*remat) : cx;
}

ProgramSpec train_step_spec(const ModelOnMesh& on, const PlacementPtr& placement,
                            const Optimizer& optimizer, const StateLayout& layout,
                            const StepOptions& options) {
  const Mesh& mesh = placement->mesh;
  Dims dims = {options.batch_size, options.seq_len};
  if (options.accumulate > 1) dims.insert(dims.begin(), options.accumulate);
  const LayoutPtr tokens = token_layout(placement->rules, mesh, dims);

  ProgramSpec spec;
  spec.name = "train_step";
  spec.rules = placement->rules;
  spec.arguments = layout.arrays();
  spec.arguments.push_back({"key", make_layout({DType::kU32, {2}})});
  spec.arguments.push_back({"tokens", tokens});
  spec.arguments.push_back({"targets", tokens});
  LossOptions loss;
  loss.chunks =
      loss_chunks(options.batch_size, options.seq_len, on.model.vocab_size(), mesh.size());
  const PartitionSpec rows = placement->rules.resolve({"batch", "seq"}, mesh);
  loss.row_devices = mesh.size(rows[0]) * mesh.size(rows[1]);
  loss.z_loss = options.z_loss;
  loss.ignore_id = options.ignore_id;
  const size_t params_end = layout.num_params(), step_at = layout.size() - 1;
  spec.trace([&](const Tensors& in) {
    const auto at = [&](size_t i) { return in.begin() + static_cast<int64_t>(i); };
    const Tensors params(at(0), at(params_end)), old(at(params_end), at(step_at));
    const Tensor &step = in[step_at], &x = in[step_at + 2], &y = in[step_at + 3];
    const Tensor now = random::fold_in(in[step_at + 1], step);
    Gradient g = options.accumulate > 1
                     ? accumulated_gradient(placement, on, params, x, y, now, loss)
                     : batch_gradient(placement, on, params, x, y, now, loss);
    // A batch without a position that counts has a loss of 0 and changes nothing but momenta.
    const Tensor count = max(g.count, 1.0);
    const Tensor value = g.sum / count;
    for (Tensor& grad : g.grads) grad = convert(grad, DType::kF32) / count;
    const OptimizerUpdate next = optimizer.update(layout.infos(), params, g.grads, old, step);
    Tensors out = next.params;
    out.insert(out.end(), next.state.begin(), next.state.end());
    // Finite gradients keep the optimizer's averages finite; a parameter may still overflow.
    const Tensor finite =
        bit_and(bit_and(is_finite(value), is_finite(next.grad_norm)), all_finite(next.params));
    if (options.skip_nonfinite) {
      for (size_t i = 0; i < out.size(); ++i) out[i] = select(finite, out[i], in[i]);
    }
    out.push_back(step + ones_like(step));
    out.push_back(stack({value, next.grad_norm, next.learning_rate,
                         first_nonfinite(next.grad_squares), convert(finite, DType::kF32)}));
    return out;
  });
  for (size_t i = 0; i < layout.size(); ++i) {
    spec.results.push_back(layout.arrays()[i].layout->spec);
    spec.donated.push_back(static_cast<int64_t>(i));
  }
  spec.results.push_back({});
  return spec;
}

Result<TrainStep> TrainStep::create(const std::shared_ptr<Runtime>& runtime, const ModelOnMesh& on,
                                    const Optimizer& optimizer, const StateLayout& layout,
                                    const StepOptions& options, const SavedProgram* saved) {
  ProgramSpec spec = train_step_spec(on, on.place(*runtime), optimizer, layout, options);
  const LayoutPtr tokens = spec.arguments.back().layout;
  ESPALIER_ASSIGN(DeviceArray key,
                  DeviceArray::from_host(runtime, random::key_data(options.seed), {}));
  ESPALIER_ASSIGN(Program program, compile(runtime, std::move(spec), saved));
  return TrainStep(runtime, std::move(program), std::move(key), tokens,
                   layer_names(on.model.params()));
}

Result<StepInput> TrainStep::put(const Batch& batch) const {
  ESPALIER_ASSIGN(std::vector<DeviceArray> input, put_batch(runtime_, batch, tokens_));
  return StepInput{std::move(input[0]), std::move(input[1])};
}

Result<PendingReport> TrainStep::run(TrainState& state, const Batch& batch) {
  ESPALIER_ASSIGN(StepInput input, put(batch));
  return run(state, std::move(input));
}

Result<PendingReport> TrainStep::run(TrainState& state, StepInput input) {
  const double now = now_seconds();
  std::vector<DeviceArray*> arguments;
  arguments.reserve(state.size() + 3);
  for (DeviceArray& array : state) arguments.push_back(&array);
  for (DeviceArray* array : {&key_, &input.tokens, &input.targets}) arguments.push_back(array);
  ESPALIER_ASSIGN(std::vector<DeviceArray> out, program_.run(arguments));
  const auto done = std::make_shared<std::atomic<double>>(0);
  PendingReport report{std::move(out.back()), now, done};
  out.pop_back();
  state = std::move(out);
  // A plugin that cannot call back leaves the time at 0: then the step is done when it is read.
  if (const auto ready = report.values.shards().front().ready_event()) {
    (void)ready->on_ready([done](const Status&) { *done = now_seconds(); });
  }
  return report;
}

Result<StepReport> TrainStep::read(const PendingReport& report) const {
  ESPALIER_ASSIGN(const HostArray host, report.values.to_host());
  const auto values = host.as<float>();
  StepReport out{values[0], values[1], values[2]};
  const auto bad = static_cast<size_t>(values[3]);
  if (bad < names_.size()) out.nonfinite_parameter = names_[bad];
  out.nonfinite = values[4] == 0;
  out.dispatched_seconds = report.dispatched_seconds;
  // The plugin's call back may be a moment behind the value.
  const double done = report.done_seconds ? report.done_seconds->load() : 0;
  out.done_seconds = done > 0 ? done : now_seconds();
  return out;
}

Result<EvalStep> EvalStep::create(const std::shared_ptr<Runtime>& runtime, const ModelOnMesh& on,
                                  int64_t batch_size, int64_t seq_len,
                                  std::optional<int64_t> ignore_id) {
  const LayoutPtr tokens = token_layout(on.rules, runtime->mesh(), {batch_size, seq_len});
  ProgramSpec spec;
  spec.name = "eval_step";
  spec.rules = on.rules;
  const ParamSpecs& specs = on.model.params();
  const std::vector<ParamLayout> layouts = layout_params(specs, on.rules, runtime->mesh());
  for (size_t i = 0; i < specs.size(); ++i) {
    spec.arguments.push_back({specs[i].name, make_layout(layouts[i].type, layouts[i].spec)});
  }
  spec.arguments.push_back({"tokens", tokens});
  spec.arguments.push_back({"targets", tokens});
  LossOptions loss;
  loss.chunks = loss_chunks(batch_size, seq_len, on.model.vocab_size(), runtime->mesh().size());
  loss.ignore_id = ignore_id;
  spec.trace([&](const Tensors& in) {
    const Ctx cx = on.context(on.place(*runtime), {in.begin(), in.end() - 2});
    const LossSum value = on.model.loss(in[in.size() - 2], in.back(), cx, loss);
    return Tensors{stack({value.sum, value.count})};
  });
  spec.results = {{}};
  ESPALIER_ASSIGN(Program program, compile(runtime, std::move(spec)));
  return EvalStep(runtime, std::move(program), tokens);
}

Result<EvalLoss> EvalStep::run(std::span<DeviceArray* const> params, const Batch& batch) {
  ESPALIER_ASSIGN(std::vector<DeviceArray> input, put_batch(runtime_, batch, tokens_));
  std::vector<DeviceArray*> arguments(params.begin(), params.end());
  for (DeviceArray& array : input) arguments.push_back(&array);
  ESPALIER_ASSIGN(const std::vector<DeviceArray> out, program_.run(arguments));
  ESPALIER_ASSIGN(const HostArray values, out[0].to_host());
  const auto v = values.as<float>();
  return EvalLoss{v[0], v[1]};
}

double train_flops_per_token(const LanguageModel& model, int64_t seq_len) {
  std::vector<TensorType> types;
  for (const ParamSpec& spec : model.params()) types.push_back({DType::kF32, spec.array_dims()});
  types.insert(types.end(), 2, {DType::kS32, {1, seq_len}});
  const Function forward = trace(types, [&](const Tensors& in) {
    const Ctx cx = Ctx(model.params(), {in.begin(), in.end() - 2}).plain_attention();
    return Tensors{model.loss(in[in.size() - 2], in.back(), cx, {}).sum};
  });
  return 3 * matmul_flops(forward) / static_cast<double>(seq_len);
}

}  // namespace espalier
