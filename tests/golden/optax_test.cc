// Twelve updates of three parameters equal optax 0.2.8's, and the schedule equals optax's.
//
// Tolerance: 1e-6 absolute plus 1e-6 relative. Bits cannot be equal: the moments' bias corrections
// are computed here without the cancellation in optax's 1 - beta^t, and Newton-Schulz multiplies
// matrices in another order.
#include <cmath>

#include "espalier/ops/shape.h"
#include "espalier/ops/source.h"
#include "espalier/optim/optimizer.h"
#include "tests/golden/golden_support.h"

namespace espalier::test {
namespace {

constexpr int64_t kSteps = 12;
constexpr double kTolerance = 1e-6;
const std::vector<std::string> kNames = {"b", "u", "w"};

std::vector<ParamInfo> infos_of(const std::vector<std::pair<std::string, Dims>>& shapes) {
  std::vector<ParamInfo> out;
  for (const auto& [name, dims] : shapes) {
    ParamInfo info;
    info.name = name;
    info.type = {DType::kF32, dims};
    if (dims.size() >= 2) {
      const auto rank = static_cast<int64_t>(dims.size());
      info.matrix_in = {rank - 2};
      info.matrix_out = {rank - 1};
    }
    out.push_back(info);
  }
  return out;
}

std::vector<ParamInfo> golden_infos() {
  return infos_of({{"b", {10}}, {"u", {8, 4}}, {"w", {6, 10}}});
}

struct Step {
  std::vector<HostArray> params;
  float grad_norm, learning_rate;
};

// Runs updates as training does: one compiled program, the state and the step number carried on.
class Trainer {
 public:
  Trainer(const OptimizerConfig& config, std::vector<ParamInfo> infos, const Mesh& mesh = {},
          const std::vector<PartitionSpec>& specs = {})
      : optimizer_(make_optimizer(config).value_or_throw()), infos_(std::move(infos)) {
    std::vector<TensorType> types;
    std::vector<PartitionSpec> in, out;
    const auto add = [&](const TensorType& type, size_t param) {
      types.push_back(type);
      in.push_back(param < specs.size() ? specs[param] : PartitionSpec{});
    };
    for (size_t i = 0; i < infos_.size(); ++i) add(infos_[i].type, i);
    for (const StateInfo& s : optimizer_.state(infos_)) {
      add(s.type, s.param);
      state_.emplace_back(s.type.dtype, s.type.dims);
    }
    out = in;
    for (size_t i = 0; i < infos_.size(); ++i) add(infos_[i].type, i);
    types.push_back({DType::kS32, {}});
    const Function function = trace(types, [&](const Tensors& all) {
      auto take = [next = all.begin()](size_t n) mutable {
        const auto first = next;
        next += static_cast<int64_t>(n);
        return Tensors(first, next);
      };
      const Tensors params = take(infos_.size()), state = take(state_.size());
      const Tensors grads = take(infos_.size());
      const OptimizerUpdate next = optimizer_.update(infos_, params, grads, state, all.back());
      Tensors results = next.params;
      results.insert(results.end(), next.state.begin(), next.state.end());
      results.push_back(next.grad_norm);
      results.push_back(next.learning_rate);
      return results;
    });
    program_ = std::make_unique<Compiled>(mesh, function, in, out);
  }

  Step step(std::vector<HostArray> params, const std::vector<HostArray>& grads) {
    params.insert(params.end(), state_.begin(), state_.end());
    params.insert(params.end(), grads.begin(), grads.end());
    params.push_back(HostArray::scalar<int32_t>(count_++));
    const std::vector<HostArray> out = (*program_)(params);
    const auto middle = out.begin() + static_cast<int64_t>(infos_.size());
    state_.assign(middle, out.end() - 2);
    return {{out.begin(), middle}, (out.end() - 2)->as<float>()[0], out.back().as<float>()[0]};
  }

  const std::vector<HostArray>& state() const { return state_; }

