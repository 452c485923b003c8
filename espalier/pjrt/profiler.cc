#include "espalier/pjrt/profiler.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>

#include <cstddef>
#include <limits>
#include <utility>

#include "espalier/pjrt/call.h"
#include "espalier/pjrt/proto/profile_options.pb.h"
#include "xla/pjrt/c/pjrt_c_api_profiler_extension.h"

namespace espalier {
namespace {

// Null where the plugin has no profiler, or one without the functions that are used here.
const PLUGIN_Profiler_Api* profiler_api(const Plugin& plugin) {
  const auto* extension = reinterpret_cast<const PJRT_Profiler_Extension*>(
      plugin.extension(PJRT_Extension_Type_Profiler));
  constexpr size_t kExtension = offsetof(PJRT_Profiler_Extension, profiler_api) + sizeof(void*);
  if (extension == nullptr || extension->base.struct_size < kExtension) return nullptr;
  const PLUGIN_Profiler_Api* api = extension->profiler_api;
  constexpr size_t kTable = offsetof(PLUGIN_Profiler_Api, collect_data) + sizeof(void*);
  return api != nullptr && api->struct_size >= kTable ? api : nullptr;
}

Status check(const PLUGIN_Profiler_Api& api, PLUGIN_Profiler_Error* error, const char* function) {
  if (error == nullptr) return {};
  ESPALIER_PJRT_STRUCT(PLUGIN_Profiler_Error_Message_Args, message);
  message.error = error;
  api.error_message(&message);
  Failure failure{Code::kInternal, fmt::format("{}: {}", function,
                                               text_view(message.message, message.message_size))};
  ESPALIER_PJRT_STRUCT(PLUGIN_Profiler_Error_Destroy_Args, destroy);
  destroy.error = error;
  api.error_destroy(&destroy);
  return failure;
}

// Cuts off what stands behind the message: XLA's plugins hand out one byte more than they wrote
// (plugin_tracer_impl.cc), a zero, which readers of protobuf refuse. Every field of an XSpace has a
// length before it.
Status trim(std::string& bytes) {
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max())) {
    return Failure{Code::kResourceExhausted,
                   "the plugin's profile is larger than 2 GiB, more than its "
                   "format holds; profile fewer steps"};
  }
  const auto size = static_cast<int>(bytes.size());
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()), size);
  int end = 0;
  for (uint32_t tag = in.ReadTag(); tag % 8 == 2; tag = in.ReadTag()) {
    uint32_t length = 0;
    if (!in.ReadVarint32(&length) || !in.Skip(static_cast<int>(length))) break;
    end = in.CurrentPosition();
  }
  if (end < size - 1 || (end == size - 1 && bytes.back() != 0)) {
    return Failure{Code::kDataLoss,
                   fmt::format("the plugin's profile of {} bytes is no XSpace message from byte {} "
                               "on; use another build of the plugin",
                               size, end)};
  }
  bytes.resize(static_cast<size_t>(end));
  return {};
}

}  // namespace

bool Profiler::available(const Plugin& plugin) { return profiler_api(plugin) != nullptr; }

Result<Profiler> Profiler::create(const Plugin& plugin) {
  const PLUGIN_Profiler_Api* api = profiler_api(plugin);
  if (api == nullptr) {
    return Failure{
        Code::kUnimplemented,
        fmt::format("the plugin '{}' (PJRT C API {}.{}) has no profiler", plugin.path().string(),
                    plugin.api_version().major, plugin.api_version().minor)};
  }
  wire::ProfileOptions options;
  options.set_version(1);
  options.set_host_tracer_level(2);
  options.set_device_tracer_level(1);
  options.set_enable_hlo_proto(true);
  const std::string bytes = options.SerializeAsString();
  ESPALIER_PJRT_STRUCT(PLUGIN_Profiler_Create_Args, args);
  args.options = bytes.data();
  args.options_size = bytes.size();
  ESPALIER_TRY(check(*api, api->create(&args), "PLUGIN_Profiler_Create"));
  return Profiler(api, args.profiler);
}

Profiler::Profiler(Profiler&& other) noexcept
    : api_(other.api_), raw_(std::exchange(other.raw_, nullptr)) {}

Profiler::~Profiler() {
  if (raw_ == nullptr) return;
  ESPALIER_PJRT_STRUCT(PLUGIN_Profiler_Destroy_Args, args);
  args.profiler = raw_;
  (void)check(*api_, api_->destroy(&args), "PLUGIN_Profiler_Destroy");
}

Status Profiler::start() {
  ESPALIER_PJRT_STRUCT(PLUGIN_Profiler_Start_Args, args);
  args.profiler = raw_;
  return check(*api_, api_->start(&args), "PLUGIN_Profiler_Start");
}

Status Profiler::stop() {
  ESPALIER_PJRT_STRUCT(PLUGIN_Profiler_Stop_Args, args);
  args.profiler = raw_;
  return check(*api_, api_->stop(&args), "PLUGIN_Profiler_Stop");
}

Result<std::string> Profiler::collect() {
  ESPALIER_PJRT_STRUCT(PLUGIN_Profiler_CollectData_Args, args);
  args.profiler = raw_;
  ESPALIER_TRY(check(*api_, api_->collect_data(&args), "PLUGIN_Profiler_CollectData"));
  std::string bytes;
  if (args.buffer != nullptr) {
    // XLA's own plugins give a buffer of theirs at once, and nothing at a second call.
    bytes.assign(reinterpret_cast<const char*>(args.buffer), args.buffer_size_in_bytes);
  } else if (args.buffer_size_in_bytes > 0) {
    bytes.resize(args.buffer_size_in_bytes);
    args.buffer = reinterpret_cast<uint8_t*>(bytes.data());
    ESPALIER_TRY(check(*api_, api_->collect_data(&args), "PLUGIN_Profiler_CollectData"));
  }
  ESPALIER_TRY(trim(bytes));
  return bytes;
}

}  // namespace espalier
