#include "espalier/pjrt/loaded_executable.h"

#include <fmt/format.h>

#include <algorithm>

#include "espalier/pjrt/call.h"
#include "espalier/pjrt/client.h"

namespace espalier {
namespace {

void destroy_loaded(const Plugin& plugin, PJRT_LoadedExecutable* raw) {
  ESPALIER_PJRT_STRUCT(PJRT_LoadedExecutable_Destroy_Args, args);
  args.executable = raw;
  (void)ESPALIER_PJRT_CALL(plugin, PJRT_LoadedExecutable_Destroy, args);
}

}  // namespace

ExecuteFrame::ExecuteFrame(std::shared_ptr<Client> client, size_t num_devices, size_t num_arguments,
                           size_t num_outputs)
    : client_(std::move(client)),
      num_devices_(num_devices),
      num_arguments_(num_arguments),
      num_outputs_(num_outputs),
      arguments_(num_devices * num_arguments),
      outputs_(num_devices * num_outputs),
      events_(num_devices) {
  for (size_t device = 0; device < num_devices; ++device) {
    argument_lists_.push_back(arguments_.data() + device * num_arguments);
    output_lists_.push_back(outputs_.data() + device * num_outputs);
  }
}

void ExecuteFrame::drop_results() {
  for (PJRT_Buffer*& each : outputs_) {
    if (each != nullptr) Buffer(client_, std::exchange(each, nullptr));
  }
  for (size_t device = 0; device < events_.size(); ++device) take_event(device);
}

Event ExecuteFrame::take_event(size_t device) {
  return Event(&client_->plugin(), std::exchange(events_[device], nullptr));
}

LoadedExecutable::LoadedExecutable(std::shared_ptr<Client> client, PJRT_LoadedExecutable* raw,
                                   Executable executable, std::vector<const Device*> devices,
                                   size_t num_outputs)
    : client_(std::move(client)),
      raw_(raw),
      executable_(std::move(executable)),
      devices_(std::move(devices)),
      num_outputs_(num_outputs) {}

LoadedExecutable::LoadedExecutable(LoadedExecutable&& other) noexcept
    : client_(std::move(other.client_)),
      raw_(std::exchange(other.raw_, nullptr)),
      executable_(std::move(other.executable_)),
      devices_(std::move(other.devices_)),
      num_outputs_(other.num_outputs_) {}

LoadedExecutable::~LoadedExecutable() {
  if (raw_ != nullptr) destroy_loaded(client_->plugin(), raw_);
}

Result<LoadedExecutable> LoadedExecutable::wrap(std::shared_ptr<Client> client,
                                                PJRT_LoadedExecutable* raw) {
  const Plugin& plugin = client->plugin();
  ESPALIER_PJRT_STRUCT(PJRT_LoadedExecutable_GetExecutable_Args, get);
  get.loaded_executable = raw;
  if (auto status = ESPALIER_PJRT_CALL(plugin, PJRT_LoadedExecutable_GetExecutable, get); !status) {
    destroy_loaded(plugin, raw);
    return status.failure();
  }
  // From here the object owns `raw`, so that every way out frees it.
  LoadedExecutable out(client, raw, Executable(&plugin, client, get.executable), {}, 0);
  ESPALIER_ASSIGN(const int64_t num_outputs, out.executable_.num_outputs());
  out.num_outputs_ = static_cast<size_t>(num_outputs);
  ESPALIER_PJRT_STRUCT(PJRT_LoadedExecutable_AddressableDevices_Args, devices);
  devices.executable = raw;
  ESPALIER_TRY(ESPALIER_PJRT_CALL(plugin, PJRT_LoadedExecutable_AddressableDevices, devices));
  for (size_t i = 0; i < devices.num_addressable_devices; ++i) {
    ESPALIER_ASSIGN(const Device* device, client->device_of(devices.addressable_devices[i]));
    out.devices_.push_back(device);
  }
  return out;
}

ExecuteFrame LoadedExecutable::make_frame(size_t num_arguments) const {
  return ExecuteFrame(client_, devices_.size(), num_arguments, num_outputs_);
}

Status LoadedExecutable::execute(ExecuteFrame& frame, const ExecuteOptions& options) const {
  if (frame.num_devices_ != devices_.size() || frame.num_outputs_ != num_outputs_) {
    return Failure{
        Code::kInvalidArgument,
        fmt::format("the frame is for {} devices with {} outputs, the program has {} "
                    "with {}; make it with make_frame() of the same program",
                    frame.num_devices_, frame.num_outputs_, devices_.size(), num_outputs_)};
  }
  const auto& arguments = frame.arguments_;
  if (auto it = std::find(arguments.begin(), arguments.end(), nullptr); it != arguments.end()) {
    const auto index = static_cast<size_t>(it - arguments.begin());
    return Failure{Code::kInvalidArgument,
                   fmt::format("argument {} on device {} is not set, or its buffer is empty",
                               index % frame.num_arguments_, index / frame.num_arguments_)};
  }
  frame.drop_results();

  ESPALIER_PJRT_STRUCT(PJRT_ExecuteOptions, execute_options);
  execute_options.launch_id = options.launch_id;
  execute_options.non_donatable_input_indices = options.non_donatable.data();
  execute_options.num_non_donatable_input_indices = options.non_donatable.size();
  ESPALIER_PJRT_STRUCT(PJRT_LoadedExecutable_Execute_Args, args);
  args.executable = raw_;
  args.options = &execute_options;
  args.argument_lists = frame.argument_lists_.data();
  args.num_devices = frame.num_devices_;
  args.num_args = frame.num_arguments_;
  args.output_lists = frame.output_lists_.data();
  if (options.completion_events) args.device_complete_events = frame.events_.data();
  return ESPALIER_PJRT_CALL(client_->plugin(), PJRT_LoadedExecutable_Execute, args);
}

Result<std::vector<std::vector<Buffer>>> LoadedExecutable::execute(
    const std::vector<std::vector<const Buffer*>>& arguments, const ExecuteOptions& options) const {
  const size_t num_arguments = arguments.empty() ? 0 : arguments.front().size();
  if (arguments.size() != devices_.size() ||
      std::any_of(arguments.begin(), arguments.end(),
                  [&](const auto& each) { return each.size() != num_arguments; })) {
    return Failure{Code::kInvalidArgument,
                   fmt::format("execute needs one argument list for each of {} devices, all of one "
                               "length; got {} lists",
                               devices_.size(), arguments.size())};
  }
  ExecuteFrame frame = make_frame(num_arguments);
  for (size_t device = 0; device < arguments.size(); ++device) {
    for (size_t i = 0; i < num_arguments; ++i) frame.set_argument(device, i, *arguments[device][i]);
  }
  ESPALIER_TRY(execute(frame, options));
  std::vector<std::vector<Buffer>> out(devices_.size());
  for (size_t device = 0; device < out.size(); ++device) {
    for (size_t i = 0; i < num_outputs_; ++i) out[device].push_back(frame.take_output(device, i));
  }
  return out;
}

}  // namespace espalier
