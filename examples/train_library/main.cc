// A training loop of one's own: a model, how it lies on a mesh of eight CPU devices, one compiled
// step, and data made on the host. B batch, I inputs, F hidden units.
#include <cmath>
#include <cstdio>
#include <random>

#include "espalier/nn/ctx.h"
#include "espalier/nn/layout.h"
#include "espalier/ops/annotate.h"
#include "espalier/ops/dot.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/reduce.h"
#include "espalier/random/random.h"
#include "espalier/runtime/program.h"
#include "espalier/transform/grad.h"

using namespace espalier;

constexpr int64_t kBatch = 64, kInputs = 2, kHidden = 32;

struct Mlp {
  Param fc, bias, proj;
  explicit Mlp(Init in)
      : fc(in.param("fc.weight", {kInputs, kHidden}, xavier_uniform(kInputs, kHidden),
                    {"", "mlp"})),
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

  // Two programs: initial parameters from a seed, and a step from parameters and a batch to the
  // next parameters, in the memory of the old ones, and the loss.
  ProgramSpec init, step;
  init.trace([&](const Tensors&) { return initialize(specs, layouts, random::key(/*seed=*/0)); });
  const auto argument = [&](const std::string& name, const TensorType& type, PartitionSpec spec) {
    step.arguments.push_back({name, make_layout(type, std::move(spec))});
  };
  for (size_t i = 0; i < specs.size(); ++i) {
    argument(specs[i].name, layouts[i].type, layouts[i].spec);
    init.results.push_back(layouts[i].spec);
    step.results.push_back(layouts[i].spec);
    step.donated.push_back(static_cast<int64_t>(i));
  }
  const PartitionSpec rows = rules.resolve({"batch", ""}, mesh);
  argument("x", {DType::kF32, {kBatch, kInputs}}, rows);
  argument("y", {DType::kF32, {kBatch, 1}}, rows);
  step.results.push_back({});  // the loss
  step.rules = rules;
  step.trace([&](const Tensors& in) {
    const Tensors params(in.begin(), in.end() - 2);
    const Tensor error = model(in[in.size() - 2], Ctx(specs, params)) - in.back();
    const ValueAndGrad vg = value_and_grad(mean(error * error, {0, 1}), params);
    Tensors out;
    for (size_t i = 0; i < params.size(); ++i) out.push_back(params[i] - vg.grads[i] * 0.1);
    out.push_back(vg.value);
    return out;
  });
  Program make = compile(runtime, std::move(init)).value_or_throw();
  Program next = compile(runtime, std::move(step)).value_or_throw();

  std::vector<DeviceArray> state = make.run({}).value_or_throw();
  std::mt19937 numbers(0);
  std::uniform_real_distribution<float> uniform(-2, 2);
  float first = 0, loss = 0;
  for (int i = 0; i <= 600; ++i) {
    HostArray x(DType::kF32, {kBatch, kInputs}), y(DType::kF32, {kBatch, 1});
    for (size_t b = 0; b < kBatch; ++b) {
      const float u = x.as<float>()[2 * b] = uniform(numbers);
      const float v = x.as<float>()[2 * b + 1] = uniform(numbers);
      y.as<float>()[b] = std::sin(u) * v;
    }
    DeviceArray xs = DeviceArray::from_host(runtime, x, rows).value_or_throw();
    DeviceArray ys = DeviceArray::from_host(runtime, y, rows).value_or_throw();
    std::vector<DeviceArray*> arguments;
    for (DeviceArray& array : state) arguments.push_back(&array);
    arguments.insert(arguments.end(), {&xs, &ys});
    state = next.run(arguments).value_or_throw();
    const HostArray report = state.back().to_host().value_or_throw();
    loss = report.as<float>()[0];
    state.pop_back();
    if (i == 0) first = loss;
    if (i % 200 == 0) std::printf("step %3d  loss %.4f\n", i, loss);
  }
  return loss < first / 10 ? 0 : 1;
}
