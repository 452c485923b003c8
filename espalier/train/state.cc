#include "espalier/train/state.h"

#include "espalier/ops/source.h"
#include "espalier/random/random.h"

namespace espalier {
namespace {

constexpr std::string_view kModel = "model", kOptimizer = "optimizer", kState = "state";

}  // namespace

StoredArray stored_param(const ParamSpec& spec) {
  StoredArray out{{}, spec.dtype, spec.dims, std::string(kModel), spec.layers > 0};
  out.stored_dims = spec.form.stored_dims;
  for (int64_t i = 0; i < std::max<int64_t>(spec.layers, 1); ++i) {
    out.names.push_back(spec.layer_name(i));
  }
  return out;
}

StateLayout::StateLayout(const ParamSpecs& specs, const Optimizer& optimizer,
                         const ShardingRules& rules, const Mesh& mesh)
    : params_(layout_params(specs, rules, mesh)) {
  const auto add = [&](const std::string& name, const TensorType& type, const PartitionSpec& spec,
                       StoredArray stored) {
    arrays_.push_back({name, make_layout(type, spec)});
    stored_.push_back(std::move(stored));
  };
  for (size_t i = 0; i < params_.size(); ++i) {
    const ParamSpec& spec = specs[i];
    ParamInfo info{spec.name, params_[i].type};
    info.vector = spec.kind == ParamKind::kVector;
    info.stacked = spec.layers > 0;
    for (const int64_t d : spec.form.in) info.matrix_in.push_back(d + (info.stacked ? 1 : 0));
    for (const int64_t d : spec.form.out) info.matrix_out.push_back(d + (info.stacked ? 1 : 0));
    infos_.push_back(std::move(info));
    add(spec.name, params_[i].type, params_[i].spec, stored_param(spec));
  }
  for (const StateInfo& info : optimizer.state(infos_)) {
    const ParamSpec& spec = specs[info.param];
    StoredArray stored = stored_param(spec);
    stored.dtype = info.type.dtype;
    stored.group = kOptimizer;
    // "optimizer.m.blocks.*.l1.kernel": what stands before the parameter's name names the array.
    const std::string prefix = info.name.substr(0, info.name.size() - spec.name.size());
    for (std::string& name : stored.names) name = prefix + name;
    add(info.name, info.type, params_[info.param].spec, std::move(stored));
  }
  add("step", {DType::kS32, {}}, {}, {{"step"}, DType::kS32, {}, std::string(kState), false});
}

Result<TrainState> make_state(const std::shared_ptr<Runtime>& runtime, const ParamSpecs& specs,
                              const StateLayout& layout, uint64_t seed) {
  ProgramSpec spec;
  spec.name = "initialize";
  ESPALIER_ASSIGN(DeviceArray key, DeviceArray::from_host(runtime, random::key_data(seed), {}));
  spec.arguments = {{"key", key.layout()}};
  spec.trace([&](const Tensors& in) {
    Tensors out = initialize(specs, layout.params(), in[0]);
    for (size_t i = out.size(); i < layout.size(); ++i) {
      out.push_back(zeros(layout.arrays()[i].layout->type));
    }
    return out;
  });
  for (const Argument& array : layout.arrays()) spec.results.push_back(array.layout->spec);
  ESPALIER_ASSIGN(Program program, compile(runtime, std::move(spec)));
  return program.run({&key});
}

Result<std::vector<DeviceArray>> load_params(const std::shared_ptr<Runtime>& runtime,
                                             const ParamSpecs& specs, const ShardingRules& rules,
                                             const TensorSource& source) {
  const std::vector<ParamLayout> layouts = layout_params(specs, rules, runtime->mesh());
  std::vector<DeviceArray> out;
  for (size_t i = 0; i < layouts.size(); ++i) {
    auto layout = make_layout(layouts[i].type, layouts[i].spec);
    ESPALIER_ASSIGN(DeviceArray array, load_array(source, stored_param(specs[i]), runtime,
                                                  std::move(layout), StoredType::kAnyFloat));
    out.push_back(std::move(array));
  }
  return out;
}

Result<TrainState> load_state(const std::shared_ptr<Runtime>& runtime, const StateLayout& layout,
                              const CheckpointReader& reader) {
  TrainState out;
  for (size_t i = 0; i < layout.size(); ++i) {
    ESPALIER_ASSIGN(DeviceArray array,
                    load_array(reader, layout.stored()[i], runtime, layout.arrays()[i].layout));
    out.push_back(std::move(array));
  }
  return out;
}

Status save_state(CheckpointWriter& writer, const StateLayout& layout, const TrainState& state) {
  for (size_t i = 0; i < layout.size(); ++i) {
    ESPALIER_TRY(save_array(writer, layout.stored()[i], state[i]));
  }
  return {};
}

}  // namespace espalier
