// Small conversions between our types and the API's messages.
#pragma once

#include <cstdint>
#include <string>

#include "base/time.h"
#include "bench/client_ids.h"
#include "bench/locks_bench.h"
#include "holdfast/result.h"

namespace google::protobuf {
class Duration;
}
namespace holdfast::v1 {
class AcquireRequest;
class Problem;
}  // namespace holdfast::v1

namespace holdfast::bench {

void SetDuration(Duration duration, google::protobuf::Duration& out);
Duration FromProto(const google::protobuf::Duration& duration);

// Everything but `wait`.
void FillAcquire(const LocksBenchOptions& options, const ClientIds& ids, std::uint64_t sequence,
                 const std::string& resource, v1::AcquireRequest& request);

Error ErrorOf(const v1::Problem& problem);

}  // namespace holdfast::bench
