// gRPC status codes as our errors.
#pragma once

#include "holdfast/result.h"

namespace grpc {
class Status;
}

namespace holdfast::bench {

// Of a failed status; an ended stream with status OK is kUnavailable.
Error ErrorOf(const grpc::Status& status);

// True if asking again can help and is harmless under the same request id.
bool IsTransient(ErrorCode code);

}  // namespace holdfast::bench
