#include "espalier/ops/shard_map.h"

#include <algorithm>

#include "espalier/hlo/writer.h"
#include "espalier/ir/parameter.h"
#include "espalier/ops/shape.h"
#include "espalier/ops/source.h"

namespace espalier {
namespace {

using Names = std::vector<std::string>;

std::string specs_text(const std::vector<PartitionSpec>& specs,
                       const std::vector<TensorType>& types, bool open) {
  std::string out = "[";
  for (size_t i = 0; i < specs.size(); ++i) {
    out += (i > 0 ? ", " : "") + hlo::sharding_text(specs[i], types[i].rank(), open);
  }
  return out + "]";
}

std::string type_list(const std::vector<TensorType>& types) {
  std::string out;
  for (const TensorType& t : types) out += (out.empty() ? "" : ", ") + hlo::type_text(t);
  return out;
}

}  // namespace

std::vector<TensorType> ShardMap::infer(Types in) const {
  require_operands(name(), in, in_specs.size());
  if (body->params.size() != in.size() || body->results.size() != out_specs.size()) {
    fail(name(), "needs one spec per operand and result of its body");
  }
  for (size_t i = 0; i < in.size(); ++i) {
    const TensorType local{in[i].dtype, shard_dims(mesh, in_specs[i], in[i].dims,
                                                   "[shard_map] operand " + std::to_string(i))};
    if (body->params[i].type() != local) {
      fail(name(), "the body takes " + to_string(body->params[i].type()) + " as operand " +
                       std::to_string(i) + ", its piece is " + to_string(local));
    }
  }
  std::vector<TensorType> out;
  for (size_t i = 0; i < out_specs.size(); ++i) {
    TensorType type = body->results[i].type();
    if (out_specs[i].size() > type.dims.size()) {
      fail(name(),
           "the spec of result " + std::to_string(i) + " has more dims than " + to_string(type));
    }
    for (size_t d = 0; d < out_specs[i].size(); ++d) type.dims[d] *= mesh.size(out_specs[i][d]);
    out.push_back(std::move(type));
  }
  return out;
}

Tensors ShardMap::vjp(const VjpArgs&) const {
  fail(name(), "is differentiated by espalier/transform, not by a rule of its own");
}

void ShardMap::lower(hlo::Writer& w, const Node& node) const {
  if (w.mesh() != mesh) {
    fail(name(), "was traced for the mesh " + mesh.to_string() + ", but is compiled for " +
                     w.mesh().to_string());
  }
  std::vector<TensorType> local = types_of(body->params);
  const std::string name = w.fresh();
  const size_t results = node.types.size();
  std::string manual;
  for (const MeshAxis& axis : mesh.axes()) {
    if (std::find(axes.begin(), axes.end(), axis.name) == axes.end()) continue;
    manual += (manual.empty() ? "\"" : ", \"") + axis.name + "\"";
  }
  std::vector<TensorType> operand_types = types_of(node.operands);
  // Where the partitioner has axes left, it may split the pieces by them.
  const bool open = axes.size() < mesh.axes().size();
  Names args;
  std::string heads;
  for (const TensorType& type : local) {
    args.push_back(w.fresh());
    heads += (heads.empty() ? "" : ", ") + args.back() + ": " + hlo::type_text(type);
  }
  w.raw(w.indent() + name + (results == 1 ? "" : ":" + std::to_string(results)) +
        " = sdy.manual_computation(" + w.values(node.operands) +
        ") in_shardings=" + specs_text(in_specs, operand_types, open) +
        " out_shardings=" + specs_text(out_specs, node.types, open) + " manual_axes={" + manual +
        "} (" + heads + ") {\n");
  w.indent_by(1);
  auto outer = w.manual_axes();
  w.manual_axes().insert(w.manual_axes().end(), axes.begin(), axes.end());
  const Names out = w.body(*body, args);
  w.manual_axes() = std::move(outer);
  std::string returned;
  for (const std::string& n : out) returned += (returned.empty() ? "" : ", ") + n;
  w.line("sdy.return " + returned + " : " + type_list(types_of(body->results)));
  w.indent_by(-1);
  w.raw(w.indent() + "} : (" + type_list(operand_types) + ") -> (" + type_list(node.types) + ")\n");
  for (uint32_t i = 0; i < results; ++i) {
    w.bind(Tensor(node.shared_from_this(), i),
           results == 1 ? name : name + "#" + std::to_string(i));
  }
}

int64_t Manual::axis_size(const std::string& axis) const { return mesh_.size(axis); }

void Manual::require_manual(std::string_view op, const std::vector<std::string>& axes) const {
  for (const std::string& axis : axes) {
    if (std::find(axes_.begin(), axes_.end(), axis) == axes_.end()) {
      fail(op, "axis '" + axis + "' is not manual in this region");
    }
  }
}

Tensor Manual::axis_index(const std::string& axis) const {
  require_manual("axis_index", {axis});
  auto& piece = index_[axis];
  if (piece.empty()) piece = parameter({DType::kS32, {1}});
  return reshape(piece, {});
}
Tensor Manual::all_reduce(const Tensor& x, Names axes) const {
  require_manual("all_reduce", axes);
  return apply(AllReduce{mesh_, std::move(axes)}, {x});
}
Tensor Manual::all_gather(const Tensor& x, Names axes, int64_t dim) const {
  require_manual("all_gather", axes);
  return apply(AllGather{mesh_, std::move(axes), dim}, {x});
}
Tensor Manual::reduce_scatter(const Tensor& x, Names axes, int64_t dim) const {
  require_manual("reduce_scatter", axes);
  return apply(ReduceScatter{mesh_, std::move(axes), dim}, {x});
}
Tensor Manual::collective_permute(const Tensor& x, const std::string& axis,
                                  std::vector<std::pair<int64_t, int64_t>> pairs) const {
  require_manual("collective_permute", {axis});
  return apply(CollectivePermute{mesh_, axis, std::move(pairs)}, {x});
}
Tensor Manual::rotate(const Tensor& x, const std::string& axis, int64_t step) const {
  const int64_t n = axis_size(axis);
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (int64_t i = 0; i < n; ++i) pairs.emplace_back(i, ((i + step) % n + n) % n);
  return collective_permute(x, axis, std::move(pairs));
}
Tensor Manual::all_to_all(const Tensor& x, const std::string& axis, int64_t split_dim,
                          int64_t concat_dim) const {
  require_manual("all_to_all", {axis});
  return apply(AllToAll{mesh_, axis, split_dim, concat_dim}, {x});
}

Tensors shard_map(const Mesh& mesh, const std::vector<std::string>& axes,
                  const std::vector<PartitionSpec>& in_specs,
                  const std::vector<PartitionSpec>& out_specs,
                  const std::function<Tensors(const Tensors&, const Manual&)>& body,
                  const Tensors& operands) {
  Names manual = axes;
  if (manual.empty()) {
    for (const MeshAxis& axis : mesh.axes()) manual.push_back(axis.name);
  }
  if (in_specs.size() != operands.size()) {
    fail("shard_map", "needs one spec per operand: " + std::to_string(operands.size()) + ", got " +
                          std::to_string(in_specs.size()));
  }
  const Manual here(mesh, manual);
  for (const auto* specs : {&in_specs, &out_specs}) {
    for (const PartitionSpec& spec : *specs) {
      for (const Names& dim : spec) here.require_manual("shard_map", dim);
    }
  }
  auto function = std::make_shared<Function>();
  for (size_t i = 0; i < operands.size(); ++i) {
    function->params.push_back(
        parameter({operands[i].dtype(), shard_dims(mesh, in_specs[i], operands[i].dims(),
                                                   "[shard_map] operand " + std::to_string(i))}));
  }
  Tensors all = operands;
  std::vector<PartitionSpec> all_specs = in_specs;
  function->results = body(function->params, here);
  // A device learns its index along an axis from its piece of an iota split by that axis, which
  // also holds where other axes are left to the partitioner.
  for (const auto& [axis, piece] : here.index_) {
    function->params.push_back(piece);
    all.push_back(iota({DType::kS32, {mesh.size(axis)}}, 0));
    all_specs.push_back({{axis}});
  }
  verify(*function);
  return apply_all(ShardMap{mesh, manual, all_specs, out_specs, function}, all);
}

}  // namespace espalier
