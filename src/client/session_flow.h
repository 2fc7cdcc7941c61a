// A session as its owner sees it, after Chubby:
//
//   kOpening --> kSafe <--keepalive-- kJeopardy --told so, or too long--> kExpired (final)
//                  +---local deadline----^
//
// Keepalives renew the session, and its deadline bounds its holds (hold.h). In jeopardy the local
// deadline has passed, so its holds are lost for good, but the service may still have the session
// (it gives a grace after a failover); one keepalive that succeeds makes the session safe again.
// The leases of holds that were lost meanwhile are then released, once their work has had its time
// to stop, since the service still counts them as held.
#pragma once

#include <list>
#include <optional>
#include <string>
#include <vector>

#include "client/lock_flow.h"
#include "client/machine.h"
#include "client/renewal.h"
#include "holdfast/states.h"

namespace holdfast::client {

class SessionFlow : public Machine {
 public:
  // `on_update` runs at each change of state or deadline, and never inside the constructor. The
  // flows of its holds must be destroyed first, and not inside a callback.
  SessionFlow(CallShared& shared, const SessionGoal& goal, const FlowOptions& options,
              SessionCallback on_update, BootTime now);

  void Advance(BootTime now, std::vector<Outgoing>& out) override;
  BootTime NextWake() const override;
  void OnReply(AttemptId attempt, const Reply& reply, BootTime now) override;
  void OnFailure(AttemptId attempt, const Failure& failure, BootTime now) override;
  bool Done() const override { return IsFinal(current_.state); }

  // Stop the work on its holds first; Advance must follow.
  void Close(BootTime now);

  const SessionUpdate& current() const { return current_; }
  Duration stop_time() const { return goal_.stop_time; }
  // The newest that is known.
  std::uint64_t revocations() const { return revocations_; }
  const std::string& namespace_name() const { return goal_.open.namespace_name; }

  // For the flows of its holds: take part in what happens to the session; be told how it stands
  // after a grant; have a lost lease released when that is safe and useful.
  void Attach(LockFlow& flow);
  void Detach(LockFlow& flow);
  void Inform(LockFlow& flow, BootTime now) const;
  void ReleaseLater(const ReleaseRequest& release, BootTime not_before);

 private:
  struct Orphan {
    ReleaseRequest release;
    BootTime not_before{};
    std::optional<Call> call;
  };

  void EndIfOver(BootTime now);
  void OnOpened(const OpenSessionResult& result, const ReplyTiming& timing, BootTime now);
  void OnKeepAlive(const KeepAliveResult& result, const ReplyTiming& timing, BootTime now);
  void AdvanceOpen(BootTime now, std::vector<Outgoing>& out);
  void AdvanceClose(BootTime now, std::vector<Outgoing>& out);
  void AdvanceOrphans(BootTime now, std::vector<Outgoing>& out);
  void StartClose(BootTime now);
  void Over(SessionState state, Cause cause, const std::optional<Error>& error, BootTime now);
  void Become(SessionState state);
  CallOptions OptionsOf(BootTime deadline) const;
  BootTime LocalDeadlineOf() const { return LocalDeadline(promise_, goal_.stop_time); }

  CallShared& shared_;
  SessionGoal goal_;
  FlowOptions options_;
  SessionCallback on_update_;
  std::uint64_t sequence_ = 0;  // 0: the caller's own request id, not under the watermark
  std::optional<Call> open_;
  std::optional<Call> close_;
  Renewal renewal_;
  LeasePromise promise_;
  std::uint64_t revocations_ = 0;
  bool unwanted_ = false;  // to be closed as soon as it is open
  std::vector<LockFlow*> holds_;
  std::list<Orphan> orphans_;
  SessionUpdate current_;
};

}  // namespace holdfast::client
