// Program: a function compiled for a mesh, ready to run on device arrays.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "espalier/ir/function.h"
#include "espalier/mesh/sharding_rules.h"
#include "espalier/runtime/device_array.h"

namespace espalier {

struct Argument {
  std::string name;  // for messages
  LayoutPtr layout;
};

struct ProgramSpec {
  std::string name = "program";
  Function function;
  std::vector<Argument> arguments;     // one per parameter
  std::vector<PartitionSpec> results;  // one per result
  // Per parameter: the result that takes over its memory; shorter than the parameters is allowed.
  std::vector<std::optional<int64_t>> donated;
  ShardingRules rules;

  // Sets `function` to what `body` makes of parameters of the arguments' types.
  void trace(const std::function<Tensors(const Tensors&)>& body);
};

// What compiling took and gave.
struct CompileReport {
  bool from_cache = false, from_file = false;
  double seconds = 0;
  size_t module_bytes = 0;  // of the StableHLO text
  std::string digest;       // program_digest of that text
};

struct SavedProgram;  // saved_program.h

// Runs may be started from one thread at a time.
class Program {
 public:
  // Starts a run and returns before it is done. Donated arguments become empty, also when the run
  // fails. An argument whose shape or split differs from what was compiled, or that lies on another
  // mesh, is kInvalidArgument, naming it and both layouts or meshes.
  Result<std::vector<DeviceArray>> run(std::span<DeviceArray* const> arguments);
  Result<std::vector<DeviceArray>> run(std::initializer_list<DeviceArray*> arguments) {
    return run(std::span<DeviceArray* const>(arguments.begin(), arguments.size()));
  }

  const CompileReport& report() const { return report_; }
  // What the plugin's own call took in the last run; a plugin may run small programs inside it.
  double execute_seconds() const { return execute_seconds_; }
  const Executable& executable() const { return executable_->executable(); }
  const std::vector<LayoutPtr>& result_layouts() const { return results_; }

 private:
  friend Result<Program> compile(const std::shared_ptr<Runtime>& runtime, ProgramSpec spec,
                                 const SavedProgram* saved);
  Program(std::shared_ptr<Runtime> runtime, std::string name, LoadedExecutable executable);

  std::shared_ptr<Runtime> runtime_;
  std::string name_;
  std::unique_ptr<LoadedExecutable> executable_;
  std::unique_ptr<ExecuteFrame> frame_;
  std::vector<Argument> arguments_;
  std::vector<LayoutPtr> results_;
  std::vector<bool> donated_;
  CompileReport report_;
  double execute_seconds_ = 0;
};

// Prints the function as StableHLO and compiles it, or loads it from the runtime's program cache.
// Throws Error where a dim is not divided evenly; a compiler's refusal is a failure. With `saved`
// that program is loaded, and nothing compiled; kInvalidArgument where it is another program than
// `spec` describes, or not for these devices.
Result<Program> compile(const std::shared_ptr<Runtime>& runtime, ProgramSpec spec,
                        const SavedProgram* saved = nullptr);

// Compiles, runs and gathers once: for tests and tools. Arguments are replicated.
Result<std::vector<HostArray>> run_once(const std::shared_ptr<Runtime>& runtime,
                                        const Function& function,
                                        const std::vector<HostArray>& arguments,
                                        const ShardingRules& rules = {});

}  // namespace espalier
