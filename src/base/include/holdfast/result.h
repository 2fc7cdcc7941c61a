// Result<T> and Status: operating errors (disk full, bad input, peer gone) as values. Domain
// outcomes such as "held" are not errors; they are plain data. A broken invariant ends the process.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "holdfast/export.h"

namespace holdfast {

enum class ErrorCode {
  kInvalidArgument,   // the caller's mistake; `field` and `limit` say which and what is allowed
  kNotFound,          // a named thing (namespace, file) does not exist
  kAlreadyExists,     // something in the way of a creation
  kUnauthenticated,   // no or a wrong credential
  kPermissionDenied,  // known caller, not allowed
  kOverloaded,        // a bounded queue is full; nothing was done, try later
  kUnavailable,       // cannot be served now; nothing was done
  kUnknownOutcome,    // may or may not have been done: ask again with the same request id
  kDeadlineExceeded,  // the caller's time is over
  kBusy,              // an exclusive resource is in use by another process
  kDiskFull,          // no space; nothing was written that counts
  kCorrupt,           // stored bytes are damaged; the message names file and offset
  kIo,                // the operating system refused
  kUnsupported,       // a format or feature level that this build does not know
  kInternal,          // a defect
};

// Prints the text to standard error and aborts.
[[noreturn]] HOLDFAST_API void RequireFailed(const char* text);
inline void Require(bool condition, const char* text) {
  if (!condition) {
    RequireFailed(text);
  }
}

// Stable upper-case name, such as "INVALID_ARGUMENT".
HOLDFAST_API const char* ErrorCodeName(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
  std::string field;  // for kInvalidArgument: the offending field, as the API names it
  std::string limit;  // for kInvalidArgument: what is allowed, in words with units

  // "context: message"
  Error WithContext(const std::string& context) const {
    Error copy = *this;
    copy.message = context + ": " + message;
    return copy;
  }
};

inline Error InvalidArgument(std::string field, std::string limit, std::string message) {
  return Error{ErrorCode::kInvalidArgument, std::move(message), std::move(field), std::move(limit)};
}

// Either a value or an Error. Reading the wrong side is a broken invariant.
template <typename T>
class [[nodiscard]] Result {
 public:
  // Implicit, so that a function returns a value or an error as it is.
  // NOLINTBEGIN(google-explicit-constructor)
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}
  // NOLINTEND(google-explicit-constructor)

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & {
    Require(ok(), "value of a failed Result");
    return *std::get_if<0>(&state_);
  }
  const T& value() const& {
    Require(ok(), "value of a failed Result");
    return *std::get_if<0>(&state_);
  }
  T&& value() && { return std::move(value()); }
  const Error& error() const {
    Require(!ok(), "error of a successful Result");
    return *std::get_if<1>(&state_);
  }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }

 private:
  std::variant<T, Error> state_;
};

// Success without a value, or an Error.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const {
    Require(error_.has_value(), "error of a successful Status");
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

}  // namespace holdfast
