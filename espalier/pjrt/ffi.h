// Custom calls: functions of this process that a compiled program calls.
#pragma once

#include <string_view>

#include "espalier/base/error.h"
#include "espalier/pjrt/plugin.h"

struct XLA_FFI_CallFrame;
struct XLA_FFI_Error;

namespace espalier {

// A handler as xla/ffi/api/ffi.h makes it (XLA_FFI_DEFINE_HANDLER_SYMBOL). With several devices it
// is called once for each, from several threads at once.
using FfiHandler = XLA_FFI_Error*(XLA_FFI_CallFrame*);

// Makes `handler` the target `name` of custom calls with api_version = 4 on a platform ("Host",
// "CUDA"), for all clients of the plugin until the process ends. Registering the same pair twice is
// no error; another handler under a taken name is kAlreadyExists. Register before compiling.
// Thread-safe.
// kUnimplemented: the plugin has no FFI extension.
Status register_ffi_handler(const Plugin& plugin, std::string_view name, std::string_view platform,
                            FfiHandler* handler);

}  // namespace espalier
