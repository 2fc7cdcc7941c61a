#include "bench/requests.h"

#include <google/protobuf/duration.pb.h>

#include "holdfast/v1/locks.pb.h"
#include "holdfast/v1/types.pb.h"

namespace holdfast::bench {
namespace {

constexpr std::int64_t kNanosPerSecond = 1'000'000'000;

ErrorCode CodeOf(int code) {
  switch (code) {
    case v1::Problem::INVALID_ARGUMENT:
    case v1::Problem::FAILED_PRECONDITION:
      return ErrorCode::kInvalidArgument;
    case v1::Problem::NOT_FOUND:
      return ErrorCode::kNotFound;
    case v1::Problem::ALREADY_EXISTS:
      return ErrorCode::kAlreadyExists;
    case v1::Problem::UNAUTHENTICATED:
      return ErrorCode::kUnauthenticated;
    case v1::Problem::PERMISSION_DENIED:
      return ErrorCode::kPermissionDenied;
    case v1::Problem::OVERLOADED:
      return ErrorCode::kOverloaded;
    case v1::Problem::UNAVAILABLE:
      return ErrorCode::kUnavailable;
    case v1::Problem::UNKNOWN_OUTCOME:
      return ErrorCode::kUnknownOutcome;
    default:
      return ErrorCode::kInternal;
  }
}

}  // namespace

void SetDuration(Duration duration, google::protobuf::Duration& out) {
  out.set_seconds(duration.count() / kNanosPerSecond);
  out.set_nanos(static_cast<std::int32_t>(duration.count() % kNanosPerSecond));
}

Duration FromProto(const google::protobuf::Duration& duration) {
  return Seconds(duration.seconds()) + Duration(duration.nanos());
}

void FillAcquire(const LocksBenchOptions& options, const ClientIds& ids, std::uint64_t sequence,
                 const std::string& resource, v1::AcquireRequest& request) {
  request.set_namespace_(options.name_space);
  request.set_resource(resource);
  request.set_owner("bench");
  SetDuration(options.ttl, *request.mutable_ttl());
  if (options.request_ids == RequestIds::kNone) {
    return;
  }
  request.set_request_id(ids.RequestId(sequence));
  if (options.request_ids == RequestIds::kWatermark) {
    v1::ClientContext& client = *request.mutable_client();
    client.set_client_id(ids.client_id());
    client.set_sequence(sequence);
    client.set_answered_below(ids.answered_below());
  }
}

Error ErrorOf(const v1::Problem& problem) {
  return Error{.code = CodeOf(problem.code()),
               .message = problem.message(),
               .field = problem.field(),
               .limit = problem.limit()};
}

}  // namespace holdfast::bench
