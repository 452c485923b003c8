// Every operation there is: a closed list, which the table tests sweep. A new operation is added
// here, and with cases to tests/support/op_cases_*.cc.
#pragma once

#include "espalier/ir/parameter.h"
#include "espalier/ops/annotate.h"
#include "espalier/ops/control.h"
#include "espalier/ops/custom_call.h"
#include "espalier/ops/dot.h"
#include "espalier/ops/elementwise.h"
#include "espalier/ops/gather.h"
#include "espalier/ops/reduce.h"
#include "espalier/ops/shape.h"
#include "espalier/ops/shard_map.h"
#include "espalier/ops/source.h"
#include "espalier/ops/threefry.h"

namespace espalier {

template <OpStruct... Ops>
struct OpList {
  // Calls visit.template operator()<Op>() for each.
  template <class Visit>
  static void each(Visit visit) {
    (visit.template operator()<Ops>(), ...);
  }
};

using AllOps =
    OpList<Parameter, Splat, Constant, Iota, Unary, Binary, Compare, Select, Convert,
           BitcastConvert, Reshape, BroadcastInDim, Transpose, Slice, Pad, Concatenate, Reverse,
           DynamicSlice, DynamicUpdateSlice, Take, AddRows, Reduce, TopK, DotGeneral, Threefry,
           Shard, OptimizationBarrier, StopGradient, CheckpointName, PlaceInMemory, CustomVjp,
           CustomCall, Scan, While, Cond, Remat, ShardMap, AllReduce, AllGather, ReduceScatter,
           CollectivePermute, AllToAll>;

}  // namespace espalier
