#include "espalier/pjrt/executable.h"

#include "espalier/pjrt/call.h"

namespace espalier {

Executable& Executable::operator=(Executable&& other) noexcept {
  if (this != &other) {
    destroy();
    plugin_ = other.plugin_;
    owner_ = std::move(other.owner_);
    raw_ = std::exchange(other.raw_, nullptr);
  }
  return *this;
}

void Executable::destroy() {
  if (raw_ == nullptr) return;
  ESPALIER_PJRT_STRUCT(PJRT_Executable_Destroy_Args, args);
  args.executable = std::exchange(raw_, nullptr);
  (void)ESPALIER_PJRT_CALL(*plugin_, PJRT_Executable_Destroy, args);
}

Result<std::string> Executable::name() const {
  ESPALIER_PJRT_STRUCT(PJRT_Executable_Name_Args, args);
  args.executable = raw_;
  ESPALIER_TRY(ESPALIER_PJRT_CALL(*plugin_, PJRT_Executable_Name, args));
  return std::string(text_view(args.executable_name, args.executable_name_size));
}

Result<int64_t> Executable::num_replicas() const {
  ESPALIER_PJRT_STRUCT(PJRT_Executable_NumReplicas_Args, args);
  args.executable = raw_;
  ESPALIER_TRY(ESPALIER_PJRT_CALL(*plugin_, PJRT_Executable_NumReplicas, args));
  return static_cast<int64_t>(args.num_replicas);
}

Result<int64_t> Executable::num_partitions() const {
  ESPALIER_PJRT_STRUCT(PJRT_Executable_NumPartitions_Args, args);
  args.executable = raw_;
  ESPALIER_TRY(ESPALIER_PJRT_CALL(*plugin_, PJRT_Executable_NumPartitions, args));
  return static_cast<int64_t>(args.num_partitions);
}

Result<int64_t> Executable::num_outputs() const {
  ESPALIER_PJRT_STRUCT(PJRT_Executable_NumOutputs_Args, args);
  args.executable = raw_;
  ESPALIER_TRY(ESPALIER_PJRT_CALL(*plugin_, PJRT_Executable_NumOutputs, args));
  return static_cast<int64_t>(args.num_outputs);
}

Result<std::vector<Dims>> Executable::output_dims() const {
  ESPALIER_PJRT_STRUCT(PJRT_Executable_OutputDimensions_Args, args);
  args.executable = raw_;
  ESPALIER_TRY(ESPALIER_PJRT_CALL(*plugin_, PJRT_Executable_OutputDimensions, args));
  std::vector<Dims> out;
  const int64_t* next = args.dims;
  for (size_t i = 0; i < args.num_outputs; ++i) {
    out.emplace_back(next, next + args.dim_sizes[i]);
    next += args.dim_sizes[i];
  }
  return out;
}

Result<std::vector<DType>> Executable::output_dtypes() const {
  ESPALIER_PJRT_STRUCT(PJRT_Executable_OutputElementTypes_Args, args);
  args.executable = raw_;
  ESPALIER_TRY(ESPALIER_PJRT_CALL(*plugin_, PJRT_Executable_OutputElementTypes, args));
  std::vector<DType> out;
  for (size_t i = 0; i < args.num_output_types; ++i) {
    ESPALIER_ASSIGN(auto dtype, from_pjrt(args.output_types[i]));
    out.push_back(dtype);
  }
  return out;
}

Result<std::vector<std::string>> Executable::output_memory_kinds() const {
  ESPALIER_PJRT_STRUCT(PJRT_Executable_OutputMemoryKinds_Args, args);
  args.executable = raw_;
  ESPALIER_TRY(ESPALIER_PJRT_CALL(*plugin_, PJRT_Executable_OutputMemoryKinds, args));
  std::vector<std::string> out;
  for (size_t i = 0; i < args.num_outputs; ++i) {
    out.emplace_back(text_view(args.memory_kinds[i], args.memory_kind_sizes[i]));
  }
  return out;
}

Result<std::string> Executable::serialize() const {
  ESPALIER_PJRT_STRUCT(PJRT_Executable_Serialize_Args, args);
  args.executable = raw_;
  ESPALIER_TRY(ESPALIER_PJRT_CALL(*plugin_, PJRT_Executable_Serialize, args));
  std::string out(text_view(args.serialized_bytes, args.serialized_bytes_size));
  if (args.serialized_executable_deleter != nullptr) {
    args.serialized_executable_deleter(args.serialized_executable);
  }
  return out;
}

Result<std::string> Executable::fingerprint() const {
  ESPALIER_PJRT_STRUCT(PJRT_Executable_Fingerprint_Args, args);
  args.executable = raw_;
  ESPALIER_TRY(ESPALIER_PJRT_CALL(*plugin_, PJRT_Executable_Fingerprint, args));
  return std::string(text_view(args.executable_fingerprint, args.executable_fingerprint_size));
}

Result<OptimizedProgram> Executable::optimized_program() const {
  ESPALIER_PJRT_STRUCT(PJRT_Program, program);
  ESPALIER_PJRT_STRUCT(PJRT_Executable_OptimizedProgram_Args, args);
  args.executable = raw_;
  args.program = &program;
  // The first call tells the size, the second fills the bytes.
  ESPALIER_TRY(ESPALIER_PJRT_CALL(*plugin_, PJRT_Executable_OptimizedProgram, args));
  OptimizedProgram out;
  out.bytes.resize(program.code_size);
  program.code = out.bytes.data();
  ESPALIER_TRY(ESPALIER_PJRT_CALL(*plugin_, PJRT_Executable_OptimizedProgram, args));
  out.format = text_view(program.format, program.format_size);
  return out;
}

Result<CompiledMemoryStats> Executable::memory_stats() const {
  ESPALIER_PJRT_STRUCT(PJRT_Executable_GetCompiledMemoryStats_Args, args);
  args.executable = raw_;
  args.peak_memory_in_bytes = -1;  // stays when the plugin does not know the field
  ESPALIER_TRY(ESPALIER_PJRT_CALL(*plugin_, PJRT_Executable_GetCompiledMemoryStats, args));
  CompiledMemoryStats out;
  out.generated_code = args.generated_code_size_in_bytes;
  out.argument = args.argument_size_in_bytes;
  out.output = args.output_size_in_bytes;
  out.alias = args.alias_size_in_bytes;
  out.temp = args.temp_size_in_bytes;
  out.host_argument = args.host_argument_size_in_bytes;
  out.host_output = args.host_output_size_in_bytes;
  out.host_alias = args.host_alias_size_in_bytes;
  out.host_temp = args.host_temp_size_in_bytes;
  if (args.peak_memory_in_bytes >= 0) out.peak = args.peak_memory_in_bytes;
  return out;
}

Result<NamedValues> Executable::cost_analysis() const {
  ESPALIER_PJRT_STRUCT(PJRT_Executable_GetCostAnalysis_Args, args);
  args.executable = raw_;
  ESPALIER_TRY(ESPALIER_PJRT_CALL(*plugin_, PJRT_Executable_GetCostAnalysis, args));
  return from_pjrt({args.properties, args.num_properties});
}

}  // namespace espalier
