// Buffer: an array in a device's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "espalier/base/dtype.h"
#include "espalier/base/error.h"
#include "espalier/base/host_array.h"
#include "espalier/pjrt/event.h"

struct PJRT_Buffer;

namespace espalier {

class Client;
class Device;
class Memory;

// How long the plugin may read the caller's memory in Client::buffer_from_host().
enum class HostSemantics {
  kOnlyDuringCall,          // copied before the call returns
  kUntilTransferCompletes,  // until `done`; the caller keeps it alive and unchanged
  kZeroCopy,                // the buffer may be the caller's memory, until `done`; never written
  kMutableZeroCopy,         // the same, and the plugin may write it (donation)
};

// Owns a PJRT_Buffer and keeps its client alive. 24 bytes; asks the plugin for shape and type only
// when they are wanted. Contents are immutable, so reading from several threads is safe; moving,
// remove() and destroying need exclusion. Destroying frees the device memory once pending work has
// ended. Calls other than valid() and raw() need valid().
class Buffer {
 public:
  Buffer() = default;
  // Takes ownership of `raw`.
  Buffer(std::shared_ptr<Client> client, PJRT_Buffer* raw)
      : client_(std::move(client)), raw_(raw) {}
  Buffer(Buffer&& other) noexcept
      : client_(std::move(other.client_)), raw_(std::exchange(other.raw_, nullptr)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) {
      reset();
      client_ = std::move(other.client_);
      raw_ = std::exchange(other.raw_, nullptr);
    }
    return *this;
  }
  ~Buffer() { reset(); }

  bool valid() const { return raw_ != nullptr; }
  PJRT_Buffer* raw() const { return raw_; }
  const std::shared_ptr<Client>& client() const { return client_; }

  Result<Dims> dims() const;
  Result<DType> dtype() const;
  Result<size_t> on_device_bytes() const;
  Result<const Device*> device() const;
  Result<const Memory*> memory() const;
  // Platform-dependent address, to compare before and after a donation.
  Result<uintptr_t> unsafe_pointer() const;

  // Complete when the contents are there, or with the failure of the work that makes them.
  Result<Event> ready_event() const;

  // Starts copying the contents, dense and row-major, to `destination`, which must hold
  // `size` >= elements × element size bytes and stay alive until the event is complete.
  Result<Event> to_host(void* destination, size_t size) const;
  // The same, waiting, into a new array.
  Result<HostArray> to_host() const;

  // Copies within the client; an error when the buffer lies there already.
  Result<Buffer> copy_to_device(const Device& device) const;
  Result<Buffer> copy_to_memory(const Memory& memory) const;

  // Gives the device memory back now; afterwards only is_deleted() may be called.
  Status remove();
  // True after remove() and after a donation.
  Result<bool> is_deleted() const;

 private:
  void reset() {
    if (raw_ != nullptr) destroy();
  }
  void destroy();

  std::shared_ptr<Client> client_;
  PJRT_Buffer* raw_ = nullptr;
};

// A buffer under way to the device.
struct HostTransfer {
  Buffer buffer;
  Event done;  // complete when the caller's memory is no longer needed
};

}  // namespace espalier
