#include "espalier/ops/annotate.h"

#include <algorithm>

#include "espalier/hlo/writer.h"
#include "espalier/ops/source.h"

namespace espalier {
namespace {

// The node's results stand for these tensors: nothing is printed.
void alias(hlo::Writer& w, const Node& node, size_t first) {
  for (uint32_t i = 0; i < node.types.size(); ++i) {
    w.bind(Tensor(node.shared_from_this(), i), w.value(node.operands[first + i]));
  }
}

}  // namespace

std::vector<TensorType> Shard::infer(Types in) const {
  require_operands(name(), in, 1);
  if (static_cast<int64_t>(axes.size()) != in[0].rank()) {
    fail(name(), "needs one logical axis per dim of " + to_string(in[0]) + ", got " +
                     std::to_string(axes.size()));
  }
  return {in[0]};
}
Tensors Shard::vjp(const VjpArgs& a) const { return {shard(a.ct[0], axes)}; }
void Shard::lower(hlo::Writer& w, const Node& node) const {
  // Nothing is left to the partitioner on one device or where all axes are manual.
  if (w.manual_axes().size() == w.mesh().axes().size()) return alias(w, node, 0);
  PartitionSpec spec = w.rules().resolve(axes, w.mesh());
  for (auto& dim : spec) {
    std::erase_if(dim, [&](const std::string& axis) {
      const auto& manual = w.manual_axes();
      return std::find(manual.begin(), manual.end(), axis) != manual.end();
    });
  }
  const std::string id = w.fresh();
  w.line(id + " = sdy.sharding_constraint " + w.value(node.operands[0]) + " " +
         hlo::sharding_text(spec, node.types[0].rank()) + " : " + hlo::type_text(node.types[0]));
  w.bind(Tensor(node.shared_from_this(), 0), id);
}

std::vector<TensorType> OptimizationBarrier::infer(Types in) const {
  return {in.begin(), in.end()};
}
Tensors OptimizationBarrier::vjp(const VjpArgs& a) const { return a.ct; }
void OptimizationBarrier::lower(hlo::Writer& w, const Node& node) const {
  w.generic(node, "stablehlo.optimization_barrier");
}

std::vector<TensorType> StopGradient::infer(Types in) const {
  require_operands(name(), in, 1);
  return {in[0]};
}
Tensors StopGradient::vjp(const VjpArgs&) const { return {Tensor()}; }
void StopGradient::lower(hlo::Writer& w, const Node& node) const { alias(w, node, 0); }

std::vector<TensorType> CheckpointName::infer(Types in) const {
  require_operands(name(), in, 1);
  return {in[0]};
}
Tensors CheckpointName::vjp(const VjpArgs& a) const { return a.ct; }
void CheckpointName::lower(hlo::Writer& w, const Node& node) const { alias(w, node, 0); }

std::vector<TensorType> PlaceInMemory::infer(Types in) const {
  require_operands(name(), in, 1);
  return {in[0]};
}
Tensors PlaceInMemory::vjp(const VjpArgs& a) const { return a.ct; }
void PlaceInMemory::lower(hlo::Writer& w, const Node& node) const {
  const std::string id = w.fresh(), type = hlo::type_text(node.types[0]);
  w.line(id + " = stablehlo.custom_call @annotate_device_placement(" + w.value(node.operands[0]) +
         ") {backend_config = \"\", has_side_effect = true, mhlo.frontend_attributes = "
         "{_xla_buffer_placement = \"" +
         (kind == MemoryKind::kDevice ? "device" : "pinned_host") + "\"}} : (" + type + ") -> " +
         type);
  w.bind(Tensor(node.shared_from_this(), 0), id);
}

std::vector<TensorType> CustomVjp::infer(Types in) const {
  if (in.size() < inputs + outputs) {
    fail(name(), "'" + backward->name + "' needs " + std::to_string(inputs) + " inputs and " +
                     std::to_string(outputs) + " outputs, got " + std::to_string(in.size()) +
                     " operands");
  }
  const auto first = in.begin() + static_cast<int64_t>(inputs);
  return {first, first + static_cast<int64_t>(outputs)};
}
Tensors CustomVjp::vjp(const VjpArgs& a) const {
  const auto at = [&](size_t i) { return a.in.begin() + static_cast<int64_t>(i); };
  Tensors out =
      backward->rule({at(0), at(inputs)}, a.out, {at(inputs + outputs), a.in.end()}, a.ct);
  if (out.size() != inputs) {
    fail(name(), "the gradient rule of '" + backward->name + "' gave " +
                     std::to_string(out.size()) + " cotangents for " + std::to_string(inputs) +
                     " inputs");
  }
  for (size_t i = 0; i < inputs; ++i) {
    if (!out[i].empty() && out[i].type() != a.in[i].type()) {
      fail(name(), "the gradient rule of '" + backward->name + "' gave a cotangent " +
                       to_string(out[i].type()) + " for input " + std::to_string(i) + " of type " +
                       to_string(a.in[i].type()));
    }
  }
  out.resize(a.in.size());  // none for outputs and residuals: the rule covers them
  return out;
}
void CustomVjp::lower(hlo::Writer& w, const Node& node) const { alias(w, node, inputs); }

Tensor shard(const Tensor& x, LogicalAxes axes) { return apply(Shard{std::move(axes)}, {x}); }
Tensors optimization_barrier(const Tensors& xs) { return apply_all(OptimizationBarrier{}, xs); }
Tensor stop_gradient(const Tensor& x) { return apply(StopGradient{}, {x}); }
Tensor checkpoint_name(const Tensor& x, std::string name) {
  return apply(CheckpointName{std::move(name)}, {x});
}
Tensor place_in_memory(const Tensor& x, MemoryKind kind) { return apply(PlaceInMemory{kind}, {x}); }

Tensors custom_vjp(
    std::string name, const Tensors& inputs, const Tensors& outputs, const Tensors& residuals,
    std::function<Tensors(const Tensors&, const Tensors&, const Tensors&, const Tensors&)> rule) {
  Tensors operands = inputs;
  operands.insert(operands.end(), outputs.begin(), outputs.end());
  operands.insert(operands.end(), residuals.begin(), residuals.end());
  auto backward = std::make_shared<CustomBackward>(std::move(name), std::move(rule));
  return apply_all(CustomVjp{inputs.size(), outputs.size(), std::move(backward)},
                   std::move(operands));
}

}  // namespace espalier
