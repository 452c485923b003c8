// The collectives of shard_map.h.
//
// Gradients follow the convention that each device's cotangent is its own contribution: the
// transpose of a sum over devices is a sum over devices, so that a value that a region leaves equal
// on several devices must enter the backward region divided by their number (see transform/grad).
#include <algorithm>

#include "espalier/hlo/writer.h"
#include "espalier/ops/shard_map.h"

namespace espalier {
namespace {

std::string channel(hlo::Writer& w) {
  return "channel_handle = #stablehlo.channel_handle<handle = " + std::to_string(w.next_channel()) +
         ", type = 1>";
}

std::string groups(const Mesh& mesh, const std::vector<std::string>& axes) {
  return "replica_groups = " +
         hlo::dense_groups(mesh.groups(axes), static_cast<size_t>(mesh.size(axes)));
}

void require_dim(std::string_view op, const TensorType& type, int64_t dim) {
  if (dim < 0 || dim >= type.rank()) {
    fail(op, "dim " + std::to_string(dim) + " is outside " + to_string(type));
  }
}

void require_divisible(std::string_view op, const TensorType& type, int64_t dim, int64_t parts) {
  require_dim(op, type, dim);
  if (type.dims[static_cast<size_t>(dim)] % parts != 0) {
    fail(op, "dim " + std::to_string(dim) + " of " + to_string(type) + " is not a multiple of " +
                 std::to_string(parts));
  }
}

// all_reduce and reduce_scatter carry the sum as a region.
void lower_sum(hlo::Writer& w, const Node& node, const std::string& op,
               const std::string& attributes) {
  const TensorType element{node.types[0].dtype, {}};
  const std::string name = w.fresh();
  w.raw(w.indent() + name + " = \"" + op + "\"(" + w.values(node.operands) + ") <{" + attributes +
        "}> (");
  w.region({element, element}, [&](const std::vector<std::string>& args) {
    const std::string sum = w.emit("stablehlo.add", args, {element, element}, element);
    w.line("\"stablehlo.return\"(" + sum + ") : (" + hlo::type_text(element) + ") -> ()");
  });
  w.raw(") : (" + hlo::type_text(node.operands[0].type()) + ") -> " +
        hlo::type_text(node.types[0]) + "\n");
  w.bind(Tensor(node.shared_from_this(), 0), name);
}

}  // namespace

std::vector<TensorType> AllReduce::infer(Types in) const {
  require_operands(name(), in, 1);
  mesh.size(axes);
  return {in[0]};
}
Tensors AllReduce::vjp(const VjpArgs& a) const { return {apply(*this, {a.ct[0]})}; }
void AllReduce::lower(hlo::Writer& w, const Node& node) const {
  lower_sum(w, node, "stablehlo.all_reduce",
            channel(w) + ", " + groups(mesh, axes) + ", use_global_device_ids");
}

std::vector<TensorType> AllGather::infer(Types in) const {
  require_operands(name(), in, 1);
  require_dim(name(), in[0], dim);
  TensorType out = in[0];
  out.dims[static_cast<size_t>(dim)] *= mesh.size(axes);
  return {out};
}
Tensors AllGather::vjp(const VjpArgs& a) const {
  return {apply(ReduceScatter{mesh, axes, dim}, {a.ct[0]})};
}
void AllGather::lower(hlo::Writer& w, const Node& node) const {
  w.generic(node, "stablehlo.all_gather",
            "all_gather_dim = " + std::to_string(dim) + " : i64, " + channel(w) + ", " +
                groups(mesh, axes) + ", use_global_device_ids");
}

std::vector<TensorType> ReduceScatter::infer(Types in) const {
  require_operands(name(), in, 1);
  require_divisible(name(), in[0], dim, mesh.size(axes));
  TensorType out = in[0];
  out.dims[static_cast<size_t>(dim)] /= mesh.size(axes);
  return {out};
}
Tensors ReduceScatter::vjp(const VjpArgs& a) const {
  return {apply(AllGather{mesh, axes, dim}, {a.ct[0]})};
}
void ReduceScatter::lower(hlo::Writer& w, const Node& node) const {
  lower_sum(w, node, "stablehlo.reduce_scatter",
            channel(w) + ", " + groups(mesh, axes) +
                ", scatter_dimension = " + std::to_string(dim) + " : i64, use_global_device_ids");
}

std::vector<TensorType> CollectivePermute::infer(Types in) const {
  require_operands(name(), in, 1);
  const int64_t n = mesh.size(axis);
  std::vector<bool> sends(static_cast<size_t>(n)), receives(static_cast<size_t>(n));
  for (const auto& [from, to] : pairs) {
    const bool inside = from >= 0 && from < n && to >= 0 && to < n;
    if (!inside || sends[static_cast<size_t>(from)] || receives[static_cast<size_t>(to)]) {
      fail(name(), "needs each index below " + std::to_string(n) +
                       " at most once as source and once as target, got (" + std::to_string(from) +
                       ", " + std::to_string(to) + ")");
    }
    sends[static_cast<size_t>(from)] = receives[static_cast<size_t>(to)] = true;
  }
  return {in[0]};
}
Tensors CollectivePermute::vjp(const VjpArgs& a) const {
  auto back = pairs;
  for (auto& [from, to] : back) std::swap(from, to);
  return {apply(CollectivePermute{mesh, axis, std::move(back)}, {a.ct[0]})};
}
void CollectivePermute::lower(hlo::Writer& w, const Node& node) const {
  std::vector<std::vector<int64_t>> devices;
  for (const auto& group : mesh.groups({axis})) {
    for (const auto& [from, to] : pairs) {
      devices.push_back({group[static_cast<size_t>(from)], group[static_cast<size_t>(to)]});
    }
  }
  w.generic(node, "stablehlo.collective_permute",
            channel(w) + ", source_target_pairs = " + hlo::dense_groups(devices, 2));
}

std::vector<TensorType> AllToAll::infer(Types in) const {
  require_operands(name(), in, 1);
  const int64_t n = mesh.size(axis);
  require_divisible(name(), in[0], split_dim, n);
  require_dim(name(), in[0], concat_dim);
  TensorType out = in[0];
  out.dims[static_cast<size_t>(split_dim)] /= n;
  out.dims[static_cast<size_t>(concat_dim)] *= n;
  return {out};
}
Tensors AllToAll::vjp(const VjpArgs& a) const {
  return {apply(AllToAll{mesh, axis, concat_dim, split_dim}, {a.ct[0]})};
}
void AllToAll::lower(hlo::Writer& w, const Node& node) const {
  w.generic(node, "stablehlo.all_to_all",
            channel(w) + ", concat_dimension = " + std::to_string(concat_dim) + " : i64, " +
                groups(mesh, {axis}) + ", split_count = " + std::to_string(mesh.size(axis)) +
                " : i64, split_dimension = " + std::to_string(split_dim) + " : i64");
}

}  // namespace espalier
