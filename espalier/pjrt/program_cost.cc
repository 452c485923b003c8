#include "espalier/pjrt/program_cost.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "espalier/pjrt/hlo_module.h"

namespace espalier {
namespace {

using Instruction = wire::HloInstructionProto;
using Shape = wire::ShapeProto;

// Bits of an element by xla.PrimitiveType (xla_data.proto): pred s8 s16 s32 s64, u8 u16 u32 u64,
// f16 f32 f64, -, -, c64 bf16 -, c128, 8-bit floats, s4 u4, 8-bit floats, s2 u2, 8-bit floats, s1
// u1, f4, an 8-bit float. 0: tuples, tokens and what takes no memory.
constexpr int kElementBits[] = {0, 8,   8, 16, 32, 64, 8, 16, 32, 64, 16, 32, 64, 0, 0, 64, 16,
                                0, 128, 8, 8,  4,  4,  8, 8,  8,  2,  2,  8,  8,  1, 1, 4,  8};

int element_bits(int type) {
  return type >= 0 && type < static_cast<int>(std::size(kElementBits)) ? kElementBits[type] : 0;
}

// XLA's numbers of memories that are not the device's main one: TPU's VMEM, and the host's.
constexpr int64_t kMain = 0, kHost = 5;

struct Bytes {
  double main = 0, host = 0;
  Bytes& operator+=(const Bytes& other) {
    main += other.main;
    host += other.host;
    return *this;
  }
};

double array_bytes(const Shape& shape) {
  double bits = static_cast<double>(element_bits(shape.element_type()));
  for (const int64_t d : shape.dimensions()) bits *= static_cast<double>(d);
  return bits / 8;
}

// All of a shape's arrays, wherever they lie.
double all_bytes(const Shape& shape) {
  double sum = shape.tuple_shapes().empty() ? array_bytes(shape) : 0;
  for (const Shape& part : shape.tuple_shapes()) sum += all_bytes(part);
  return sum;
}

// `amount` bytes of an array, counted where the array lies.
Bytes placed(const Shape& shape, double amount) {
  const int64_t space = shape.layout().memory_space();
  return {space == kMain ? amount : 0, space == kHost ? amount : 0};
}

Bytes bytes_of(const Shape& shape) {
  Bytes sum = shape.tuple_shapes().empty() ? placed(shape, array_bytes(shape)) : Bytes();
  for (const Shape& part : shape.tuple_shapes()) sum += bytes_of(part);
  return sum;
}

bool is_one_of(std::string_view opcode, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), opcode) != names.end();
}

// Ops that move nothing themselves: values under another name, and ends of what was counted at its
// start.
bool moves_nothing(std::string_view opcode) {
  return opcode.ends_with("-done") ||
         is_one_of(opcode,
                   {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all",
                    "partition-id", "replica-id", "opt-barrier", "async-update", "add-dependency"});
}

// "all-gather" for "all-gather-start"; nothing where it is no collective.
std::optional<std::string> collective_kind(std::string_view opcode) {
  if (opcode.ends_with("-start")) opcode.remove_suffix(std::string_view("-start").size());
  if (is_one_of(opcode, {"all-gather", "all-reduce", "reduce-scatter", "all-to-all",
                         "collective-permute", "collective-broadcast", "ragged-all-to-all"})) {
    return std::string(opcode);
  }
  return std::nullopt;
}

int64_t group_size(const Instruction& i, int64_t devices) {
  if (i.has_mesh_axes_replica_group_list()) {
    const auto& list = i.mesh_axes_replica_group_list();
    int64_t product = 1;
    for (const auto& axis : list.axes()) {
      if (axis.has_sub_axis_info()) {
        product *= axis.sub_axis_info().size();
      } else if (axis.mesh_axis_index() < list.mesh().axes_size()) {
        product *= list.mesh().axes(static_cast<int>(axis.mesh_axis_index())).size();
      }
    }
    return product;
  }
  if (i.has_iota_collective_device_list()) {
    return i.iota_collective_device_list().num_devices_per_group();
  }
  const auto& list = i.collective_device_list();
  if (list.has_iota_replica_group_list()) {
    return list.iota_replica_group_list().num_devices_per_group();
  }
  if (list.replica_groups_size() > 0) return list.replica_groups(0).replica_ids_size();
  if (i.replica_groups_size() > 0) return i.replica_groups(0).replica_ids_size();
  return devices;
}

