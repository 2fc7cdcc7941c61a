// A session that is kept alive in the background: one lease for many locks, and one keepalive that
// renews them all. Made by Client::KeepSession. Threads and callbacks as in hold.h.
#pragma once

#include <memory>

#include "holdfast/export.h"
#include "holdfast/hold.h"
#include "holdfast/hold_set.h"
#include "holdfast/states.h"

namespace holdfast::client {

class HOLDFAST_API Session {
 public:
  class Impl;
  explicit Session(std::shared_ptr<Impl> impl);
  // Closes without waiting for the answer, as ~Hold.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  SessionUpdate Current() const;
  // Blocks until it is safe or final.
  SessionUpdate WaitUntilOpen();
  // Blocks until the state is final.
  SessionUpdate WaitUntilOver();
  // A lock that lives as long as this session, on the session's one keepalive; the session must be
  // open. `goal.acquire` names neither ttl nor session. Lost for good at the session's local
  // deadline, also if the session becomes safe again.
  std::unique_ptr<Hold> Lock(const LockGoal& goal, LockCallback on_update = {});
  // As Client::AcquireAll, all of them on this session.
  AcquireAllResult AcquireAll(const AcquireAllGoal& goal);
  // Stop the work on all its holds first: closing ends them. Returns at once.
  void Close();

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace holdfast::client
