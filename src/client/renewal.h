// Keeps one lease renewed: decides when the next renewal is sent, a third of the ttl after the last
// one that succeeded, and how hard it is tried. Each renewal is a call whose attempts have
// deadlines far below the ttl and change endpoint. Errors never end it: only the owner does, when
// the lease is over or must not be renewed. Not thread-safe.
#pragma once

#include <optional>
#include <vector>

#include "client/call.h"

namespace holdfast::client {

class Renewal {
 public:
  Renewal(CallShared& shared, Duration ttl) : shared_(shared), ttl_(ttl) {}

  // A renewal (or the grant itself) succeeded.
  void Succeeded(BootTime sent, const LeasePromise& promise);
  // The lease was renewed by something else, which will go on doing so: the next renewal of its own
  // is only for the case that it does not.
  void SucceededElsewhere(BootTime sent, const LeasePromise& promise);
  void Now(BootTime now);
  // Nothing is sent any more, and replies on their way are not taken.
  void Stop();

  // The attempt to send now; the owner makes the request. Nothing is sent for longer than until
  // `limit`.
  std::optional<AttemptOrder> Poll(BootTime now, BootTime limit);
  BootTime NextWake() const;
  // Nothing if the attempt is none of the renewals that still matter.
  std::optional<ReplyTiming> OnReply(AttemptId attempt, BootTime now);
  void OnFailure(AttemptId attempt, const Failure& failure, BootTime now);

  Duration attempt_timeout() const;
  const std::optional<Error>& last_failure() const { return last_failure_; }

 private:
  // An answer counts also when it is late and a newer renewal is on its way.
  static constexpr std::size_t kRecent = 16;
  struct Sent {
    AttemptId id{};
    BootTime at{};
  };

  bool Take(BootTime sent, const LeasePromise& promise);

  CallShared& shared_;
  Duration ttl_;
  BootTime due_ = kNever;
  std::optional<Call> call_;
  std::vector<Sent> recent_;
  BootTime newest_{};  // sending of the newest attempt that succeeded
  std::optional<Error> last_failure_;
};

}  // namespace holdfast::client
