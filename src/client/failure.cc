#include <algorithm>

#include "client/wire.h"
#include "holdfast/v1/types.pb.h"

namespace holdfast::client {
namespace {

// The numbers of gRPC statuses (grpc/status.h), which this file does not include.
enum GrpcCode {
  kInvalidArgument = 3,
  kNotFound = 5,
  kPermissionDenied = 7,
  kUnimplemented = 12,
  kUnauthenticated = 16,
};

bool FindProblem(const std::string& details, v1::Problem& problem) {
  v1::RpcStatus status;
  if (details.empty() || !status.ParseFromString(details)) {
    return false;
  }
  for (const google::protobuf::Any& detail : status.details()) {
    if (detail.type_url() == "type.googleapis.com/holdfast.v1.Problem") {
      return problem.ParseFromString(detail.value());
    }
  }
  return false;
}

Failure Final(ErrorCode code, const std::string& message) {
  return Failure{.kind = FailureKind::kFinal, .error = MakeError(code, message)};
}

Failure FromProblem(const v1::Problem& problem) {
  Failure failure = Final(ErrorCode::kInternal, problem.message());
  failure.error.field = problem.field();
  failure.error.limit = problem.limit();
  if (problem.has_retry_after()) {
    failure.retry_after =
        std::chrono::seconds(std::min<std::int64_t>(problem.retry_after().seconds(), 3600)) +
        std::chrono::nanoseconds(problem.retry_after().nanos());
  }
  const auto is = [&](FailureKind kind, ErrorCode code) {
    failure.kind = kind;
    failure.error.code = code;
    return failure;
  };
  switch (static_cast<int>(problem.code())) {
    case v1::Problem::INVALID_ARGUMENT:
      return is(FailureKind::kFinal, ErrorCode::kInvalidArgument);
    case v1::Problem::NOT_FOUND:
      return is(FailureKind::kFinal, ErrorCode::kNotFound);
    case v1::Problem::ALREADY_EXISTS:
      return is(FailureKind::kFinal, ErrorCode::kAlreadyExists);
    case v1::Problem::UNAUTHENTICATED:
      return is(FailureKind::kFinal, ErrorCode::kUnauthenticated);
    case v1::Problem::PERMISSION_DENIED:
      return is(FailureKind::kFinal, ErrorCode::kPermissionDenied);
    case v1::Problem::OVERLOADED:
      return is(FailureKind::kNothingDone, ErrorCode::kOverloaded);
    case v1::Problem::UNAVAILABLE:
      return is(FailureKind::kNothingDone, ErrorCode::kUnavailable);
    case v1::Problem::FAILED_PRECONDITION:
      return is(FailureKind::kFinal, ErrorCode::kUnsupported);
    default:  // UNKNOWN_OUTCOME, INTERNAL, and codes that this build does not know
      return is(FailureKind::kUnknown, ErrorCode::kUnknownOutcome);
  }
}

}  // namespace

Failure Classify(const WireFailure& failure) {
  v1::Problem problem;
  if (FindProblem(failure.details, problem)) {
    return FromProblem(problem);
  }
  if (!failure.sent) {
    return Failure{.kind = FailureKind::kNothingDone,
                   .error = MakeError(ErrorCode::kUnavailable, failure.message)};
  }
  switch (failure.grpc_code) {
    case kInvalidArgument:
      return Final(ErrorCode::kInvalidArgument, failure.message);
    case kNotFound:
      return Final(ErrorCode::kNotFound, failure.message);
    case kPermissionDenied:
      return Final(ErrorCode::kPermissionDenied, failure.message);
    case kUnimplemented:
      return Final(ErrorCode::kUnsupported, failure.message);
    case kUnauthenticated:
      return Final(ErrorCode::kUnauthenticated, failure.message);
    default:
      // Also RESOURCE_EXHAUSTED: without the service's own word it may mean that the answer was too
      // large.
      return Failure{.kind = FailureKind::kUnknown,
                     .error = MakeError(ErrorCode::kUnknownOutcome, failure.message)};
  }
}

}  // namespace holdfast::client
