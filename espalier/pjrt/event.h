// Event: the completion of asynchronous work of a plugin.
#pragma once

#include <functional>
#include <memory>

#include "espalier/base/error.h"

struct PJRT_Event;

namespace espalier {

class Plugin;

// Owns a PJRT_Event. A default-constructed or moved-from event counts as complete without error.
// Destroying an event does not cancel its work, nor wait for it. Members may be called from several
// threads; moving and destroying need exclusion.
class Event {
 public:
  Event() = default;
  // Takes ownership of `event` (may be null). Plugins live as long as the process.
  Event(const Plugin* plugin, PJRT_Event* event) : plugin_(plugin), event_(event) {}
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  ~Event() { destroy(); }

  // Blocks until complete; the failure of the work, if any.
  Status await() const;
  // Whether complete (with or without error); does not block.
  Result<bool> ready() const;
  // Calls back once, with the work's status: from a plugin's thread, or from this one when the
  // event is complete already. The callback must not throw, nor block on the plugin's work. The
  // event itself may be destroyed before. On failure to register, the callback is not called.
  Status on_ready(std::function<void(Status)> callback) const;

  explicit operator bool() const { return event_ != nullptr; }

 private:
  void destroy();
  const Plugin* plugin_ = nullptr;
  PJRT_Event* event_ = nullptr;
};

}  // namespace espalier
