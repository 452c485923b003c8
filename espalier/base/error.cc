#include "espalier/base/error.h"

namespace espalier {

const char* code_name(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return "invalid argument";
    case Code::kNotFound:
      return "not found";
    case Code::kAlreadyExists:
      return "already exists";
    case Code::kDataLoss:
      return "data loss";
    case Code::kResourceExhausted:
      return "resource exhausted";
    case Code::kUnavailable:
      return "unavailable";
    case Code::kFailedPrecondition:
      return "failed precondition";
    case Code::kUnimplemented:
      return "unimplemented";
    case Code::kCancelled:
      return "cancelled";
    case Code::kInternal:
      return "internal";
  }
  return "unknown";
}

}  // namespace espalier
