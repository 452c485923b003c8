// A traced function laid flat for planning: its values by number, and for each op which dims of its
// operands and results are split together. Needs no plugin and no compiler.
#pragma once

#include <vector>

#include "espalier/ir/function.h"

namespace espalier::planning {

// A dim of a value.
struct Place {
  int value = 0;
  int dim = 0;
};

// Dims that stand for one another in an op: where one is split by a mesh axis, the op can run with
// all of them split (Shardy calls this a factor). Without results the dim is summed or chosen over.
struct Factor {
  std::vector<Place> operands, results;
  // The op only passes elements on, or works on each alone; such factors take a split first.
  bool passes = false;
};

// What an op means for memory.
enum class OpKind {
  kSource,       // constants, iota: made where they are read
  kView,         // the same elements, no work: reshape, shard, barrier
  kElementwise,  // fused with its readers where that costs nothing: also broadcast, slice, convert
  kInPlace,      // dynamic_update_slice: the first operand with a part replaced
  kDot,
  kReduce,
  kLoop,  // scan and while: bodies, carries
  kOther,
};

struct Op;
struct Body {
  std::vector<int> params, results;  // values
  std::vector<Op> ops;               // operands before their users, in the order of tracing
};

struct Op {
  const Node* node = nullptr;
  OpKind kind = OpKind::kOther;
  std::vector<int> operands, results;  // values
  std::vector<Factor> factors;
  std::vector<Body> bodies;
  // Of a loop: how often it runs, and where among operands, its body's parameters and results the
  // carries are. A while loop's length is not known: 1.
  int64_t length = 1;
  size_t consts = 0, carries = 0;
};

struct Graph {
  Function function;  // keeps the nodes
  std::vector<TensorType> types;
  std::vector<bool> constant;  // depends on no parameter: exists for each reader anew
  Body main;
};

// Of a function as simplify() leaves it. A remat stands for its body.
Graph make_graph(Function function);

}  // namespace espalier::planning