class Reader {
 public:
  Reader(const wire::HloModuleProto& module, int64_t devices)
      : devices_(devices), computations_(index_computations(module)) {
    for (const auto& [id, computation] : computations_) {
      for (const Instruction& i : computation.proto->instructions()) {
        if (i.opcode() != "fusion") continue;
        fused_.insert(i.called_computation_ids().begin(), i.called_computation_ids().end());
      }
    }
  }

  ProgramCost read(int64_t entry) {
    const Cost& total = cost(entry);
    ProgramCost out;
    out.bytes_accessed = total.bytes.main;
    out.host_bytes = total.bytes.host;
    out.unknown_loops = static_cast<int64_t>(unknown_loops_.size());
    for (const auto& [key, each] : total.collectives) out.collectives.push_back(each);
    return out;
  }

 private:
  struct Cost {
    Bytes bytes;
    std::map<std::pair<std::string, int64_t>, CollectiveCost> collectives;
  };

  static void add(Cost& to, const Cost& from, double times) {
    to.bytes += {from.bytes.main * times, from.bytes.host * times};
    for (const auto& [key, each] : from.collectives) {
      CollectiveCost& sum = to.collectives[key];
      sum.kind = each.kind;
      sum.group_size = each.group_size;
      sum.count += each.count * times;
      sum.bytes += each.bytes * times;
      sum.received_bytes += each.received_bytes * times;
    }
  }

  const Cost& cost(int64_t id) {
    if (const auto known = costs_.find(id); known != costs_.end()) return known->second;
    Cost sum;
    if (const auto found = computations_.find(id); found != computations_.end()) {
      for (const Instruction& i : found->second.proto->instructions()) {
        count(found->second, i, sum);
      }
    }
    return costs_[id] = std::move(sum);
  }

  void count(const HloComputation& in, const Instruction& i, Cost& sum) {
    const std::string& opcode = i.opcode();
    if (moves_nothing(opcode)) return;
    if (opcode == "while") {
      const std::optional<double> trips = trip_count(computations_, in, i);
      if (!trips) unknown_loops_.insert(i.id());
      for (const int64_t body : i.called_computation_ids()) add(sum, cost(body), trips.value_or(1));
    } else if (opcode == "call" || opcode == "async-start") {
      for (const int64_t body : i.called_computation_ids()) add(sum, cost(body), 1);
    } else if (opcode == "conditional") {
      const Cost* most = nullptr;
      for (const int64_t branch : i.called_computation_ids()) {
        const Cost& each = cost(branch);
        if (most == nullptr || each.bytes.main > most->bytes.main) most = &each;
      }
      if (most != nullptr) add(sum, *most, 1);
    } else if (opcode == "fusion") {
      sum.bytes += fusion_bytes(in, i);
      // Collectives may be fused with what makes their operands or uses their results.
      for (const int64_t body : i.called_computation_ids()) {
        Cost inner = cost(body);
        inner.bytes = {};
        add(sum, inner, 1);
      }
    } else if (const auto kind = collective_kind(opcode)) {
      count_collective(in, i, *kind, sum);
    } else {
      sum.bytes += plain_bytes(in, i);
    }
  }

  double operands_bytes(const HloComputation& in, const Instruction& i) const {
    double sum = 0;
    for (int k = 0; k < i.operand_ids_size(); ++k) {
      if (const Instruction* from = in.operand(i, k)) sum += all_bytes(from->shape());
    }
    return sum;
  }

