// Operations that compute nothing and say something: sharding constraints, barriers, gradient
// stops, names for policies, places in memory, and gradients of one's own.
#pragma once

#include <functional>
#include <memory>

#include "espalier/mesh/sharding_rules.h"
#include "espalier/ops/rules.h"

namespace espalier {

// Asks that a value be sharded by its logical axes under the rules in force at compile time. It
// prints an sdy.sharding_constraint, and nothing without a mesh.
struct Shard {
  LogicalAxes axes;
  ESPALIER_OP_RULES(Shard, "shard");
};

// Keeps the compiler from moving or merging computations across it: results equal operands.
struct OptimizationBarrier {
  ESPALIER_OP_RULES(OptimizationBarrier, "optimization_barrier");
};

// The operand, whose cotangent ends here.
struct StopGradient {
  ESPALIER_OP_RULES(StopGradient, "stop_gradient");
};

// The operand under a name by which a RematPolicy (control.h) can keep it.
struct CheckpointName {
  std::string value_name;
  ESPALIER_OP_RULES(CheckpointName, "checkpoint_name");
};

// The operand in a memory of the machine: the device's own, or the host's, which the device reads
// over the bus. XLA moves it in the background where it can. For platforms that have both (TPU,
// GPU).
enum class MemoryKind { kDevice, kPinnedHost };
struct PlaceInMemory {
  MemoryKind kind = MemoryKind::kDevice;
  ESPALIER_OP_RULES(PlaceInMemory, "place_in_memory");
};

// Backward rule of custom_vjp: from (inputs, outputs, residuals) and the outputs' cotangents (an
// empty one is zero) to one cotangent per input. It may use no tensors but those, since the graph
// it was made for is rebuilt by transformations.
struct CustomBackward {
  std::string name;
  std::function<Tensors(const Tensors& in, const Tensors& out, const Tensors& residuals,
                        const Tensors& ct)>
      rule;
};

// Operands: inputs, then outputs, then residuals; results: the outputs. simplify() replaces it by
// its outputs, after which residuals that no gradient took are dead.
struct CustomVjp {
  size_t inputs = 0, outputs = 0;
  std::shared_ptr<const CustomBackward> backward;
  ESPALIER_OP_RULES(CustomVjp, "custom_vjp");
};

Tensor shard(const Tensor& x, LogicalAxes axes);
Tensors optimization_barrier(const Tensors& xs);
Tensor stop_gradient(const Tensor& x);
Tensor checkpoint_name(const Tensor& x, std::string name);
Tensor place_in_memory(const Tensor& x, MemoryKind kind);

// `outputs` and `residuals` were computed from `inputs`; differentiating an output with respect to
// an input uses `rule` in place of the rules of the operations between.
Tensors custom_vjp(std::string name, const Tensors& inputs, const Tensors& outputs,
                   const Tensors& residuals,
                   std::function<Tensors(const Tensors& in, const Tensors& out,
                                         const Tensors& residuals, const Tensors& ct)>
                       rule);

}  // namespace espalier
