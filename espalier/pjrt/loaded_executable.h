// LoadedExecutable: a program on its devices, ready to run; ExecuteFrame: the arguments and results
// of a run, in memory that is used again.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "espalier/base/error.h"
#include "espalier/pjrt/buffer.h"
#include "espalier/pjrt/event.h"
#include "espalier/pjrt/executable.h"

struct PJRT_Event;
struct PJRT_LoadedExecutable;

namespace espalier {

class Client;
class Device;

// Argument and result slots [device][index], devices in the order of LoadedExecutable::devices().
// Made once and used for every step: a run through a frame allocates nothing of ours. Arguments are
// borrowed: the buffers set must live until execute() returns. Results not taken are destroyed with
// the frame or before its next run. Not thread-safe; several frames may run at once.
class ExecuteFrame {
 public:
  ExecuteFrame(std::shared_ptr<Client> client, size_t num_devices, size_t num_arguments,
               size_t num_outputs);
  ExecuteFrame(ExecuteFrame&&) noexcept = default;
  ExecuteFrame& operator=(ExecuteFrame&&) = delete;
  ~ExecuteFrame() { drop_results(); }

  size_t num_devices() const { return num_devices_; }
  size_t num_arguments() const { return num_arguments_; }
  size_t num_outputs() const { return num_outputs_; }

  void set_argument(size_t device, size_t index, const Buffer& buffer) {
    arguments_[device * num_arguments_ + index] = buffer.raw();
  }
  // The result of the last run; invalid when taken before or when that run failed.
  Buffer take_output(size_t device, size_t index) {
    PJRT_Buffer*& slot = outputs_[device * num_outputs_ + index];
    return slot == nullptr ? Buffer() : Buffer(client_, std::exchange(slot, nullptr));
  }
  // Complete when the device has run the program; only when ExecuteOptions asked for it.
  Event take_event(size_t device);

 private:
  friend class LoadedExecutable;
  void drop_results();

  std::shared_ptr<Client> client_;
  size_t num_devices_, num_arguments_, num_outputs_;
  std::vector<PJRT_Buffer*> arguments_, outputs_;
  std::vector<PJRT_Buffer* const*> argument_lists_;
  std::vector<PJRT_Buffer**> output_lists_;
  std::vector<PJRT_Event*> events_;
};

struct ExecuteOptions {
  // Arguments that the program may take over but must not this time (used elsewhere too).
  std::span<const int64_t> non_donatable = {};
  bool completion_events = false;
  // Non-zero: the same on every process of a launch, so that a runtime can notice a mix-up.
  int launch_id = 0;
};

// Owns a PJRT_LoadedExecutable and keeps its client alive. Thread-safe but for moving and
// destroying.
class LoadedExecutable {
 public:
  // Takes ownership of `raw`, also when it fails.
  static Result<LoadedExecutable> wrap(std::shared_ptr<Client> client, PJRT_LoadedExecutable* raw);
  LoadedExecutable(LoadedExecutable&& other) noexcept;
  LoadedExecutable& operator=(LoadedExecutable&&) = delete;
  ~LoadedExecutable();

  // Addressable devices it runs on, in the order of frames' first index.
  const std::vector<const Device*>& devices() const { return devices_; }
  size_t num_outputs() const { return num_outputs_; }
  const Executable& executable() const { return executable_; }
  const std::shared_ptr<Client>& client() const { return client_; }

  ExecuteFrame make_frame(size_t num_arguments) const;

  // Starts a run on all devices and returns; results are usable at once as arguments, and an error
  // on a device comes out of their ready events. Donated arguments (jax.buffer_donor or
  // tf.aliasing_output in the module) become deleted. Argument counts and shapes are checked by the
  // plugin.
  Status execute(ExecuteFrame& frame, const ExecuteOptions& options = {}) const;

  // The same for single runs: arguments[device][index], results[device][index].
  Result<std::vector<std::vector<Buffer>>> execute(
      const std::vector<std::vector<const Buffer*>>& arguments,
      const ExecuteOptions& options = {}) const;

 private:
  LoadedExecutable(std::shared_ptr<Client> client, PJRT_LoadedExecutable* raw,
                   Executable executable, std::vector<const Device*> devices, size_t num_outputs);
  std::shared_ptr<Client> client_;
  PJRT_LoadedExecutable* raw_;
  Executable executable_;
  std::vector<const Device*> devices_;
  size_t num_outputs_;
};

}  // namespace espalier
