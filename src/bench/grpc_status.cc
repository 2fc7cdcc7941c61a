#include "bench/grpc_status.h"

#include <grpcpp/support/status.h>

namespace holdfast::bench {
namespace {

ErrorCode CodeOf(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::OUT_OF_RANGE:
    case grpc::StatusCode::FAILED_PRECONDITION:
      return ErrorCode::kInvalidArgument;
    case grpc::StatusCode::NOT_FOUND:
      return ErrorCode::kNotFound;
    case grpc::StatusCode::ALREADY_EXISTS:
      return ErrorCode::kAlreadyExists;
    case grpc::StatusCode::UNAUTHENTICATED:
      return ErrorCode::kUnauthenticated;
    case grpc::StatusCode::PERMISSION_DENIED:
      return ErrorCode::kPermissionDenied;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return ErrorCode::kOverloaded;
    case grpc::StatusCode::OK:
    case grpc::StatusCode::UNAVAILABLE:
      return ErrorCode::kUnavailable;
    case grpc::StatusCode::UNIMPLEMENTED:
      return ErrorCode::kUnsupported;
    case grpc::StatusCode::UNKNOWN:
    case grpc::StatusCode::ABORTED:
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return ErrorCode::kUnknownOutcome;
    case grpc::StatusCode::INTERNAL:
    case grpc::StatusCode::DATA_LOSS:
    case grpc::StatusCode::DO_NOT_USE:
      return ErrorCode::kInternal;
  }
  return ErrorCode::kInternal;
}

}  // namespace

Error ErrorOf(const grpc::Status& status) {
  return Error{CodeOf(status.error_code()),
               status.ok() ? "the server ended the stream" : status.error_message(),
               {},
               {}};
}

bool IsTransient(ErrorCode code) {
  return code == ErrorCode::kOverloaded || code == ErrorCode::kUnavailable ||
         code == ErrorCode::kUnknownOutcome;
}

}  // namespace holdfast::bench
