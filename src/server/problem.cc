// Operating errors as the API shows them.
#include "holdfast/v1/types.pb.h"
#include "server/fields.h"

namespace holdfast::server {
namespace {

// Of google.rpc.Code, which gRPC uses too.
enum RpcNumber : int {
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kInternal = 13,
  kUnavailable = 14,
  kUnauthenticated = 16,
};

// How long to wait before asking again has a chance.
constexpr Duration kRetryOverloaded = Millis(100);
constexpr Duration kRetryUnavailable = Millis(500);

struct Mapping {
  RpcNumber rpc;
  v1::Problem::Code problem;
};

Mapping MappingOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return {kInvalidArgument, v1::Problem::INVALID_ARGUMENT};
    case ErrorCode::kNotFound:
      return {kNotFound, v1::Problem::NOT_FOUND};
    case ErrorCode::kAlreadyExists:
      return {kAlreadyExists, v1::Problem::ALREADY_EXISTS};
    case ErrorCode::kUnauthenticated:
      return {kUnauthenticated, v1::Problem::UNAUTHENTICATED};
    case ErrorCode::kPermissionDenied:
      return {kPermissionDenied, v1::Problem::PERMISSION_DENIED};
    case ErrorCode::kOverloaded:
      return {kResourceExhausted, v1::Problem::OVERLOADED};
    case ErrorCode::kUnavailable:
    case ErrorCode::kBusy:
    case ErrorCode::kDiskFull:
      return {kUnavailable, v1::Problem::UNAVAILABLE};
    case ErrorCode::kUnknownOutcome:
      return {kUnknown, v1::Problem::UNKNOWN_OUTCOME};
    case ErrorCode::kDeadlineExceeded:
      return {kDeadlineExceeded, v1::Problem::UNKNOWN_OUTCOME};
    case ErrorCode::kUnsupported:
      return {kFailedPrecondition, v1::Problem::FAILED_PRECONDITION};
    case ErrorCode::kCorrupt:
    case ErrorCode::kIo:
    case ErrorCode::kInternal:
      break;
  }
  return {kInternal, v1::Problem::INTERNAL};
}

}  // namespace

void WriteProblem(const Error& error, v1::Problem& problem) {
  problem.set_code(MappingOf(error.code).problem);
  problem.set_message(error.message);
  problem.set_field(error.field);
  problem.set_limit(error.limit);
  if (problem.code() == v1::Problem::OVERLOADED) {
    WriteDuration(kRetryOverloaded, *problem.mutable_retry_after());
  } else if (problem.code() == v1::Problem::UNAVAILABLE) {
    WriteDuration(kRetryUnavailable, *problem.mutable_retry_after());
  }
}

int RpcCode(ErrorCode code) {
  return MappingOf(code).rpc;
}

std::string RpcDetails(const Error& error) {
  v1::Problem problem;
  WriteProblem(error, problem);
  v1::RpcStatus status;
  status.set_code(RpcCode(error.code));
  status.set_message(error.message);
  status.add_details()->PackFrom(problem);
  return status.SerializeAsString();
}

}  // namespace holdfast::server
