#include "cli/exit_code.h"

namespace holdfast::cli {

const char* Meaning(ExitCode code) {
  switch (code) {
    case kDone:
      return "done";
    case kFailed:
      return "an assertion did not hold, or a proof is not passed";
    case kUsage:
      return "the request is wrong; the message names field and limit";
    case kDamaged:
      return "stored data is damaged";
    case kUnavailable:
      return "cannot be served now, and nothing was done";
    case kDefect:
      return "a defect of Holdfast";
    case kOutcomeUnknown:
      return "outcome unknown; prints the command that retries safely";
    case kNotAcquired:
      return "not acquired or not done; the answer says why";
    case kOwnershipLost:
      return "the lease, session or token is not current any more";
    case kNotPermitted:
      return "not permitted";
  }
  return "";
}

ExitCode ExitCodeOf(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kNotFound:
    case ErrorCode::kAlreadyExists:
    case ErrorCode::kUnsupported:
      return kUsage;
    case ErrorCode::kUnauthenticated:
    case ErrorCode::kPermissionDenied:
      return kNotPermitted;
    case ErrorCode::kOverloaded:
    case ErrorCode::kUnavailable:
    case ErrorCode::kDeadlineExceeded:
    case ErrorCode::kBusy:
    case ErrorCode::kDiskFull:
    case ErrorCode::kIo:
      return kUnavailable;
    case ErrorCode::kUnknownOutcome:
      return kOutcomeUnknown;
    case ErrorCode::kCorrupt:
      return kDamaged;
    case ErrorCode::kInternal:
      break;
  }
  return kDefect;
}

}  // namespace holdfast::cli
