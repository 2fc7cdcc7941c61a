// One logical request with its retries: every attempt carries the same request id, goes to the next
// endpoint after a failure, has a deadline of its own and comes after a growing, jittered pause.
// Knows nothing of what the request says.
//
// The owner polls for the attempt to send, and reports the end of every attempt, at the latest at
// its deadline. A reply to an attempt that had been given up is welcome too: it answers the
// request, timed by that attempt. No I/O, no clock; not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "client/lease_deadline.h"
#include "client/random.h"
#include "client/retry.h"
#include "client/watermark.h"
#include "holdfast/result.h"

namespace holdfast::client {

inline constexpr BootTime kNever = BootTime::max();

// A wait as far as deadlines are computed with it; what the service allows is its own matter.
inline Duration BoundedWait(Duration wait) {
  return std::clamp<Duration>(wait, Duration::zero(), std::chrono::hours(24 * 366));
}

enum class AttemptId : std::uint64_t {};

inline Error MakeError(ErrorCode code, std::string message) {
  return Error{code, std::move(message), {}, {}};
}

enum class FailureKind {
  kNothingDone,  // it did not reach the service, or the service says that it did nothing
  kUnknown,      // it may have been done
  kFinal,        // the service refused it: asking again gives the same
};

struct Failure {
  FailureKind kind = FailureKind::kUnknown;
  Error error;
  Duration retry_after{};  // when the service asks for a pause
};

// What a second attempt can do after a first one whose end is unknown.
enum class Repeat {
  kRead,        // changes nothing: never unknown
  kIdempotent,  // has the effect of one
  kOnce,        // may have an effect of its own: never sent again once it may have arrived
};

// What all calls of one client share.
struct CallShared {
  CallShared(RandomSource& random_source, std::size_t endpoint_count)
      : random(random_source), endpoints(endpoint_count), identity(random_source.Draw()) {}

  RandomSource& random;
  EndpointSet endpoints;
  RetryBudget budget;
  ClientIdentity identity;
  std::uint64_t attempts_made = 0;
};

struct CallOptions {
  Repeat repeat = Repeat::kIdempotent;
  Duration attempt_timeout = Seconds(3);
  Duration backoff_first = Millis(50);
  Duration backoff_max = Seconds(2);
  bool urgent = false;  // renewals: the first retry is immediate, and none waits for the budget
  BootTime deadline = kNever;
};

struct AttemptOrder {
  AttemptId id{};
  std::size_t endpoint = 0;
  BootTime deadline{};
};

class Call {
 public:
  Call(CallShared& shared, const CallOptions& options, BootTime now);

  // The attempt to send now, if one is due; it counts as sent at `now`. Ends the call when its time
  // is over.
  std::optional<AttemptOrder> Poll(BootTime now);
  // When to poll again, if nothing is reported before.
  BootTime NextWake() const;

  bool Owns(AttemptId attempt) const;
  bool IsLatest(AttemptId attempt) const;
  // Ends the call as answered. `attempt` must be one of its own.
  ReplyTiming OnReply(AttemptId attempt, BootTime now);
  // Failures of attempts that are over already are ignored.
  void OnFailure(AttemptId attempt, const Failure& failure, BootTime now);

  bool running() const { return !answered_ && !error_.has_value(); }
  bool answered() const { return answered_; }
  // Of a call that ended without an answer: kUnknownOutcome if any attempt may have been done.
  const std::optional<Error>& error() const { return error_; }
  // Why the newest attempt failed, if one did.
  const std::optional<Error>& last_failure() const { return last_failure_; }
  // An attempt is on its way, or may have been done.
  bool may_have_arrived() const { return outstanding_ || may_have_been_done_; }

 private:
  // Enough to recognise late replies; the timing of the first is kept apart.
  static constexpr std::size_t kAttemptsRemembered = 32;
  struct Sent {
    AttemptId id{};
    BootTime at{};
  };

  Duration Pause();
  void Finish(const Error& why);

  CallShared& shared_;
  CallOptions options_;
  std::vector<Sent> sent_;
  BootTime first_sent_{};
  std::size_t endpoint_ = 0;  // of the outstanding attempt
  bool outstanding_ = false;
  BootTime next_send_;
  std::size_t failures_ = 0;
  bool may_have_been_done_ = false;
  bool answered_ = false;
  std::optional<Error> last_failure_;
  std::optional<Error> error_;
};

}  // namespace holdfast::client
