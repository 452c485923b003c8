#include "espalier/pjrt/event.h"

#include <utility>

#include "espalier/pjrt/call.h"

namespace espalier {
namespace {

struct Callback {
  const Plugin* plugin;
  std::function<void(Status)> function;
};

void run_callback(PJRT_Error* error, void* argument) {
  const std::unique_ptr<Callback> callback(static_cast<Callback*>(argument));
  Status status;
  if (error != nullptr) status = take_error(*callback->plugin->api(), error, "asynchronous work");
  callback->function(std::move(status));
}

}  // namespace

Event::Event(Event&& other) noexcept
    : plugin_(other.plugin_), event_(std::exchange(other.event_, nullptr)) {}

Event& Event::operator=(Event&& other) noexcept {
  if (this != &other) {
    destroy();
    plugin_ = other.plugin_;
    event_ = std::exchange(other.event_, nullptr);
  }
  return *this;
}

void Event::destroy() {
  if (event_ == nullptr) return;
  ESPALIER_PJRT_STRUCT(PJRT_Event_Destroy_Args, args);
  args.event = std::exchange(event_, nullptr);
  (void)ESPALIER_PJRT_CALL(*plugin_, PJRT_Event_Destroy, args);
}

Status Event::await() const {
  if (event_ == nullptr) return {};
  ESPALIER_PJRT_STRUCT(PJRT_Event_Await_Args, args);
  args.event = event_;
  return ESPALIER_PJRT_CALL(*plugin_, PJRT_Event_Await, args);
}

Result<bool> Event::ready() const {
  if (event_ == nullptr) return true;
  ESPALIER_PJRT_STRUCT(PJRT_Event_IsReady_Args, args);
  args.event = event_;
  ESPALIER_TRY(ESPALIER_PJRT_CALL(*plugin_, PJRT_Event_IsReady, args));
  return args.is_ready;
}

Status Event::on_ready(std::function<void(Status)> callback) const {
  if (event_ == nullptr) {
    callback({});
    return {};
  }
  auto argument = std::make_unique<Callback>(Callback{plugin_, std::move(callback)});
  ESPALIER_PJRT_STRUCT(PJRT_Event_OnReady_Args, args);
  args.event = event_;
  args.callback = run_callback;
  args.user_arg = argument.get();
  ESPALIER_TRY(ESPALIER_PJRT_CALL(*plugin_, PJRT_Event_OnReady, args));
  argument.release();  // run_callback owns it from here
  return {};
}

}  // namespace espalier
