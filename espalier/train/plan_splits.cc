#include "espalier/train/plan_splits.h"

#include <algorithm>

#include "espalier/ops/annotate.h"
#include "espalier/ops/gather.h"
#include "espalier/ops/kernel_calls.h"
#include "espalier/ops/shard_map.h"

namespace espalier::planning {
namespace {

void collect(const Body& body, std::vector<const Factor*>& out) {
  for (const Op& op : body.ops) {
    for (const Body& inner : op.bodies) collect(inner, out);
    for (const Factor& factor : op.factors) out.push_back(&factor);
  }
}

}  // namespace

AxisSet Splits::bits(const std::vector<std::string>& names) const {
  AxisSet out = 0;
  for (size_t i = 0; i < mesh_.axes().size(); ++i) {
    const MeshAxis& axis = mesh_.axes()[i];
    if (axis.size > 1 && std::find(names.begin(), names.end(), axis.name) != names.end()) {
      out |= AxisSet{1} << i;
    }
  }
  return out;
}

int Splits::rank(int value) const {
  return static_cast<int>(graph_.types[static_cast<size_t>(value)].dims.size());
}

AxisSet Splits::all_axes(int value) const {
  AxisSet out = 0;
  for (int d = 0; d < rank(value); ++d) out |= axes(value, d);
  return out;
}

int64_t Splits::devices(AxisSet axes) const {
  int64_t out = 1;
  for (size_t i = 0; i < mesh_.axes().size(); ++i) {
    if ((axes >> i & 1) != 0) out *= mesh_.axes()[i].size;
  }
  return out;
}

double Splits::elements(int value, AxisSet whole) const {
  double out = 1;
  const Dims& dims = graph_.types[static_cast<size_t>(value)].dims;
  for (int d = 0; d < rank(value); ++d) {
    const int64_t by = devices(axes(value, d) & ~whole), size = dims[static_cast<size_t>(d)];
    out *= static_cast<double>((size + by - 1) / by);  // the partitioner pads
  }
  return out;
}

double Splits::bytes(int value, AxisSet whole) const {
  const DType dtype = graph_.types[static_cast<size_t>(value)].dtype;
  return elements(value, whole) * static_cast<double>(byte_size(dtype));
}

void Splits::fix(int value, const PartitionSpec& spec) {
  for (size_t d = 0; d < spec.size(); ++d) axes_[first(value) + d] = bits(spec[d]);
  fixed_[static_cast<size_t>(value)] = true;
}

void Splits::fix_constraints(const Body& body, const ShardingRules& rules, AxisSet manual) {
  for (const Op& op : body.ops) {
    AxisSet inner = manual;
    if (const auto* shard = op.node->as<Shard>(); shard != nullptr && manual == 0) {
      fix(op.results[0], rules.resolve(shard->axes, mesh_));
    }
    if (const auto* map = op.node->as<ShardMap>()) {
      inner |= bits(map->axes);
      for (size_t i = 0; i < op.results.size(); ++i) fix(op.results[i], map->out_specs[i]);
    }
    for (const Body& b : op.bodies) fix_constraints(b, rules, inner);
  }
}

Splits::Splits(const Graph& graph, const Mesh& mesh, const ShardingRules& rules,
               const std::vector<PartitionSpec>& in,
               const std::vector<std::optional<PartitionSpec>>& out)
    : graph_(graph), mesh_(mesh) {
  if (mesh.axes().size() > 32) throw Error("a mesh of more than 32 axes cannot be planned");
  size_t places = 0;
  for (const TensorType& type : graph.types) {
    first_.push_back(places);
    places += type.dims.size();
  }
  axes_.assign(places, 0);
  fixed_.assign(graph.types.size(), false);
  if (mesh.size() == 1) return;
  for (size_t i = 0; i < in.size(); ++i) fix(graph.main.params[i], in[i]);
  fix_constraints(graph.main, rules, 0);
  for (size_t i = 0; i < out.size(); ++i) {
    const auto value = static_cast<size_t>(graph.main.results[i]);
    if (out[i] && !fixed_[value]) fix(graph.main.results[i], *out[i]);
  }
  collect(graph.main, factors_);
  propagate();
}

void Splits::propagate() {
  for (const bool all : {false, true}) {
    bool changed = true;
    while (changed) {
      changed = false;
      const auto visit = [&](const Factor* factor) {
        if ((all || factor->passes) && spread(*factor)) changed = true;
      };
      std::for_each(factors_.begin(), factors_.end(), visit);
      std::for_each(factors_.rbegin(), factors_.rend(), visit);
    }
  }
}

bool Splits::spread(const Factor& factor) {
  AxisSet all = 0;
  const auto each = [&](const auto& visit) {
    for (const auto* places : {&factor.operands, &factor.results}) {
      for (const Place& place : *places) {
        if (!graph_.constant[static_cast<size_t>(place.value)]) visit(place);
      }
    }
  };
  each([&](const Place& place) { all |= axes(place.value, place.dim); });
  if (all == 0) return false;
  bool changed = false;
  each([&](const Place& place) {
    if (fixed_[static_cast<size_t>(place.value)]) return;
    AxisSet& has = axes_[first(place.value) + static_cast<size_t>(place.dim)];
    const AxisSet more = all & ~all_axes(place.value);
    if (more == 0) return;
    const int64_t size =
        graph_.types[static_cast<size_t>(place.value)].dims[static_cast<size_t>(place.dim)];
    if (size % devices(has | more) != 0) return;
    has |= more;
    changed = true;
  });
  return changed;
}

namespace {

// What an op needs of a dim of an operand.
struct Need {
  Place place;
  AxisSet runs = 0;  // axes that it runs split by, along this dim
};

std::vector<Need> needs_of(const Splits& splits, const Op& op, AxisSet parts) {
  std::vector<Need> out;
  for (const Factor& factor : op.factors) {
    AxisSet runs = 0;
    if (factor.results.empty()) {
      for (const Place& place : factor.operands) runs |= splits.axes(place.value, place.dim);
      runs &= parts;
    } else {
      runs = splits.axes(factor.results[0].value, factor.results[0].dim) & ~parts;
    }
    for (const Place& place : factor.operands) out.push_back({place, runs});
  }
  return out;
}

// Axes along which each device has a part of the sum: those that split a summed dim, unless only
// one of two operands has them and the result needs them elsewhere.
AxisSet parts_of(const Splits& splits, const Op& op) {
  const AxisSet kept = splits.all_axes(op.results[0]);
  AxisSet out = 0;
  for (const Factor& factor : op.factors) {
    if (!factor.results.empty()) continue;
    AxisSet any = 0, every = ~AxisSet{0};
    for (const Place& place : factor.operands) {
      any |= splits.axes(place.value, place.dim);
      every &= splits.axes(place.value, place.dim);
    }
    out |= every | (any & ~kept);
  }
  // Rows to be added move to where their table's piece is.
  return op.node->as<AddRows>() != nullptr ? out & ~kept : out;
}

double dot_flops(const Graph& graph, const Splits& splits, const Op& op,
                 const std::vector<Need>& needs) {
  double out = 2;
  size_t at = 0;
  for (const Factor& factor : op.factors) {
    const Place& any = factor.operands[0];
    const Dims& dims = graph.types[static_cast<size_t>(any.value)].dims;
    out *= static_cast<double>(dims[static_cast<size_t>(any.dim)]) /
           static_cast<double>(splits.devices(needs[at].runs));
    at += factor.operands.size();
  }
  return out;
}

}  // namespace

Partition partition(const Graph& graph, const Splits& splits, const Op& op) {
  Partition out;
  std::vector<Need> needs;
  out.flops = attention_kernel_flops(*op.node);
  if (const auto* map = op.node->as<ShardMap>()) {
    for (size_t i = 0; i < op.operands.size(); ++i) {
      for (size_t d = 0; d < map->in_specs[i].size(); ++d) {
        needs.push_back({{op.operands[i], static_cast<int>(d)}, splits.bits(map->in_specs[i][d])});
      }
    }
  } else if (op.kind == OpKind::kSource || !op.bodies.empty() || op.results.empty() ||
             op.node->as<OptimizationBarrier>() != nullptr) {
    return out;
  } else {
    const AxisSet parts = parts_of(splits, op), kept = splits.all_axes(op.results[0]);
    needs = needs_of(splits, op, parts);
    if (op.kind == OpKind::kDot) out.flops = dot_flops(graph, splits, op, needs);
    out.scattered = parts & kept;
    out.reduced = parts & ~kept;
  }
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const int operand = op.operands[i];
    const bool seen = std::find(op.operands.begin(), op.operands.begin() + static_cast<int64_t>(i),
                                operand) != op.operands.begin() + static_cast<int64_t>(i);
    if (seen || graph.constant[static_cast<size_t>(operand)]) continue;
    AxisSet lacks = 0, takes = 0;  // to be undone, and split by anew
    for (const Need& need : needs) {
      if (need.place.value != operand) continue;
      const AxisSet has = splits.axes(operand, need.place.dim);
      lacks |= has & ~need.runs;
      takes |= need.runs & ~has;
    }
    if (lacks == 0) continue;
    if (i == 0 && op.node->as<Take>() != nullptr) {
      // The rows are taken in pieces as the table has them, and change places then.
      out.gathers.push_back({op.results[0], lacks, true});
    } else {
      out.gathers.push_back({operand, lacks, (lacks & ~takes) == 0});
    }
  }
  return out;
}

}  // namespace espalier::planning
