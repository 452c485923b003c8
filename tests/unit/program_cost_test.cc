// What a compiled program moves, read from HLO messages that are made here.
#include "espalier/pjrt/program_cost.h"

#include <gtest/gtest.h>

#include "espalier/pjrt/proto/hlo.pb.h"

namespace espalier {
namespace {

constexpr int kS32 = 4, kF32 = 11, kBf16 = 16, kTuple = 13;
constexpr int64_t kDevices = 8;

wire::ShapeProto array(int type, std::vector<int64_t> dims, int64_t space = 0) {
  wire::ShapeProto out;
  out.set_element_type(type);
  for (const int64_t d : dims) out.add_dimensions(d);
  if (space != 0) out.mutable_layout()->set_memory_space(space);
  return out;
}

wire::ShapeProto tuple(const std::vector<wire::ShapeProto>& parts) {
  wire::ShapeProto out;
  out.set_element_type(kTuple);
  for (const auto& part : parts) *out.add_tuple_shapes() = part;
  return out;
}

// A module whose ids are given in order; the last instruction of a computation is its root.
class Module {
 public:
  wire::HloComputationProto& computation() {
    auto* out = proto_.add_computations();
    out->set_id(proto_.computations_size());
    proto_.set_entry_computation_id(out->id());
    return *out;
  }
  wire::HloInstructionProto& add(wire::HloComputationProto& to, const std::string& opcode,
                                 const wire::ShapeProto& shape,
                                 const std::vector<int64_t>& operands = {}) {
    auto* out = to.add_instructions();
    out->set_id(next_id_++);
    out->set_opcode(opcode);
    *out->mutable_shape() = shape;
    for (const int64_t operand : operands) out->add_operand_ids(operand);
    to.set_root_id(out->id());
    return *out;
  }
  int64_t parameter(wire::HloComputationProto& to, const wire::ShapeProto& shape) {
    int64_t number = 0;
    for (const auto& i : to.instructions()) number += i.opcode() == "parameter";
    auto& out = add(to, "parameter", shape);
    out.set_parameter_number(number);
    return out.id();
  }
  int64_t constant(wire::HloComputationProto& to, int32_t value) {
    auto& out = add(to, "constant", array(kS32, {}));
    out.mutable_literal()->add_s32s(value);
    return out.id();
  }
  ProgramCost cost() const {
    return program_cost({"hlo", proto_.SerializeAsString()}, kDevices).value_or_throw();
  }
  wire::HloModuleProto& proto() { return proto_; }

