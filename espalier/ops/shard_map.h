// Manual regions: shard_map runs a function per device on that device's pieces, over all or some
// mesh axes, and collectives inside it move data along those axes. Axes that are not manual are
// left to the partitioner.
#pragma once

#include <map>

#include "espalier/ir/function.h"
#include "espalier/mesh/mesh.h"
#include "espalier/ops/rules.h"

namespace espalier {

// Operands and results are global; the body sees their pieces along `axes`. A result whose spec
// leaves out a manual axis must be equal on all devices of that axis; this is not checked.
struct ShardMap {
  Mesh mesh;
  std::vector<std::string> axes;  // manual
  std::vector<PartitionSpec> in_specs, out_specs;
  FunctionPtr body;
  ESPALIER_OP_RULES(ShardMap, "shard_map");
};

// Sum over the devices that differ along `axes` alone.
struct AllReduce {
  Mesh mesh;
  std::vector<std::string> axes;
  ESPALIER_OP_RULES(AllReduce, "all_reduce");
};
// Pieces along `dim` from all devices of `axes`, in the order of their index.
struct AllGather {
  Mesh mesh;
  std::vector<std::string> axes;
  int64_t dim = 0;
  ESPALIER_OP_RULES(AllGather, "all_gather");
};
// Sum over `axes`, of which each device keeps its piece along `dim`.
struct ReduceScatter {
  Mesh mesh;
  std::vector<std::string> axes;
  int64_t dim = 0;
  ESPALIER_OP_RULES(ReduceScatter, "reduce_scatter");
};
// Each (source, target) pair of indices along `axis` sends the operand; a device that receives
// nothing gets zeros.
struct CollectivePermute {
  Mesh mesh;
  std::string axis;
  std::vector<std::pair<int64_t, int64_t>> pairs;
  ESPALIER_OP_RULES(CollectivePermute, "collective_permute");
};
// Splits along `split_dim`, sends piece i to device i of the axis, joins what comes in along
// `concat_dim`.
struct AllToAll {
  Mesh mesh;
  std::string axis;
  int64_t split_dim = 0, concat_dim = 0;
  ESPALIER_OP_RULES(AllToAll, "all_to_all");
};

// What a body may ask about where it runs. Collectives check that their axes are manual here.
class Manual {
 public:
  Manual(const Mesh& mesh, std::vector<std::string> axes) : mesh_(mesh), axes_(std::move(axes)) {}

  int64_t axis_size(const std::string& axis) const;
  // This device's index (s32 scalar) along a manual axis.
  Tensor axis_index(const std::string& axis) const;
  Tensor all_reduce(const Tensor& x, std::vector<std::string> axes) const;
  Tensor all_gather(const Tensor& x, std::vector<std::string> axes, int64_t dim) const;
  Tensor reduce_scatter(const Tensor& x, std::vector<std::string> axes, int64_t dim) const;
  Tensor collective_permute(const Tensor& x, const std::string& axis,
                            std::vector<std::pair<int64_t, int64_t>> pairs) const;
  // From each device to the next (by `step`) around the ring.
  Tensor rotate(const Tensor& x, const std::string& axis, int64_t step = 1) const;
  Tensor all_to_all(const Tensor& x, const std::string& axis, int64_t split_dim,
                    int64_t concat_dim) const;

 private:
  friend Tensors shard_map(const Mesh&, const std::vector<std::string>&,
                           const std::vector<PartitionSpec>&, const std::vector<PartitionSpec>&,
                           const std::function<Tensors(const Tensors&, const Manual&)>&,
                           const Tensors&);
  void require_manual(std::string_view op, const std::vector<std::string>& axes) const;
  const Mesh& mesh_;
  std::vector<std::string> axes_;
  mutable std::map<std::string, Tensor> index_;  // one-element piece of an iota along the axis
};

// `axes` empty: all mesh axes. Specs name manual axes only. The body may capture nothing but
// constants: pass what it needs as operands. Throws Error where a dim is not divided evenly.
Tensors shard_map(const Mesh& mesh, const std::vector<std::string>& axes,
                  const std::vector<PartitionSpec>& in_specs,
                  const std::vector<PartitionSpec>& out_specs,
                  const std::function<Tensors(const Tensors&, const Manual&)>& body,
                  const Tensors& operands);

}  // namespace espalier
