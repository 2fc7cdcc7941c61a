#include "holdfast/result.h"

#include "base/check.h"

namespace holdfast {

void RequireFailed(const char* text) {
  CheckFailed("result.h", 0, "ok", text);
}

const char* ErrorCodeName(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case ErrorCode::kNotFound:
      return "NOT_FOUND";
    case ErrorCode::kAlreadyExists:
      return "ALREADY_EXISTS";
    case ErrorCode::kUnauthenticated:
      return "UNAUTHENTICATED";
    case ErrorCode::kPermissionDenied:
      return "PERMISSION_DENIED";
    case ErrorCode::kOverloaded:
      return "OVERLOADED";
    case ErrorCode::kUnavailable:
      return "UNAVAILABLE";
    case ErrorCode::kUnknownOutcome:
      return "UNKNOWN_OUTCOME";
    case ErrorCode::kDeadlineExceeded:
      return "DEADLINE_EXCEEDED";
    case ErrorCode::kBusy:
      return "BUSY";
    case ErrorCode::kDiskFull:
      return "DISK_FULL";
    case ErrorCode::kCorrupt:
      return "CORRUPT";
    case ErrorCode::kIo:
      return "IO";
    case ErrorCode::kUnsupported:
      return "UNSUPPORTED";
    case ErrorCode::kInternal:
      return "INTERNAL";
  }
  return "INTERNAL";
}

}  // namespace holdfast