 private:
  Optimizer optimizer_;
  std::vector<ParamInfo> infos_;
  std::vector<HostArray> state_;
  int32_t count_ = 0;
  std::unique_ptr<Compiled> program_;
};

void expect_near(const HostArray& got, const HostArray& expected, const std::string& name) {
  ASSERT_EQ(got.dims(), expected.dims()) << name;
  const auto a = got.as<float>(), b = expected.as<float>();
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(a[i], b[i], kTolerance * (1 + std::abs(b[i]))) << name << "[" << i << "]";
  }
}

OptimizerConfig clipped_cosine() {
  OptimizerConfig c;
  c.name = "adamw";
  c.learning_rate = 1e-2;
  c.beta2 = 0.95;
  c.weight_decay = 0.1;
  c.decay_parameters = "all";
  c.clip_norm = 1.0;
  c.schedule = "cosine";
  c.init_learning_rate = 1e-5;
  c.min_learning_rate = 1e-4;
  c.warmup_steps = 4;
  c.decay_steps = 10;
  return c;
}

OptimizerConfig muon() {
  OptimizerConfig c;
  c.name = "muon";
  c.learning_rate = 0.02;
  return c;
}

class OptaxGolden : public GoldenTest {
 protected:
  void SetUp() override { open("optax.safetensors"); }

  std::vector<HostArray> all(const std::string& prefix) const {
    std::vector<HostArray> out;
    for (const std::string& name : kNames) out.push_back(golden(prefix + "." + name));
    return out;
  }

  void expect_equal_updates(const std::string& label, const OptimizerConfig& config) {
    Trainer trainer(config, golden_infos());
    std::vector<HostArray> params = all("init");
    for (int64_t i = 0; i < kSteps; ++i) {
      const std::vector<HostArray> grads = all("grad" + std::to_string(i));
      const Step done = trainer.step(params, grads);
      params = done.params;
      double squares = 0;
      for (const HostArray& grad : grads) {
        for (const float x : grad.as<float>()) squares += static_cast<double>(x) * x;
      }
      EXPECT_NEAR(done.grad_norm, std::sqrt(squares), 1e-6 * std::sqrt(squares));
      const std::string step = label + ".step" + std::to_string(i);
      for (size_t p = 0; p < kNames.size(); ++p) {
        expect_near(params[p], golden(step + "." + kNames[p]), step + "." + kNames[p]);
      }
    }
  }
};

TEST_F(OptaxGolden, Sgd) {
  OptimizerConfig c;
  c.name = "sgd";
  c.learning_rate = 0.01;
  expect_equal_updates("sgd", c);
}

TEST_F(OptaxGolden, SgdWithNesterovMomentum) {
  OptimizerConfig c;
  c.name = "sgd";
  c.learning_rate = 0.01;
  c.momentum = 0.9;
  c.nesterov = true;
  expect_equal_updates("sgd_momentum", c);
}

TEST_F(OptaxGolden, Adam) {
  OptimizerConfig c;
  c.name = "adam";
  c.learning_rate = 1e-3;
  expect_equal_updates("adam", c);
}

TEST_F(OptaxGolden, AdamWClippedWithCosineSchedule) {
  expect_equal_updates("adamw_clip_cosine", clipped_cosine());
}

TEST_F(OptaxGolden, Muon) { expect_equal_updates("muon", muon()); }

TEST_F(OptaxGolden, ScheduleOnDeviceAndHost) {
  const Schedule schedule = Schedule::create(clipped_cosine()).value_or_throw();
  Compiled program(Mesh(), trace({{DType::kS32, {}}},
                                 [&](const Tensors& in) { return Tensors{schedule(in[0])}; }));
  const HostArray file = golden("schedule");
  const auto expected = file.as<float>();
  ASSERT_EQ(expected.size(), 14u);
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto got = program({HostArray::scalar(static_cast<int32_t>(i))});
    // Relative: the rates are 1e-5 to 1e-2. 1 + cos(x) near -1 loses digits in either library.
    const double tolerance = 1e-6 * expected[i] + 1e-9;
    EXPECT_NEAR(got[0].as<float>()[0], expected[i], tolerance) << "step " << i;
    EXPECT_NEAR(schedule.at(static_cast<int64_t>(i)), expected[i], tolerance) << "step " << i;
  }
}