  // Whether each use of a value takes a slice of it.
  bool is_sliced(const HloComputation& in, const Instruction& value) const {
    const auto users = in.users.find(value.id());
    if (users == in.users.end()) return false;
    return std::all_of(users->second.begin(), users->second.end(), [&](const Instruction* user) {
      if (is_one_of(user->opcode(), {"bitcast", "reshape", "copy", "get-tuple-element"})) {
        return is_sliced(in, *user);
      }
      return user->opcode() == "dynamic-slice" && user->operand_ids(0) == value.id();
    });
  }

  void count_collective(const HloComputation& in, const Instruction& i, std::string kind,
                        Cost& sum) const {
    // TPU's reduce-scatter is an all-reduce fused with the slice that a device keeps.
    if (kind == "all-reduce" && fused_.contains(in.proto->id()) && is_sliced(in, i)) {
      kind = "reduce-scatter";
    }
    CollectiveCost one{kind, group_size(i, devices_), 1};
    const auto group = static_cast<double>(std::max<int64_t>(one.group_size, 1));
    const double operands = operands_bytes(in, i);
    double results = operands;
    one.bytes = operands;
    if (kind == "collective-permute") {
      one.group_size = 0;  // pairs
      const Instruction* sent = in.operand(i, 0);
      one.bytes = one.received_bytes = results = sent == nullptr ? 0 : all_bytes(sent->shape());
    } else {
      if (kind == "all-gather") one.bytes = results = operands * group;
      if (kind == "reduce-scatter") results = operands / group;
      one.received_bytes = one.bytes * (group - 1) / group * (kind == "all-reduce" ? 2 : 1);
    }
    Cost cost;
    cost.bytes.main = operands + results;
    cost.collectives[{kind, one.group_size}] = std::move(one);
    add(sum, cost, 1);
  }

  Bytes operand_bytes(const HloComputation& in, const Instruction& i, int k) const {
    const Instruction* from = in.operand(i, k);
    return from == nullptr ? Bytes() : bytes_of(from->shape());
  }

  Bytes plain_bytes(const HloComputation& in, const Instruction& i) const {
    const std::string& opcode = i.opcode();
    const Instruction* first = in.operand(i, 0);
    if (opcode == "custom-call" && i.operand_ids_size() == 0) return {};  // room, not yet filled
    if (opcode == "copy-start" && first != nullptr && i.shape().tuple_shapes_size() > 0) {
      Bytes sum = bytes_of(first->shape());  // the result is (copy, operand, context)
      sum += bytes_of(i.shape().tuple_shapes(0));
      return sum;
    }
    if (is_one_of(opcode, {"dynamic-slice", "slice", "gather"}) && first != nullptr) {
      Bytes sum = placed(first->shape(), all_bytes(i.shape()));
      sum += bytes_of(i.shape());
      return sum;
    }
    if (is_one_of(opcode, {"dynamic-update-slice", "scatter"})) {
      const int k = opcode == "scatter" ? i.operand_ids_size() - 1 : 1;
      const Instruction* update = in.operand(i, k);
      Bytes sum = operand_bytes(in, i, k);
      if (update != nullptr) sum += placed(i.shape(), all_bytes(update->shape()));
      return sum;
    }
    Bytes sum = bytes_of(i.shape());
    // The last result of a call to cuBLAS or cuDNN is room to work in.
    const bool in_library = opcode == "custom-call" && i.custom_call_target().starts_with("__cu");
    if (const int results = i.shape().tuple_shapes_size(); in_library && results > 1) {
      sum = {};
      for (int k = 0; k + 1 < results; ++k) sum += bytes_of(i.shape().tuple_shapes(k));
    }
    for (int k = 0; k < i.operand_ids_size(); ++k) sum += operand_bytes(in, i, k);
    return sum;
  }

