// How espalier/pjrt calls the C API: argument structs with their size set, a check that the plugin
// has the function, errors as Status. Included by the .cc files of this folder only, so that no
// other folder sees the C headers.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/base/dtype.h"
#include "espalier/base/error.h"
#include "espalier/pjrt/named_value.h"
#include "espalier/pjrt/plugin.h"
#include "xla/pjrt/c/pjrt_c_api.h"

// Declares a zeroed C struct with struct_size set. Outputs that an older plugin does not know of
// therefore read as zero or null, unless the caller stores another default first.
#define ESPALIER_PJRT_STRUCT(Type, name) \
  Type name{};                           \
  name.struct_size = Type##_STRUCT_SIZE

// Calls api->function(&args) and gives a Status.
#define ESPALIER_PJRT_CALL(plugin, function, args) \
  ::espalier::pjrt_call<&PJRT_Api::function>(plugin, #function, &(args))

namespace espalier {

// Whether the function lies within the plugin's table and is set. The member is not read when it
// lies beyond the end.
template <auto kMember>
bool has_function(const PJRT_Api& api) {
  const auto* begin = reinterpret_cast<const char*>(&api);
  const auto* end = reinterpret_cast<const char*>(&(api.*kMember)) + sizeof(api.*kMember);
  return static_cast<size_t>(end - begin) <= api.struct_size && api.*kMember != nullptr;
}

// kUnimplemented, naming the function and the plugin with its version.
Failure missing_function(const Plugin& plugin, const char* function);

// Takes the error's code and message, and frees it. "FUNCTION: MESSAGE".
Failure take_error(const PJRT_Api& api, PJRT_Error* error, const char* function);

template <auto kMember, class Args>
Status pjrt_call(const Plugin& plugin, const char* name, Args* args) {
  const PJRT_Api& api = *plugin.api();
  if (!has_function<kMember>(api)) return missing_function(plugin, name);
  if (PJRT_Error* error = (api.*kMember)(args)) return take_error(api, error, name);
  return {};
}

// "CONTEXT: MESSAGE", same code.
Failure with_context(std::string_view context, const Failure& failure);

PJRT_Buffer_Type to_pjrt(DType dtype);
// kUnimplemented for element types that Espalier does not have (complex, float8, int4, tokens).
Result<DType> from_pjrt(PJRT_Buffer_Type type);

// Views of the values' names and contents, which must outlive the result.
std::vector<PJRT_NamedValue> to_pjrt(const NamedValues& values);
NamedValues from_pjrt(std::span<const PJRT_NamedValue> values);

inline std::string_view text_view(const char* text, size_t size) {
  return text == nullptr ? std::string_view() : std::string_view(text, size);
}

}  // namespace espalier
