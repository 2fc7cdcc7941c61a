// A lock (or a leadership) and a session that are kept alive in the background: what `holdfast
// elect` and the demonstration hold. Made by Client::Hold and Client::KeepSession. Methods are
// thread-safe. Callbacks run on the client's one background thread, in order, and must neither
// block nor call blocking methods of the client: while one runs, nothing is renewed.
#pragma once

#include <memory>

#include "holdfast/states.h"

namespace holdfast::client {

class Hold {
 public:
  class Impl;
  explicit Hold(std::shared_ptr<Impl> impl);
  // Withdraws or releases without waiting for the answer; the client goes on trying for its
  // `timeout`, or until it is destroyed. No callback starts after this returns; not to be called
  // inside one.
  ~Hold();
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  // Gate for new work: false at or after the local deadline, after Release, and before it is held.
  bool EnsureHeld() const;
  LockUpdate Current() const;
  // Blocks until the lock is held, or is final without having been held.
  LockUpdate WaitUntilAcquired();
  // Blocks until the state is final.
  LockUpdate WaitUntilOver();
  // Stop the work first. Withdraws the acquire if it is not granted yet. Returns at once; the
  // updates tell the rest.
  void Release();

 private:
  std::shared_ptr<Impl> impl_;
};

class Session {
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
  // Stop the work on all its holds first: closing ends them. Returns at once.
  void Close();

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace holdfast::client
