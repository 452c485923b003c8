#include "espalier/pjrt/hlo_module.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace espalier {
namespace {

using Instruction = wire::HloInstructionProto;

// What an instruction is a copy of, or itself.
const Instruction* origin(const HloComputation& in, const Instruction* instruction) {
  while (instruction != nullptr &&
         (instruction->opcode() == "copy" || instruction->opcode() == "bitcast")) {
    instruction = in.operand(*instruction, 0);
  }
  return instruction;
}

// The integer that an instruction is, where it is one that can be read off.
std::optional<int64_t> constant_of(const HloComputation& in, const Instruction* instruction) {
  instruction = origin(in, instruction);
  if (instruction == nullptr || instruction->opcode() != "constant") return std::nullopt;
  const wire::LiteralProto& literal = instruction->literal();
  if (literal.s32s_size() == 1) return literal.s32s(0);
  if (literal.s64s_size() == 1) return literal.s64s(0);
  if (literal.u32s_size() == 1) return literal.u32s(0);
  return std::nullopt;
}

std::optional<double> written_trip_count(const Instruction& loop) {
  const auto config = nlohmann::json::parse(loop.backend_config(), nullptr, false);
  if (!config.is_object() || !config.contains("known_trip_count")) return std::nullopt;
  const auto& known = config["known_trip_count"];
  if (!known.is_object() || !known.contains("n")) return 0;
  const auto& n = known["n"];  // protobuf writes 64-bit integers as text
  return n.is_string() ? std::stod(n.get<std::string>()) : n.get<double>();
}

const HloComputation* find(const HloComputations& all, int64_t id) {
  const auto found = all.find(id);
  return found == all.end() ? nullptr : &found->second;
}

bool is_element(const Instruction* instruction, int64_t index) {
  return instruction != nullptr && instruction->opcode() == "get-tuple-element" &&
         instruction->tuple_index() == index;
}

// What one round adds to element `index` of the loop's state.
std::optional<int64_t> step_of(const HloComputation& body, int64_t index) {
  const Instruction* root = body.root();
  if (root == nullptr || root->opcode() != "tuple") return std::nullopt;
  const Instruction* next = origin(body, body.operand(*root, static_cast<int>(index)));
  if (next == nullptr || next->opcode() != "add") return std::nullopt;
  const Instruction* left = origin(body, body.operand(*next, 0));
  const Instruction* right = origin(body, body.operand(*next, 1));
  if (is_element(left, index)) return constant_of(body, right);
  if (is_element(right, index)) return constant_of(body, left);
  return std::nullopt;
}

std::optional<double> counted_trip_count(const HloComputations& all, const HloComputation& in,
                                         const Instruction& loop) {
  if (loop.called_computation_ids_size() != 2) return std::nullopt;
  const HloComputation* body = find(all, loop.called_computation_ids(0));
  const HloComputation* condition = find(all, loop.called_computation_ids(1));
  const Instruction* initial = in.operand(loop, 0);
  if (body == nullptr || condition == nullptr || initial == nullptr ||
      initial->opcode() != "tuple") {
    return std::nullopt;
  }
  const Instruction* test = condition->root();
  if (test == nullptr || test->opcode() != "compare" || test->comparison_direction() != "LT") {
    return std::nullopt;
  }
  const Instruction* counter = origin(*condition, condition->operand(*test, 0));
  if (counter == nullptr || counter->opcode() != "get-tuple-element") return std::nullopt;
  const int64_t index = counter->tuple_index();
  const auto end = constant_of(*condition, condition->operand(*test, 1));
  const auto begin = constant_of(in, in.operand(*initial, static_cast<int>(index)));
  const auto step = step_of(*body, index);
  if (!begin || !end || !step || *step < 1) return std::nullopt;
  return std::max(0.0, std::ceil(static_cast<double>(*end - *begin) / static_cast<double>(*step)));
}

}  // namespace

HloComputation::HloComputation(const wire::HloComputationProto& computation) : proto(&computation) {
  for (const Instruction& i : computation.instructions()) {
    by_id[i.id()] = &i;
    for (const int64_t operand : i.operand_ids()) users[operand].push_back(&i);
  }
}

const Instruction* HloComputation::operand(const Instruction& instruction, int i) const {
  if (i >= instruction.operand_ids_size()) return nullptr;
  const auto found = by_id.find(instruction.operand_ids(i));
  return found == by_id.end() ? nullptr : found->second;
}

const Instruction* HloComputation::root() const {
  const auto found = by_id.find(proto->root_id());
  return found == by_id.end() ? nullptr : found->second;
}

HloComputations index_computations(const wire::HloModuleProto& module) {
  HloComputations out;
  for (const auto& each : module.computations()) out.emplace(each.id(), HloComputation(each));
  return out;
}

std::optional<double> trip_count(const HloComputations& all, const HloComputation& in,
                                 const Instruction& loop) {
  if (const auto written = written_trip_count(loop)) return written;
  return counted_trip_count(all, in, loop);
}

}  // namespace espalier
