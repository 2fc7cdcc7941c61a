// What only the client can see: attempts that fail, outcomes that nobody knows, leases that are
// lost. To be derived from by whoever wants to count them.
#pragma once

#include <string>
#include <string_view>

#include "holdfast/export.h"
#include "holdfast/result.h"
#include "holdfast/states.h"
#include "holdfast/time.h"

namespace holdfast::client {

enum class AttemptEnd {
  kAnswered,     // refusals as data are answers too
  kNothingDone,  // not connected, overloaded, or the service says that it did nothing
  kUnknown,      // it may have been done: it will be asked again, or the call ends as unknown
  kFailed,       // the service refused it for good
};
HOLDFAST_API const char* Name(AttemptEnd end);

struct Attempt {
  std::string_view verb;      // of the API: "Acquire", "Renew", "KeepAlive", ...
  std::string_view endpoint;  // HOST:PORT
  AttemptEnd end = AttemptEnd::kAnswered;
  ErrorCode error = ErrorCode::kInternal;  // unless it was answered
  Duration took{};                         // from the send to the end
};

// Methods run on the client's background thread, in order, and must neither block nor call the
// client. The texts that they get live only as long as the call.
class HOLDFAST_API Metrics {
 public:
  virtual ~Metrics() = default;
  // Each request that was sent, when it is over. A renewal that failed is one with the verb Renew
  // or KeepAlive that was not answered. Streams do not count.
  virtual void OnAttempt(const Attempt& attempt) = 0;
  // A call ended without anybody knowing whether it was done.
  virtual void OnUnknownOutcome(std::string_view verb) = 0;
  // The state of a hold changed. kLost is a lease that was lost.
  virtual void OnHold(const LockUpdate& update) = 0;
  // The state of a session changed. kJeopardy and kExpired want attention.
  virtual void OnSession(const SessionUpdate& update) = 0;
};

}  // namespace holdfast::client
