// A training loop of one's own: a model, how it lies on a mesh of eight CPU devices, one compiled
// step, and data made on the host. B batch, I input, F hidden.
#include <cmath>
#include <cstdio>
#include <random>

#include "espalier/nn/ctx.h"
#include "espalier/nn/layout.h"
#include "espalier/ops/annotate.h"
#include "espalier/ops/dot.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/reduce.h"
#include "espalier/ops/source.h"
#include "espalier/optim/optimizer.h"
#include "espalier/random/random.h"
#include "espalier/runtime/program.h"
#include "espalier/transform/grad.h"

using namespace espalier;

constexpr int64_t kBatch = 64, kInputs = 2, kHidden = 32;

struct Mlp {
  Param fc, bias, proj;
  explicit Mlp(Init in)
      : fc(in.param("fc.weight", {kInputs, kHidden}, xavier_uniform(kInputs, kHidden), {"", "mlp"})),
        bias(in.param("fc.bias", {kHidden}, zeros_init(), {"mlp"})),
        proj(in.param("proj.weight", {kHidden, 1}, xavier_uniform(kHidden, 1), {"mlp", ""})) {}
  Tensor operator()(const Tensor& x_BI, const Ctx& cx) const {
    const Tensor h_BF = shard(tanh(matmul(x_BI, cx[fc]) + cx[bias]), {"batch", "mlp"});
    return matmul(h_BF, cx[proj]);
  }
};

int main() {
  const Mesh mesh({{"batch", 4}, {"model", 2}});
  const ShardingRules rules{{{"batch", {"batch"}}, {"mlp", {"model"}}}, {}};
  const auto runtime = Runtime::create({.mesh = mesh}).value_or_throw();

  ParamSpecs specs;
  const Mlp model{Init(specs)};
  const std::vector<ParamLayout> layouts = layout_params(specs, rules, mesh);
  OptimizerConfig config;
  config.name = "adam";
  config.learning_rate = 1e-2;
  const Optimizer optimizer = make_optimizer(config).value_or_throw();

  // The state: parameters, the optimizer's arrays, and how many steps are done.
  std::vector<ParamInfo> infos;
  ProgramSpec step;
  const auto argument = [&](const std::string& name, const TensorType& type, PartitionSpec spec) {
    step.arguments.push_back(
        {name, std::make_shared<const ArrayLayout>(ArrayLayout{type, std::move(spec)})});
  };
  for (size_t i = 0; i < specs.size(); ++i) {
    infos.push_back({specs[i].name, layouts[i].type});
    argument(specs[i].name, layouts[i].type, layouts[i].spec);
  }
  for (const StateInfo& s : optimizer.state(infos)) {
    argument(s.name, s.type, layouts[s.param].spec);
  }
  argument("step", {DType::kS32, {}}, {});
  const auto params = static_cast<std::ptrdiff_t>(specs.size());
  const auto count = static_cast<std::ptrdiff_t>(step.arguments.size());

  ProgramSpec init;
  init.function = trace({}, [&](const Tensors&) {
    Tensors state = initialize(specs, layouts, random::key(0));
    for (auto i = params; i < count; ++i) state.push_back(zeros(step.arguments[i].layout->type));
    return state;
  });
  for (const Argument& a : step.arguments) init.results.push_back(a.layout->spec);
  std::vector<DeviceArray> state =
      compile(runtime, std::move(init)).value_or_throw().run({}).value_or_throw();

  // One step: the same state, one further, and the loss. The old state's memory is taken over.
  const PartitionSpec rows = rules.resolve({"batch", ""}, mesh);
  argument("x", {DType::kF32, {kBatch, kInputs}}, rows);
  argument("y", {DType::kF32, {kBatch, 1}}, rows);
  std::vector<TensorType> types;
  for (const Argument& a : step.arguments) types.push_back(a.layout->type);
  step.rules = rules;
  step.function = trace(types, [&](const Tensors& in) {
    const Tensors now(in.begin(), in.begin() + params);
    const Tensors old(in.begin() + params, in.begin() + count - 1);
    const Tensor error = model(in[count], Ctx(specs, now)) - in[count + 1];
    const ValueAndGrad vg = value_and_grad(mean(error * error, {0, 1}), now);
    OptimizerUpdate next = optimizer.update(infos, now, vg.grads, old, in[count - 1]);
    Tensors out = next.params;
    out.insert(out.end(), next.state.begin(), next.state.end());
    out.push_back(in[count - 1] + ones_like(in[count - 1]));
    out.push_back(vg.value);
    return out;
  });
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    step.results.push_back(step.arguments[i].layout->spec);
    step.donated.push_back(i);
  }
  step.results.push_back({});
  Program program = compile(runtime, std::move(step)).value_or_throw();

  std::mt19937 numbers(0);
  std::uniform_real_distribution<float> uniform(-2, 2);
  float first = 0, loss = 0;
  for (int i = 0; i <= 300; ++i) {
    HostArray x(DType::kF32, {kBatch, kInputs}), y(DType::kF32, {kBatch, 1});
    for (int64_t b = 0; b < kBatch; ++b) {
      const float u = x.as<float>()[2 * b] = uniform(numbers);
      const float v = x.as<float>()[2 * b + 1] = uniform(numbers);
      y.as<float>()[b] = std::sin(u) * v;
    }
    DeviceArray inputs = DeviceArray::from_host(runtime, x, rows).value_or_throw();
    DeviceArray targets = DeviceArray::from_host(runtime, y, rows).value_or_throw();
    std::vector<DeviceArray*> arguments;
    for (DeviceArray& array : state) arguments.push_back(&array);
    arguments.insert(arguments.end(), {&inputs, &targets});
    state = program.run(arguments).value_or_throw();
    loss = state.back().to_host().value_or_throw().as<float>()[0];
    state.pop_back();
    if (i == 0) first = loss;
    if (i % 100 == 0) std::printf("step %3d  loss %.4f\n", i, loss);
  }
  return loss < first / 10 ? 0 : 1;
}
