// What every state machine of the client looks like from outside, to the background thread of the
// real client as to the simulator: it is given time and the ends of its attempts, and gives the
// messages to send and the time to wake it. Callbacks given to a machine run inside these calls.
// Not thread-safe.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "base/time.h"
#include "client/call.h"
#include "holdfast/types.h"

namespace holdfast::client {

// A verb that no state machine looks into, already encoded.
struct RawRequest {
  const char* method = "";  // "/holdfast.v1.Locks/List"
  std::string body;
};
struct RawReply {
  std::string body;
};

using Request =
    std::variant<AcquireRequest, CampaignRequest, RenewRequest, ReleaseRequest, CancelRequest,
                 OpenSessionRequest, KeepAliveRequest, CloseSessionRequest, RawRequest>;
using Reply = std::variant<AcquireResult, RenewResult, ReleaseResult, CancelResult,
                           OpenSessionResult, KeepAliveResult, CloseSessionResult, RawReply>;

// Send it now. The end of the attempt must be reported at its deadline at the latest.
struct Outgoing {
  AttemptOrder attempt;
  Request request;
};

class Machine {
 public:
  virtual ~Machine() = default;

  // Does what is due at `now`, which never goes back. To be called once at the start, at
  // NextWake(), and after every report.
  virtual void Advance(BootTime now, std::vector<Outgoing>& out) = 0;
  virtual BootTime NextWake() const = 0;

  // Replies and failures of attempts that do not matter any more are ignored.
  virtual void OnReply(AttemptId attempt, const Reply& reply, BootTime now) = 0;
  virtual void OnFailure(AttemptId attempt, const Failure& failure, BootTime now) = 0;

  // Nothing will ever be sent or called back again.
  virtual bool Done() const = 0;
};

}  // namespace holdfast::client
