// What each operation refuses, with the start of the message.
#include "espalier/ops/op_list.h"
#include "tests/support/op_cases.h"

namespace espalier::test {
namespace {

const TensorType kVector{DType::kF32, {3}};
const TensorType kMatrix{DType::kF32, {2, 3}};
const TensorType kScalar{DType::kF32, {}};
const TensorType kInts{DType::kS32, {3}};
const TensorType kIndex{DType::kS32, {}};
const TensorType kBool{DType::kBool, {}};
const Mesh kMesh({{"a", 2}});

// Applies an operation to whatever the inputs are.
template <class S>
std::function<Tensors(const Tensors&)> to_all(S s) {
  return [s](const Tensors& in) { return apply_all(s, in); };
}

FunctionPtr function(const std::vector<TensorType>& params,
                     const std::vector<TensorType>& results) {
  auto out = std::make_shared<Function>();
  out->params = parameters(params);
  for (const TensorType& type : results) out->results.push_back(zeros(type));
  return out;
}

void add_plain(std::vector<ErrorCase>& out) {
  out.push_back(
      {"parameter_operand", {kVector}, to_all(Parameter{kVector}), "[parameter] needs 0"});
  out.push_back({"splat_operand", {kVector}, to_all(Splat{kVector}), "[splat] needs 0 operands"});
  out.push_back({"constant_type",
                 {},
                 [](const Tensors&) { return Tensors{constant(HostArray(DType::kU8, {2}))}; },
                 "[constant] has no literal text for element type ui8"});
  out.push_back(
      {"iota_dim", {}, to_all(Iota{kVector, 1}), "[iota] needs a dim below rank 1, got 1"});
  out.push_back({"unary_integers",
                 {kInts},
                 to_all(Unary{UnaryKind::kExp}),
                 "[exp] needs floating-point elements, got i32"});
  out.push_back({"unary_not",
                 {kVector},
                 to_all(Unary{UnaryKind::kNot}),
                 "[not] needs integers or bools, got f32"});
  out.push_back(
      {"unary_neg", {kBool}, to_all(Unary{UnaryKind::kNeg}), "[neg] needs numbers, got i1"});
  out.push_back({"unary_abs",
                 {{DType::kU32, {}}},
                 to_all(Unary{UnaryKind::kAbs}),
                 "[abs] needs signed numbers, got ui32"});
  out.push_back({"binary_shapes",
                 {kVector, kMatrix},
                 to_all(Binary{BinaryKind::kAdd}),
                 "[add] needs operands of equal type, got f32[3] and f32[2, 3]"});
  out.push_back({"binary_broadcast",
                 {kVector, {DType::kF32, {4}}},
                 [](const Tensors& in) { return Tensors{in[0] + in[1]}; },
                 "[add] shapes [3] and [4] do not broadcast"});
  out.push_back({"binary_types",
                 {kVector, kInts},
                 [](const Tensors& in) { return Tensors{in[0] * in[1]}; },
                 "[mul] needs operands of equal type"});
  out.push_back({"binary_shift",
                 {kBool, kBool},
                 to_all(Binary{BinaryKind::kShiftLeft}),
                 "[shift_left] needs integers, got i1"});
  out.push_back({"compare",
                 {kVector, kInts},
                 to_all(Compare{Direction::kLt}),
                 "[compare] needs operands of equal type"});
  out.push_back({"select",
                 {kVector, kVector, kVector},
                 to_all(Select{}),
                 "[select] needs a bool mask and two operands"});
  out.push_back({"convert", {kVector, kVector}, to_all(Convert{DType::kS32}), "[convert] needs 1"});
  out.push_back({"bitcast_convert",
                 {kVector},
                 to_all(BitcastConvert{DType::kF64}),
                 "[bitcast_convert] needs types of equal width, got f32 and f64"});
  out.push_back({"bitcast_convert_bool",
                 {kBool},
                 to_all(BitcastConvert{DType::kS8}),
                 "[bitcast_convert] needs types of equal width, got i1 and i8"});
  out.push_back({"shard",
                 {kMatrix},
                 to_all(Shard{{"rows"}}),
                 "[shard] needs one logical axis per dim of f32[2, 3], got 1"});
  out.push_back({"optimization_barrier",
                 {},
                 [](const Tensors&) { return optimization_barrier({Tensor()}); },
                 "[optimization_barrier] an operand is an empty Tensor"});
  out.push_back({"stop_gradient", {}, to_all(StopGradient{}), "[stop_gradient] needs 1 operands"});
  out.push_back(
      {"checkpoint_name", {}, to_all(CheckpointName{"x"}), "[checkpoint_name] needs 1 operands"});
  out.push_back(
      {"place_in_memory", {}, to_all(PlaceInMemory{}), "[place_in_memory] needs 1 operands"});
  out.push_back({"custom_call",
                 {},
                 [](const Tensors&) { return custom_call("a_target", {Tensor()}, {kVector}); },
                 "[custom_call] an operand is an empty Tensor"});
  out.push_back({"custom_vjp",
                 {kVector},
                 [](const Tensors& in) {
                   auto rule = std::make_shared<CustomBackward>();
                   return apply_all(CustomVjp{1, 1, rule}, {in[0]});
                 },
                 "[custom_vjp] '' needs 1 inputs and 1 outputs, got 1 operands"});
  out.push_back({"threefry",
                 {kVector, kVector, kVector, kVector},
                 to_all(Threefry{}),
                 "[threefry] needs four u32 arrays of one shape, got f32[3]"});
}

void add_shapes(std::vector<ErrorCase>& out) {
  out.push_back({"reshape",
                 {kMatrix},
                 to_all(Reshape{{4}}),
                 "[reshape] needs as many elements as f32[2, 3] has, got shape [4]"});
  out.push_back({"broadcast_in_dim",
                 {kVector},
                 to_all(BroadcastInDim{{3, 4}, {1}}),
                 "[broadcast_in_dim] cannot place f32[3] at dims [1] of shape [3, 4]"});
  out.push_back({"broadcast_to",
                 {kMatrix},
                 [](const Tensors& in) { return Tensors{broadcast_to(in[0], {3})}; },
                 "[broadcast_to] cannot make f32[2, 3] of shape [3]"});
  out.push_back({"transpose",
                 {kMatrix},
                 [](const Tensors& in) {
                   return Tensors{transpose(in[0], {0, 0})};
                 },
                 "[transpose] needs a permutation of the dims of f32[2, 3], got [0, 0]"});
  out.push_back({"slice",
                 {kMatrix},
                 [](const Tensors& in) {
                   return Tensors{slice(in[0], {0, 1}, {2, 4})};
                 },
                 "[slice] cannot take [[0, 1], [2, 4]) by [1, 1] of f32[2, 3]"});
  out.push_back({"slice_dim",
                 {kMatrix},
                 [](const Tensors& in) { return Tensors{slice_dim(in[0], 2, 0, 1)}; },
                 "[slice] dim 2 of f32[2, 3]"});
  out.push_back({"pad",
                 {kVector, kScalar},
                 to_all(Pad{{-2}, {-2}, {0}}),
                 "[pad] cannot pad f32[3] with f32[] by low [-2], high [-2], interior [0]"});
  out.push_back({"concatenate",
                 {kMatrix, kVector},
                 to_all(Concatenate{0}),
                 "[concatenate] operand 1 needs the shape of the first except in dim 0"});
  out.push_back({"concatenate_dim",
                 {kMatrix},
                 to_all(Concatenate{2}),
                 "[concatenate] dim 2 is outside f32[2, 3]"});
  out.push_back({"reverse",
                 {kMatrix},
                 to_all(Reverse{{1, 1}}),
                 "[reverse] needs distinct dims of f32[2, 3], got [1, 1]"});
  out.push_back({"dynamic_slice",
                 {kMatrix, kIndex, kIndex},
                 to_all(DynamicSlice{{3, 1}}),
                 "[dynamic_slice] a block of shape [3, 1] of f32[2, 3]"});
  out.push_back({"dynamic_slice_indices",
                 {kMatrix, kIndex},
                 to_all(DynamicSlice{{1, 1}}),
                 "[dynamic_slice] needs 2 indices, got 1"});
  out.push_back({"dynamic_slice_float",
                 {kVector, kScalar},
                 to_all(DynamicSlice{{1}}),
                 "[dynamic_slice] needs integer scalars of one type as indices, got f32[]"});
  out.push_back({"dynamic_update_slice",
                 {kVector, {DType::kF32, {4}}, kIndex},
                 to_all(DynamicUpdateSlice{}),
                 "[dynamic_update_slice] an update f32[4] for f32[3]"});
  out.push_back(
      {"take",
       {kMatrix, kVector},
       to_all(Take{}),
       "[take] needs a table of rank 1 or more and integer ids, got f32[2, 3] and f32[3]"});
  out.push_back({"add_rows",
                 {kMatrix, kInts, kMatrix},
                 to_all(AddRows{}),
                 "[add_rows] needs rows f32[3, 3], got f32[2, 3]"});
  out.push_back({"reduce_dims",
                 {kMatrix},
                 to_all(Reduce{ReduceKind::kSum, {2}}),
                 "[reduce_sum] needs rising dims of f32[2, 3], got [2]"});
  out.push_back({"reduce_type",
                 {kMatrix},
                 to_all(Reduce{ReduceKind::kAnd, {0}}),
                 "[reduce_and] does not take elements of type f32"});
  out.push_back({"top_k",
                 {kVector},
                 to_all(TopK{4}),
                 "[top_k] needs 1 <= k <= the last dim, got k = 4 of f32[3]"});
  out.push_back(
      {"dot_general",
       {kMatrix, kMatrix},
       [](const Tensors& in) { return Tensors{dot_general(in[0], in[1], {}, {}, {1}, {0})}; },
       "[dot_general] needs equal types and equal sizes in distinct batch dims [] and []"});
  out.push_back(
      {"dot_general_twice",
       {kMatrix, kMatrix},
       [](const Tensors& in) { return Tensors{dot_general(in[0], in[1], {0}, {0}, {0}, {0})}; },
       "[dot_general] needs equal types"});
  out.push_back({"matmul",
                 {kMatrix, kVector},
                 [](const Tensors& in) { return Tensors{matmul(in[0], in[1])}; },
                 "[matmul] needs x (..., K) and w (K, N), got f32[2, 3] and f32[3]"});
}

void add_structured(std::vector<ErrorCase>& out) {
  out.push_back({"scan_carry",
                 {kVector},
                 [](const Tensors& in) {
                   return scan(
                              [](const Tensors& c, const Tensors&) {
                                return ScanResult{{reduce_sum(c[0])}, {}};
                              },
                              {in[0]}, {}, 2)
                       .carry;
                 },
                 "[scan] needs carry 0 to keep its type f32[3], but the body returns f32[]"});
  out.push_back({"scan_lengths",
                 {kVector, kMatrix},
                 [](const Tensors& in) {
                   return scan(
                              [](const Tensors& c, const Tensors&) {
                                return ScanResult{c, {}};
                              },
                              {}, {in[0], in[1]})
                       .carry;
                 },
                 "[scan] needs scanned arrays of length 3, got f32[2, 3]"});
  out.push_back({"scan_no_length",
                 {kVector},
                 [](const Tensors& in) {
                   return scan(
                              [](const Tensors& c, const Tensors&) {
                                return ScanResult{c, {}};
                              },
                              in, {})
                       .carry;
                 },
                 "[scan] needs a length where no array is scanned"});
  out.push_back(
      {"scan_carries",
       {kVector},
       [](const Tensors& in) {
         return scan([](const Tensors&, const Tensors&) { return ScanResult{}; }, in, {}, 2).carry;
       },
       "[scan] needs a body that returns 1 carries, got 0"});
  out.push_back({"while_condition",
                 {kVector},
                 [](const Tensors& in) {
                   return while_loop([](const Tensors& s) { return s[0]; },
                                     [](const Tensors& s) { return s; }, in);
                 },
                 "[while] needs a condition that returns one bool scalar"});
  out.push_back({"while_body",
                 {kScalar},
                 [](const Tensors& in) {
                   return while_loop(
                       [](const Tensors& s) { return compare(s[0], 1.0, Direction::kLt); },
                       [](const Tensors& s) {
                         return Tensors{s[0], s[0]};
                       },
                       in);
                 },
                 "[while] needs a body that keeps the state's types"});
  out.push_back({"cond_predicate",
                 {kScalar},
                 [](const Tensors& in) {
                   return cond(
                       in[0], [&] { return in; }, [&] { return in; });
                 },
                 "[cond] needs a bool scalar as predicate"});
  out.push_back({"cond_branches",
                 {kBool, kVector},
                 [](const Tensors& in) {
                   return cond(
                       in[0], [&] { return Tensors{in[1]}; },
                       [&] { return Tensors{reduce_sum(in[1])}; });
                 },
                 "[cond] needs branches that return the same types"});
  out.push_back({"remat",
                 {kVector},
                 to_all(Remat{function({kScalar}, {kScalar})}),
                 "[remat] the body takes f32[] as value 0, got f32[3]"});
}

void add_manual(std::vector<ErrorCase>& out) {
  out.push_back({"shard_map_body",
                 {kVector},
                 to_all(ShardMap{kMesh, {"a"}, {{}}, {{}}, function({kScalar}, {kScalar})}),
                 "[shard_map] the body takes f32[] as operand 0, its piece is f32[3]"});
  const auto region = [](PartitionSpec in_spec, std::vector<std::string> axes) {
    return [=](const Tensors& in) {
      return shard_map(
          Mesh({{"a", 2}, {"b", 1}}), axes, {in_spec}, {{}},
          [](const Tensors& x, const Manual& m) { return Tensors{m.all_reduce(x[0], {"b"})}; }, in);
    };
  };
  out.push_back({"shard_map_divides",
                 {kVector},
                 region({{"a"}}, {}),
                 "[shard_map] operand 0: dim 0 of shape [3] is 3, which mesh axis 'a' of size 2"});
  out.push_back({"shard_map_axis",
                 {kMatrix},
                 region({{"b"}}, {"a"}),
                 "[shard_map] axis 'b' is not manual in this region"});
  out.push_back({"collective_axis",
                 {kMatrix},
                 region({{"a"}}, {"a"}),
                 "[all_reduce] axis 'b' is not manual in this region"});
  out.push_back({"all_reduce",
                 {kVector, kVector},
                 to_all(AllReduce{kMesh, {"a"}}),
                 "[all_reduce] needs 1 operands, got 2"});
  out.push_back({"all_gather",
                 {kVector},
                 to_all(AllGather{kMesh, {"a"}, 1}),
                 "[all_gather] dim 1 is outside f32[3]"});
  out.push_back({"reduce_scatter",
                 {kVector},
                 to_all(ReduceScatter{kMesh, {"a"}, 0}),
                 "[reduce_scatter] dim 0 of f32[3] is not a multiple of 2"});
  out.push_back({"collective_permute",
                 {kVector},
                 to_all(CollectivePermute{kMesh, "a", {{0, 1}, {1, 1}}}),
                 "[collective_permute] needs each index below 2 at most once as source and once as "
                 "target, got (1, 1)"});
  out.push_back({"all_to_all",
                 {kMatrix},
                 to_all(AllToAll{kMesh, "a", 1, 0}),
                 "[all_to_all] dim 1 of f32[2, 3] is not a multiple of 2"});
}

}  // namespace

const std::vector<ErrorCase>& error_cases() {
  static const std::vector<ErrorCase> cases = [] {
    std::vector<ErrorCase> out;
    add_plain(out);
    add_shapes(out);
    add_structured(out);
    add_manual(out);
    return out;
  }();
  return cases;
}

}  // namespace espalier::test
