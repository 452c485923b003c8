#include "espalier/pjrt/compile_options.h"

#include <fmt/format.h>

#include "espalier/pjrt/proto/compile_options.pb.h"

namespace espalier {
namespace {

Failure invalid(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

void set_value(const OptionOverride& value, wire::OptionOverrideProto& out) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    out.set_string_field(*text);
  } else if (const auto* flag = std::get_if<bool>(&value)) {
    out.set_bool_field(*flag);
  } else if (const auto* integer = std::get_if<int64_t>(&value)) {
    out.set_int_field(*integer);
  } else {
    out.set_double_field(std::get<double>(value));
  }
}

}  // namespace

Result<std::string> CompileOptions::serialize() const {
  if (num_replicas < 1 || num_partitions < 1) {
    return invalid(
        fmt::format("compile options need at least 1 replica and 1 partition, got {} and {}",
                    num_replicas, num_partitions));
  }
  const auto expected = static_cast<size_t>(num_replicas * num_partitions);
  if (!device_ids.empty() && device_ids.size() != expected) {
    return invalid(fmt::format(
        "compile options need {} device ids ({} replicas × {} partitions) or none, got {}",
        expected, num_replicas, num_partitions, device_ids.size()));
  }

  wire::CompileOptionsProto proto;
  for (const auto& [name, value] : overrides) {
    auto* entry = proto.add_env_option_overrides();
    entry->set_key(name);
    set_value(value, *entry->mutable_value());
  }
  auto* build = proto.mutable_executable_build_options();
  build->set_device_ordinal(-1);  // XLA's "not set"; 0 would name a device
  build->set_num_replicas(num_replicas);
  build->set_num_partitions(num_partitions);
  build->set_use_spmd_partitioning(use_spmd_partitioning);
  build->set_use_shardy_partitioner(use_shardy_partitioner);
  build->set_exec_time_optimization_effort(exec_time_effort);
  build->set_memory_fitting_effort(memory_fitting_effort);
  for (bool each : propagate_to_output) {
    build->add_allow_spmd_sharding_propagation_to_output(each);
  }
  for (bool each : propagate_to_parameters) {
    build->add_allow_spmd_sharding_propagation_to_parameters(each);
  }
  if (!device_ids.empty()) {
    auto* assignment = build->mutable_device_assignment();
    assignment->set_replica_count(static_cast<int32_t>(num_replicas));
    assignment->set_computation_count(static_cast<int32_t>(num_partitions));
    for (int64_t partition = 0; partition < num_partitions; ++partition) {
      auto* devices = assignment->add_computation_devices();
      for (int64_t replica = 0; replica < num_replicas; ++replica) {
        devices->add_replica_device_ids(
            device_ids[static_cast<size_t>(replica * num_partitions + partition)]);
      }
    }
  }
  return proto.SerializeAsString();
}

}  // namespace espalier
