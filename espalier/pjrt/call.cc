#include "espalier/pjrt/call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace espalier {
namespace {

Code to_code(PJRT_Error_Code code) {
  switch (code) {
    case PJRT_Error_Code_CANCELLED:
      return Code::kCancelled;
    case PJRT_Error_Code_INVALID_ARGUMENT:
    case PJRT_Error_Code_OUT_OF_RANGE:
      return Code::kInvalidArgument;
    case PJRT_Error_Code_NOT_FOUND:
      return Code::kNotFound;
    case PJRT_Error_Code_ALREADY_EXISTS:
      return Code::kAlreadyExists;
    case PJRT_Error_Code_RESOURCE_EXHAUSTED:
      return Code::kResourceExhausted;
    case PJRT_Error_Code_PERMISSION_DENIED:
    case PJRT_Error_Code_UNAUTHENTICATED:
    case PJRT_Error_Code_FAILED_PRECONDITION:
      return Code::kFailedPrecondition;
    case PJRT_Error_Code_DEADLINE_EXCEEDED:
    case PJRT_Error_Code_ABORTED:
    case PJRT_Error_Code_UNAVAILABLE:
      return Code::kUnavailable;
    case PJRT_Error_Code_UNIMPLEMENTED:
      return Code::kUnimplemented;
    case PJRT_Error_Code_DATA_LOSS:
      return Code::kDataLoss;
    default:
      return Code::kInternal;
  }
}

}  // namespace

Failure missing_function(const Plugin& plugin, const char* function) {
  return {Code::kUnimplemented,
          fmt::format("the plugin '{}' (PJRT C API {}.{}) has no function {}; use a newer plugin",
                      plugin.path().string(), plugin.api_version().major,
                      plugin.api_version().minor, function)};
}

Failure take_error(const PJRT_Api& api, PJRT_Error* error, const char* function) {
  ESPALIER_PJRT_STRUCT(PJRT_Error_Message_Args, message);
  message.error = error;
  api.PJRT_Error_Message(&message);
  ESPALIER_PJRT_STRUCT(PJRT_Error_GetCode_Args, code);
  code.error = error;
  code.code = PJRT_Error_Code_UNKNOWN;
  PJRT_Error* nested = api.PJRT_Error_GetCode(&code);
  Failure failure{
      to_code(code.code),
      fmt::format("{}: {}", function, text_view(message.message, message.message_size))};
  for (PJRT_Error* each : {error, nested}) {
    ESPALIER_PJRT_STRUCT(PJRT_Error_Destroy_Args, destroy);
    destroy.error = each;
    if (each != nullptr) api.PJRT_Error_Destroy(&destroy);
  }
  return failure;
}

Failure with_context(std::string_view context, const Failure& failure) {
  return {failure.code, fmt::format("{}: {}", context, failure.message)};
}

PJRT_Buffer_Type to_pjrt(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return PJRT_Buffer_Type_PRED;
    case DType::kS8:
      return PJRT_Buffer_Type_S8;
    case DType::kS16:
      return PJRT_Buffer_Type_S16;
    case DType::kS32:
      return PJRT_Buffer_Type_S32;
    case DType::kS64:
      return PJRT_Buffer_Type_S64;
    case DType::kU8:
      return PJRT_Buffer_Type_U8;
    case DType::kU16:
      return PJRT_Buffer_Type_U16;
    case DType::kU32:
      return PJRT_Buffer_Type_U32;
    case DType::kU64:
      return PJRT_Buffer_Type_U64;
    case DType::kF16:
      return PJRT_Buffer_Type_F16;
    case DType::kBF16:
      return PJRT_Buffer_Type_BF16;
    case DType::kF32:
      return PJRT_Buffer_Type_F32;
    case DType::kF64:
      return PJRT_Buffer_Type_F64;
  }
  return PJRT_Buffer_Type_INVALID;
}

Result<DType> from_pjrt(PJRT_Buffer_Type type) {
  switch (type) {
    case PJRT_Buffer_Type_PRED:
      return DType::kBool;
    case PJRT_Buffer_Type_S8:
      return DType::kS8;
    case PJRT_Buffer_Type_S16:
      return DType::kS16;
    case PJRT_Buffer_Type_S32:
      return DType::kS32;
    case PJRT_Buffer_Type_S64:
      return DType::kS64;
    case PJRT_Buffer_Type_U8:
      return DType::kU8;
    case PJRT_Buffer_Type_U16:
      return DType::kU16;
    case PJRT_Buffer_Type_U32:
      return DType::kU32;
    case PJRT_Buffer_Type_U64:
      return DType::kU64;
    case PJRT_Buffer_Type_F16:
      return DType::kF16;
    case PJRT_Buffer_Type_BF16:
      return DType::kBF16;
    case PJRT_Buffer_Type_F32:
      return DType::kF32;
    case PJRT_Buffer_Type_F64:
      return DType::kF64;
    default:
      return Failure{Code::kUnimplemented,
                     fmt::format("a device array has the PJRT element type {}, which Espalier does "
                                 "not know; convert it inside the program",
                                 static_cast<int>(type))};
  }
}

std::vector<PJRT_NamedValue> to_pjrt(const NamedValues& values) {
  std::vector<PJRT_NamedValue> out;
  for (const auto& [name, value] : values) {
    ESPALIER_PJRT_STRUCT(PJRT_NamedValue, item);
    item.name = name.data();
    item.name_size = name.size();
    item.value_size = 1;
    if (const auto* integer = std::get_if<int64_t>(&value)) {
      item.type = PJRT_NamedValue_kInt64;
      item.int64_value = *integer;
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      item.type = PJRT_NamedValue_kString;
      item.string_value = text->data();
      item.value_size = text->size();
    } else if (const auto* flag = std::get_if<bool>(&value)) {
      item.type = PJRT_NamedValue_kBool;
      item.bool_value = *flag;
    } else if (const auto* real = std::get_if<float>(&value)) {
      item.type = PJRT_NamedValue_kFloat;
      item.float_value = *real;
    } else {
      const auto& list = std::get<std::vector<int64_t>>(value);
      item.type = PJRT_NamedValue_kInt64List;
      item.int64_array_value = list.data();
      item.value_size = list.size();
    }
    out.push_back(item);
  }
  return out;
}

NamedValues from_pjrt(std::span<const PJRT_NamedValue> values) {
  NamedValues out;
  for (const PJRT_NamedValue& item : values) {
    NamedValue value;
    switch (item.type) {
      case PJRT_NamedValue_kString:
        value = std::string(text_view(item.string_value, item.value_size));
        break;
      case PJRT_NamedValue_kInt64:
        value = item.int64_value;
        break;
      case PJRT_NamedValue_kInt64List:
        value =
            std::vector<int64_t>(item.int64_array_value, item.int64_array_value + item.value_size);
        break;
      case PJRT_NamedValue_kFloat:
        value = item.float_value;
        break;
      case PJRT_NamedValue_kBool:
        value = item.bool_value;
        break;
      default:
        continue;  // a kind of value that a newer plugin added
    }
    out.emplace(text_view(item.name, item.name_size), std::move(value));
  }
  return out;
}

std::string to_string(const NamedValue& value) {
  return std::visit([](const auto& each) { return fmt::format("{}", each); }, value);
}

}  // namespace espalier
