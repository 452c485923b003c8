// CompileOptions: how XLA is to compile a module.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "espalier/base/error.h"

namespace espalier {

using OptionOverride = std::variant<std::string, bool, int64_t, double>;

struct CompileOptions {
  int64_t num_replicas = 1;
  int64_t num_partitions = 1;  // the module's mhlo.num_partitions
  // Device ids, one for each replica and partition: ids[replica * num_partitions + partition].
  // Empty: the platform's own choice. Row-major order of the mesh gives the mesh's devices.
  std::vector<int64_t> device_ids;
  bool use_spmd_partitioning = true;
  bool use_shardy_partitioner = true;
  // Whether the partitioner may choose shardings of results and arguments that have none: one value
  // for all, or one each. Empty: it may not.
  std::vector<bool> propagate_to_output;
  std::vector<bool> propagate_to_parameters;
  // XLA's own scale from -1 to 1; 0 is its default.
  float exec_time_effort = 0;
  float memory_fitting_effort = 0;
  // XLA flags by name, without dashes: {"xla_cpu_enable_fast_math", true}.
  std::map<std::string, OptionOverride> overrides;

  // A serialized CompileOptionsProto; equal options give equal bytes. kInvalidArgument when counts
  // and device ids do not fit together.
  Result<std::string> serialize() const;
};

}  // namespace espalier
