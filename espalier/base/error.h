// Error: what tracing and other programming interfaces throw; Failure/Result: what I/O returns.
//
// Two styles, chosen by who can go on. A wrong shape while tracing is a bug in model code: it
// throws Error. A missing file, a full disk or a plugin's refusal is a fact of the world: the
// function returns Result<T>, and the caller decides. Every message says what is wrong, where, and
// what to do.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace espalier {

enum class Code {
  kInvalidArgument,     // the caller's input is wrong: exit status 2 at the command line
  kNotFound,            // a file, plugin or name does not exist
  kAlreadyExists,       // something is there that must not be overwritten
  kDataLoss,            // truncated or altered data
  kResourceExhausted,   // disk or memory full
  kUnavailable,         // network or device not reachable now
  kFailedPrecondition,  // not in the state that the call needs
  kUnimplemented,       // this plugin or platform cannot do it
  kCancelled,           // stopped by a signal
  kInternal,            // a bug here or in the plugin
};

// Name of a code as printed in messages, e.g. "not found".
const char* code_name(Code code);

struct Failure {
  Code code = Code::kInternal;
  std::string message;
};

// Thrown by tracing and by value_or_throw().
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, Code code = Code::kInvalidArgument)
      : std::runtime_error(message), code_(code) {}
  explicit Error(const Failure& failure) : Error(failure.message, failure.code) {}
  Code code() const { return code_; }

 private:
  Code code_;
};

// Either a value or a Failure. Construct from either; test with ok() or operator bool.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Failure failure) : state_(std::in_place_index<1>, std::move(failure)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // The value. Requires ok() (std::bad_variant_access otherwise).
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }

  // The failure. Requires !ok().
  const Failure& failure() const { return std::get<1>(state_); }

  // The value, or throws Error with the failure's message.
  T value_or_throw() && {
    if (!ok()) throw Error(failure());
    return std::get<0>(std::move(state_));
  }

 private:
  std::variant<T, Failure> state_;
};

// Success without a value, or a Failure.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Failure failure) : failure_(std::move(failure)) {}

  bool ok() const { return !failure_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Failure& failure() const { return *failure_; }
  void value_or_throw() const {
    if (!ok()) throw Error(failure());
  }

 private:
  std::optional<Failure> failure_;
};

using Status = Result<void>;

}  // namespace espalier

// Returns the failure of a Status or Result expression from the enclosing function.
#define ESPALIER_TRY(expression)                                   \
  do {                                                             \
    if (auto espalier_status_ = (expression); !espalier_status_) { \
      return espalier_status_.failure();                           \
    }                                                              \
  } while (false)

#define ESPALIER_CONCAT_INNER(a, b) a##b
#define ESPALIER_CONCAT(a, b) ESPALIER_CONCAT_INNER(a, b)
#define ESPALIER_ASSIGN_IMPL(temporary, declaration, expression) \
  auto temporary = (expression);                                 \
  if (!temporary) return temporary.failure();                    \
  declaration = std::move(temporary).value()

// ESPALIER_ASSIGN(auto file, open(path)): declares from the value, or returns the failure.
#define ESPALIER_ASSIGN(declaration, expression) \
  ESPALIER_ASSIGN_IMPL(ESPALIER_CONCAT(espalier_result_, __LINE__), declaration, expression)