 private:
  wire::HloModuleProto proto_;
  int64_t next_id_ = 100;
};

TEST(ProgramCost, CountsOperandsAndResultsInMainMemory) {
  Module m;
  auto& entry = m.computation();
  const int64_t x = m.parameter(entry, array(kF32, {16, 8}));
  const int64_t fast = m.add(entry, "negate", array(kBf16, {16, 8}, 1), {x}).id();
  m.add(entry, "add", array(kBf16, {16, 8}), {fast, fast});
  m.add(entry, "copy", array(kF32, {16, 8}, 5), {x});
  const ProgramCost cost = m.cost();
  // negate reads f32, add writes bf16 (both its operands lie on the chip), copy reads f32.
  EXPECT_EQ(cost.bytes_accessed, 16 * 8 * (4 + 2 + 4));
  EXPECT_EQ(cost.host_bytes, 16 * 8 * 4);
  EXPECT_TRUE(cost.collectives.empty());
}

TEST(ProgramCost, OfWhatAFusionSlicesTheSlice) {
  Module m;
  auto& body = m.computation();
  const int64_t stack = m.parameter(body, array(kF32, {10, 100}));
  const int64_t at = m.parameter(body, array(kS32, {}));
  const int64_t sliced = m.add(body, "dynamic-slice", array(kF32, {1, 100}), {stack, at}).id();
  const int64_t next = m.add(body, "negate", array(kF32, {1, 100}), {sliced}).id();
  m.add(body, "dynamic-update-slice", array(kF32, {10, 100}), {stack, next, at});
  const int64_t fused = body.id();
  auto& entry = m.computation();
  const int64_t x = m.parameter(entry, array(kF32, {10, 100}));
  const int64_t i = m.parameter(entry, array(kS32, {}));
  m.add(entry, "fusion", array(kF32, {10, 100}), {x, i}).add_called_computation_ids(fused);
  // A row read and a row written; the index is read whole.
  EXPECT_EQ(m.cost().bytes_accessed, 100 * 4 + 100 * 4 + 4);
}

// all-gather of bf16[4, 8] among 4 in a loop; `how`: "written", "counted", "unknown".
ProgramCost loop_cost(const std::string& how) {
  Module m;
  const auto state = tuple({array(kS32, {}), array(kBf16, {4, 8})});
  auto& body = m.computation();
  const int64_t in = m.parameter(body, state);
  const int64_t i = m.add(body, "get-tuple-element", array(kS32, {}), {in}).id();
  const int64_t one = m.constant(body, how == "unknown" ? 0 : 2);
  const int64_t copy = m.add(body, "copy", array(kS32, {}), {i}).id();
  const int64_t next = m.add(body, "add", array(kS32, {}), {copy, one}).id();
  auto& x = m.add(body, "get-tuple-element", array(kBf16, {4, 8}), {in});
  x.set_tuple_index(1);
  auto& gather = m.add(body, "all-gather", array(kBf16, {16, 8}), {x.id()});
  gather.mutable_iota_collective_device_list()->set_num_devices_per_group(4);
  m.add(body, "tuple", state, {next, x.id()});
  const int64_t body_id = body.id();
  auto& condition = m.computation();
  const int64_t tested = m.parameter(condition, state);
  const int64_t count = m.add(condition, "get-tuple-element", array(kS32, {}), {tested}).id();
  const int64_t end = m.constant(condition, 11);
  m.add(condition, "compare", array(1, {}), {count, end}).set_comparison_direction("LT");
  const int64_t condition_id = condition.id();
  auto& entry = m.computation();
  const int64_t zero = m.constant(entry, 0);
  const int64_t copied = m.add(entry, "copy", array(kS32, {}), {zero}).id();
  const int64_t w = m.parameter(entry, array(kBf16, {4, 8}));
  const int64_t initial = m.add(entry, "tuple", state, {copied, w}).id();
  auto& loop = m.add(entry, "while", state, {initial});
  loop.add_called_computation_ids(body_id);
  loop.add_called_computation_ids(condition_id);
  if (how == "written") loop.set_backend_config(R"({"known_trip_count":{"n":"32"}})");
  return m.cost();
}

TEST(ProgramCost, LoopsCountAsOftenAsTheyRun) {
  for (const auto& [how, times] : {std::pair("written", 32), {"counted", 6}, {"unknown", 1}}) {
    const ProgramCost cost = loop_cost(how);
    EXPECT_EQ(cost.unknown_loops, how == std::string("unknown") ? 1 : 0) << how;
    ASSERT_EQ(cost.collectives.size(), 1u) << how;
    const CollectiveCost& gather = cost.collectives[0];
    EXPECT_EQ(gather.kind, "all-gather");
    EXPECT_EQ(gather.group_size, 4);
    EXPECT_EQ(gather.count, times) << how;
    EXPECT_EQ(gather.bytes, times * 16 * 8 * 2) << how;
    EXPECT_EQ(gather.received_bytes, times * 12 * 8 * 2) << how;
  }
}

TEST(ProgramCost, EveryKindOfCollective) {
  Module m;
  auto& wrapped = m.computation();
  const int64_t inner = m.parameter(wrapped, array(kF32, {8}));
  m.add(wrapped, "reduce-scatter", array(kF32, {1}), {inner});
  const int64_t wrapped_id = wrapped.id();
  auto& entry = m.computation();
  const int64_t x = m.parameter(entry, array(kF32, {8}));
  const auto pair = tuple({array(kF32, {8}), array(kF32, {8})});
  auto& reduce = m.add(entry, "all-reduce-start", array(kF32, {8}), {x});
  auto* mesh = reduce.mutable_mesh_axes_replica_group_list();
  for (const int64_t size : {2, 4}) mesh->mutable_mesh()->add_axes()->set_size(size);
  mesh->add_axes()->set_mesh_axis_index(1);
  m.add(entry, "all-reduce-done", array(kF32, {8}), {reduce.id()});
  m.add(entry, "collective-permute-start", pair, {x});
  auto& started = m.add(entry, "async-start", pair, {x});
  started.add_called_computation_ids(wrapped_id);
  m.add(entry, "async-done", array(kF32, {1}), {started.id()})
      .add_called_computation_ids(wrapped_id);
  auto& to_all = m.add(entry, "all-to-all", array(kF32, {8}), {x});
  to_all.add_replica_groups()->add_replica_ids(0);
  to_all.mutable_replica_groups(0)->add_replica_ids(1);
  const ProgramCost cost = m.cost();
  struct Row {
    const char* kind;
    int64_t group;
    double bytes, received;
  };
  const Row rows[] = {{"all-reduce", 4, 32, 48},
                      {"all-to-all", 2, 32, 16},
                      {"collective-permute", 0, 32, 32},
                      {"reduce-scatter", kDevices, 32, 28}};
  ASSERT_EQ(cost.collectives.size(), std::size(rows));
  for (size_t i = 0; i < std::size(rows); ++i) {
    EXPECT_EQ(cost.collectives[i].kind, rows[i].kind);
    EXPECT_EQ(cost.collectives[i].group_size, rows[i].group) << rows[i].kind;
    EXPECT_EQ(cost.collectives[i].count, 1) << rows[i].kind;
    EXPECT_EQ(cost.collectives[i].bytes, rows[i].bytes) << rows[i].kind;
    EXPECT_EQ(cost.collectives[i].received_bytes, rows[i].received) << rows[i].kind;
  }
}

TEST(ProgramCost, AnAllReduceFusedWithItsSliceIsAReduceScatter) {
  for (const bool fused : {true, false}) {
    Module m;
    auto& body = m.computation();
    const int64_t x = m.parameter(body, array(kF32, {8, 4}));
    const int64_t at = m.parameter(body, array(kS32, {}));
    const int64_t sum = m.add(body, "all-reduce", array(kF32, {8, 4}), {x}).id();
    m.add(body, "dynamic-slice", array(kF32, {1, 4}), {sum, at, at});
    const int64_t body_id = body.id();
    auto& entry = m.computation();
    const int64_t y = m.parameter(entry, array(kF32, {8, 4}));
    const int64_t i = m.parameter(entry, array(kS32, {}));
    m.add(entry, fused ? "fusion" : "call", array(kF32, {1, 4}), {y, i})
        .add_called_computation_ids(body_id);
    const ProgramCost cost = m.cost();
    ASSERT_EQ(cost.collectives.size(), 1u);
    EXPECT_EQ(cost.collectives[0].kind, fused ? "reduce-scatter" : "all-reduce");
    EXPECT_EQ(cost.collectives[0].received_bytes, fused ? 112 : 224);
  }
}

TEST(ProgramCost, OtherFormatsAreUnimplemented) {
  const auto other = program_cost({"mlir", ""}, 1);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.failure().code, Code::kUnimplemented);
}

}  // namespace
}  // namespace espalier