// On eight devices, parameters and state split over both axes.
TEST_F(OptaxGolden, UpdatesOnAMeshEqualThoseOnOneDevice) {
  const Mesh mesh({{"a", 4}, {"b", 2}});
  const std::vector<PartitionSpec> specs = {{{"b"}}, {{"a"}, {"b"}}, {{"b"}, {}}};
  for (const OptimizerConfig& config : {clipped_cosine(), muon()}) {
    SCOPED_TRACE(config.name);
    Trainer alone(config, golden_infos()), split(config, golden_infos(), mesh, specs);
    std::vector<HostArray> params = all("init"), others = params;
    for (int64_t i = 0; i < kSteps; ++i) {
      const std::vector<HostArray> grads = all("grad" + std::to_string(i));
      const Step a = alone.step(params, grads), b = split.step(others, grads);
      EXPECT_NEAR(a.grad_norm, b.grad_norm, 1e-6 * a.grad_norm);
      EXPECT_EQ(a.learning_rate, b.learning_rate);
      params = a.params;
      others = b.params;
      for (size_t p = 0; p < kNames.size(); ++p) expect_near(others[p], params[p], kNames[p]);
    }
  }
}

HostArray transposed(const HostArray& x) {
  const int64_t rows = x.dims()[0], columns = x.dims()[1];
  HostArray out(DType::kF32, {columns, rows});
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      out.as<float>()[static_cast<size_t>(c * rows + r)] =
          x.as<float>()[static_cast<size_t>(r * columns + c)];
    }
  }
  return out;
}

HostArray stacked(const std::vector<HostArray>& layers) {
  Dims dims = layers[0].dims();
  dims.insert(dims.begin(), static_cast<int64_t>(layers.size()));
  HostArray out(DType::kF32, dims);
  for (size_t i = 0; i < layers.size(); ++i) {
    std::memcpy(out.data() + i * layers[0].bytes(), layers[i].data(), layers[i].bytes());
  }
  return out;
}

// Layers in one array take the same steps as each by itself; so does a transposed matrix that says
// it is (out, in). Layer l gets the gradient of step i + l.
TEST_F(OptaxGolden, MuonTakesStackedAndTransposedMatrices) {
  constexpr int64_t kLayers = 3;
  OptimizerConfig config = muon();
  config.weight_decay = 0.1;
  std::vector<ParamInfo> single = infos_of({{"0", {6, 10}}, {"1", {6, 10}}, {"2", {6, 10}}});
  std::vector<ParamInfo> other = infos_of({{"stack", {kLayers, 6, 10}}, {"t", {10, 6}}});
  other[0].stacked = true;
  std::swap(other[1].matrix_in, other[1].matrix_out);
  Trainer one(config, single), batched(config, other);
  const HostArray init = golden("init.w");
  std::vector<HostArray> params(kLayers, init);
  std::vector<HostArray> others = {stacked(params), transposed(init)};
  for (int64_t i = 0; i + kLayers <= kSteps; ++i) {
    std::vector<HostArray> grads;
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      grads.push_back(golden("grad" + std::to_string(i + layer) + ".w"));
    }
    params = one.step(params, grads).params;
    others = batched.step(others, {stacked(grads), transposed(grads[0])}).params;
    expect_near(others[0], stacked(params), "stack");
    expect_near(others[1], transposed(params[0]), "t");
  }
  EXPECT_EQ(batched.state().size(), 2u);
}

// With gradients of zero only weight decay moves parameters: matrices, or all of them. A bias of
// two dims is no matrix.
TEST_F(OptaxGolden, WeightDecayTakesMatricesOrAll) {
  OptimizerConfig config;
  config.learning_rate = 0.5;
  config.weight_decay = 0.1;
  std::vector<ParamInfo> infos =
      infos_of({{"matrix", {2, 3}}, {"bias", {3}}, {"bias of heads", {2, 3}}, {"biases", {2, 3}}});
  infos[2].vector = true;
  infos[3].stacked = true;  // one bias a layer
  const std::vector<std::pair<std::string, std::vector<float>>> cases = {
      {"matrices", {0.95f, 1, 1, 1}}, {"all", {0.95f, 0.95f, 0.95f, 0.95f}}};
  for (const auto& [which, expected] : cases) {
    config.decay_parameters = which;
    std::vector<HostArray> ones, zeros;
    for (const ParamInfo& info : infos) {
      zeros.emplace_back(DType::kF32, info.type.dims);
      ones.emplace_back(DType::kF32, info.type.dims);
      for (float& x : ones.back().as<float>()) x = 1;
    }
    const Step done = Trainer(config, infos).step(ones, zeros);
    for (size_t i = 0; i < infos.size(); ++i) {
      for (const float x : done.params[i].as<float>()) {
        EXPECT_FLOAT_EQ(x, expected[i]) << which << " " << infos[i].name;
      }
    }
  }
}

}  // namespace
}  // namespace espalier::test
