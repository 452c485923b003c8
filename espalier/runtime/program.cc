#include "espalier/runtime/program.h"

#include <chrono>
#include <cstdlib>

#include "espalier/base/file.h"
#include "espalier/base/log.h"
#include "espalier/base/sha256.h"
#include "espalier/runtime/module_text.h"
#include "espalier/runtime/program_cache.h"
#include "espalier/runtime/saved_program.h"

namespace espalier {
namespace {

// What a plugin calls an invalid argument is a module of ours, not the user's input.
Code not_usage(Code code) { return code == Code::kInvalidArgument ? Code::kInternal : code; }

std::string cache_key(const Runtime& runtime, std::string_view module, std::string_view options) {
  Sha256 digest;
  const auto add = [&](std::string_view part) {
    digest.update(std::to_string(part.size()) + ":");
    digest.update(part);
  };
  add(module);
  add(options);
  add(runtime.client().platform_name());
  add(runtime.client().platform_version());
  add(runtime.client().plugin().fingerprint());
  for (const Device* device : runtime.devices()) add(device->kind());
  // The compiler reads options of its own from here: flags, or the name of a file of flags.
  if (const char* flags = std::getenv("XLA_FLAGS"); flags != nullptr && *flags != '\0') {
    add(flags);
    const Result<std::string> file = *flags == '-' ? std::string() : read_file(flags);
    if (file.ok()) add(*file);
  }
  if (runtime.client().platform_name() == "cpu") add(host_cpu_features());
  return digest.hex();
}

// From the cache, or compiled and put there. A cache that cannot be read or written costs time, not
// the run.
Result<LoadedExecutable> load_or_compile(Runtime& runtime, const std::string& module,
                                         CompileReport& report) {
  Client& client = runtime.client();
  const CompileOptions options =
      compile_options(client.platform_name(), runtime.mesh(), runtime.device_ids());
  const auto& folder = runtime.options().program_cache;
  if (folder.empty()) return client.compile(module, options);

  ESPALIER_ASSIGN(const std::string serialized, options.serialize());
  const std::string key = cache_key(runtime, module, serialized);
  const ProgramCache cache(folder);
  if (const auto program = cache.load(key)) {
    Result<LoadedExecutable> loaded = client.deserialize_and_load(*program);
    if (loaded.ok()) {
      report.from_cache = true;
      return loaded;
    }
    err().warn("the kept program is not usable and is compiled again: {}",
               loaded.failure().message);
  }
  ESPALIER_ASSIGN(LoadedExecutable compiled, client.compile(module, options));
  const Result<std::string> program = compiled.executable().serialize();
  if (program.ok()) {
    if (const Status stored = cache.store(key, *program); !stored) {
      err().warn("the compiled program is not kept: {}", stored.failure().message);
    }
  } else if (program.failure().code != Code::kUnimplemented) {
    err().warn("the compiled program is not kept: {}", program.failure().message);
  }
  return compiled;
}

}  // namespace

void ProgramSpec::trace(const std::function<Tensors(const Tensors&)>& body) {
  std::vector<TensorType> types;
  for (const Argument& argument : arguments) types.push_back(argument.layout->type);
  function = espalier::trace(types, body);
}

Program::Program(std::shared_ptr<Runtime> runtime, std::string name, LoadedExecutable executable)
    : runtime_(std::move(runtime)),
      name_(std::move(name)),
      executable_(std::make_unique<LoadedExecutable>(std::move(executable))) {}

Result<Program> compile(const std::shared_ptr<Runtime>& runtime, ProgramSpec spec,
                        const SavedProgram* saved) {
  const auto start = std::chrono::steady_clock::now();
  const std::string module = module_text(spec, runtime->mesh());
  CompileReport report;
  report.module_bytes = module.size();
  report.digest = program_digest(module);
  if (saved != nullptr) {
    ESPALIER_TRY(check_saved(*saved, runtime->client().plugin(), runtime->client().platform_name(),
                             runtime->mesh(), report.digest));
    report.from_file = true;
  }
  Result<LoadedExecutable> loaded = saved == nullptr
                                        ? load_or_compile(*runtime, module, report)
                                        : runtime->client().deserialize_and_load(saved->bytes);
  if (!loaded.ok()) {
    return Failure{not_usage(loaded.failure().code),
                   (saved == nullptr ? "compiling '" : "loading '") + spec.name +
                       "' failed: " + loaded.failure().message};
  }
  Program program(runtime, std::move(spec.name), std::move(loaded).value());
  const auto& on = program.executable_->devices();
  for (size_t d = 0; d < on.size(); ++d) {
    if (on.size() != runtime->devices().size() || on[d]->id() != runtime->devices()[d]->id()) {
      return Failure{Code::kInternal,
                     "the plugin placed '" + program.name_ + "' on other devices than the mesh's"};
    }
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  program.report_ = report;
  program.frame_ =
      std::make_unique<ExecuteFrame>(program.executable_->make_frame(spec.arguments.size()));
  program.arguments_ = std::move(spec.arguments);
  for (size_t i = 0; i < spec.results.size(); ++i) {
    program.results_.push_back(
        make_layout(spec.function.results[i].type(), std::move(spec.results[i])));
  }
  for (size_t i = 0; i < program.arguments_.size(); ++i) {
    const bool donated = i < spec.donated.size() && spec.donated[i].has_value();
    program.donated_.push_back(donated);
    // One layout object for both makes the check in run() a comparison of pointers.
    if (donated) {
      auto& result = program.results_[static_cast<size_t>(*spec.donated[i])];
      if (*result == *program.arguments_[i].layout) result = program.arguments_[i].layout;
    }
  }
  return program;
}

Result<std::vector<DeviceArray>> Program::run(std::span<DeviceArray* const> arguments) {
  if (arguments.size() != arguments_.size()) {
    return Failure{Code::kInvalidArgument,
                   "'" + name_ + "' takes " + std::to_string(arguments_.size()) +
                       " arguments, got " + std::to_string(arguments.size())};
  }
  const size_t devices = executable_->devices().size();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const DeviceArray& array = *arguments[i];
    const Argument& wanted = arguments_[i];
    if (array.empty()) {
      return Failure{Code::kInvalidArgument, "argument '" + wanted.name + "' of '" + name_ +
                                                 "' is empty; was it donated to an earlier run?"};
    }
    if (array.runtime() != runtime_.get() && array.runtime()->mesh() != runtime_->mesh()) {
      return Failure{Code::kInvalidArgument,
                     "argument '" + wanted.name + "' of '" + name_ + "' lies on the mesh " +
                         array.runtime()->mesh().to_string() + " as " + to_string(*array.layout()) +
                         ", but is compiled for the mesh " + runtime_->mesh().to_string() + " as " +
                         to_string(*wanted.layout)};
    }
    if (array.layout() != wanted.layout && *array.layout() != *wanted.layout) {
      return Failure{Code::kInvalidArgument, "argument '" + wanted.name + "' of '" + name_ +
                                                 "' is compiled for " + to_string(*wanted.layout) +
                                                 ", got " + to_string(*array.layout())};
    }
    for (size_t d = 0; d < devices; ++d) frame_->set_argument(d, i, array.shards()[d]);
  }
  const auto start = std::chrono::steady_clock::now();
  const Status status = executable_->execute(*frame_);
  execute_seconds_ =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (donated_[i]) *arguments[i] = DeviceArray();
  }
  if (!status) {
    return Failure{not_usage(status.failure().code),
                   "running '" + name_ + "' failed: " + status.failure().message};
  }
  std::vector<DeviceArray> out;
  out.reserve(results_.size());
  for (size_t i = 0; i < results_.size(); ++i) {
    std::vector<Buffer> shards;
    shards.reserve(devices);
    for (size_t d = 0; d < devices; ++d) shards.push_back(frame_->take_output(d, i));
    out.emplace_back(runtime_, results_[i], std::move(shards));
  }
  return out;
}

Result<std::vector<HostArray>> run_once(const std::shared_ptr<Runtime>& runtime,
                                        const Function& function,
                                        const std::vector<HostArray>& arguments,
                                        const ShardingRules& rules) {
  ProgramSpec spec;
  spec.name = "once";
  spec.function = function;
  spec.rules = rules;
  std::vector<DeviceArray> arrays;
  for (size_t i = 0; i < arguments.size(); ++i) {
    ESPALIER_ASSIGN(DeviceArray array, DeviceArray::from_host(runtime, arguments[i], {}));
    spec.arguments.push_back({"argument " + std::to_string(i), array.layout()});
    arrays.push_back(std::move(array));
  }
  spec.results.assign(function.results.size(), {});
  ESPALIER_ASSIGN(Program program, compile(runtime, std::move(spec)));
  std::vector<DeviceArray*> pointers;
  for (DeviceArray& array : arrays) pointers.push_back(&array);
  ESPALIER_ASSIGN(const std::vector<DeviceArray> results, program.run(pointers));
  std::vector<HostArray> out;
  for (const DeviceArray& array : results) {
    ESPALIER_ASSIGN(HostArray host, array.to_host());
    out.push_back(std::move(host));
  }
  return out;
}

}  // namespace espalier