  Bytes fusion_bytes(const HloComputation& in, const Instruction& fusion) const {
    const HloComputation* body = called(fusion);
    if (body == nullptr) return plain_bytes(in, fusion);
    Bytes sum;
    for (int k = 0; k < fusion.operand_ids_size(); ++k) {
      const Instruction* from = in.operand(fusion, k);
      if (from == nullptr) continue;
      const double whole = all_bytes(from->shape());
      sum += placed(from->shape(), std::min(whole, read_of_parameter(*body, k, whole)));
    }
    if (const Instruction* root = body->root()) add_written(*body, *root, fusion.shape(), sum);
    return sum;
  }

  const HloComputation* called(const Instruction& i) const {
    if (i.called_computation_ids_size() == 0) return nullptr;
    const auto found = computations_.find(i.called_computation_ids(0));
    return found == computations_.end() ? nullptr : &found->second;
  }

  double read_of_parameter(const HloComputation& body, int64_t number, double whole) const {
    for (const Instruction& i : body.proto->instructions()) {
      if (i.opcode() == "parameter" && i.parameter_number() == number) {
        return read_of(body, i, whole);
      }
    }
    return whole;
  }

  // Bytes of a value of `whole` bytes that its users in a fusion read.
  double read_of(const HloComputation& body, const Instruction& value, double whole) const {
    const auto users = body.users.find(value.id());
    if (users == body.users.end()) return value.id() == body.proto->root_id() ? whole : 0;
    double sum = 0;
    for (const Instruction* user : users->second) {
      const bool first = user->operand_ids(0) == value.id();
      if (first && is_one_of(user->opcode(), {"dynamic-slice", "slice", "gather"})) {
        sum += all_bytes(user->shape());
      } else if (first && user->opcode() == "dynamic-update-slice") {
        continue;  // the rest stays where it is
      } else if (is_one_of(user->opcode(), {"bitcast", "reshape"})) {
        sum += read_of(body, *user, whole);
      } else if (const HloComputation* inner = called(*user);
                 inner != nullptr && user->opcode() == "fusion") {
        for (int k = 0; k < user->operand_ids_size(); ++k) {
          if (user->operand_ids(k) == value.id()) sum += read_of_parameter(*inner, k, whole);
        }
      } else {
        return whole;
      }
    }
    return sum;
  }

  // What a fusion whose result has this shape writes for `value`.
  void add_written(const HloComputation& body, const Instruction& value, const Shape& shape,
                   Bytes& sum) const {
    const Instruction* first = body.operand(value, 0);
    if (value.opcode() == "tuple" && shape.tuple_shapes_size() == value.operand_ids_size()) {
      for (int k = 0; k < value.operand_ids_size(); ++k) {
        if (const Instruction* part = body.operand(value, k)) {
          add_written(body, *part, shape.tuple_shapes(k), sum);
        }
      }
    } else if (is_one_of(value.opcode(), {"bitcast", "reshape"}) && first != nullptr) {
      add_written(body, *first, shape, sum);
    } else if (const Instruction* update = body.operand(value, 1);
               value.opcode() == "dynamic-update-slice" && update != nullptr) {
      sum += placed(shape, all_bytes(update->shape()));
    } else if (const HloComputation* inner = called(value);
               inner != nullptr && value.opcode() == "fusion" && inner->root() != nullptr) {
      add_written(*inner, *inner->root(), shape, sum);
    } else {
      sum += bytes_of(shape);
    }
  }

  int64_t devices_;
  HloComputations computations_;
  std::set<int64_t> fused_;  // computations that are bodies of fusions
  std::map<int64_t, Cost> costs_;
  std::set<int64_t> unknown_loops_;
};

}  // namespace

Result<ProgramCost> program_cost(const OptimizedProgram& program, int64_t devices) {
  ESPALIER_ASSIGN(const auto module, parse_hlo(program));
  return Reader(module, devices).read(module.entry_computation_id());
}

}  // namespace espalier
