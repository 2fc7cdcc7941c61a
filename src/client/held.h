// A lock (or a leadership) and a session that are kept alive in the background: what `holdfast
// elect` and the demonstration hold. Made by Client::Hold and Client::KeepSession. Methods are
// thread-safe. Callbacks run on the client's one background thread, in order, and must neither
// block nor call blocking methods of the client: while one runs, nothing is renewed.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "client/types.h"

namespace holdfast::client {

class LiveSession;

enum class LockState {
  kAcquiring,   // asked for, or waiting in the queue
  kConfirming,  // granted out of the queue, being renewed; not to be used yet
  kHeld,        // use it while EnsureHeld() says yes
  kRevoking,  // still held until `deadline`, but cannot be renewed: being broken, or the hold limit
              // is reached
  kReleasing,    // released by us, not confirmed yet; not to be used any more
  kReleased,     // final
  kLost,         // final: was held, and must not be used any more
  kNotAcquired,  // final: `refusal` or `error` says why
};
const char* Name(LockState state);

struct LockUpdate {
  LockState state = LockState::kAcquiring;
  std::string resource;
  std::string request_id;
  std::optional<Grant> grant;  // from kConfirming on
  BootTime deadline{};         // kHeld, kRevoking: the local deadline, never valid at or after it
  Cause cause = Cause::kUnspecified;
  std::string reason;              // kRevoking: the administrator's words
  std::optional<Refusal> refusal;  // kNotAcquired
  std::optional<Error> error;      // kNotAcquired, kReleased, kLost: what went wrong last
};
using LockCallback = std::function<void(const LockUpdate&)>;

struct LockGoal {
  AcquireRequest acquire;
  std::optional<std::string> value;  // present: a campaign that proclaims this value
  Duration
      stop_time{};  // how long the work needs to stop; the local deadline comes earlier by this
};

class HeldLock {
 public:
  class Impl;
  explicit HeldLock(std::shared_ptr<Impl> impl);
  // Withdraws or releases without waiting for the answer; the lease then ends by itself at its
  // promise at the latest. No callback starts after this returns; not to be called inside one.
  ~HeldLock();
  HeldLock(const HeldLock&) = delete;
  HeldLock& operator=(const HeldLock&) = delete;

  // Gate for new work: false at or after the local deadline, after Release, and before the lock is
  // held.
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

enum class SessionState {
  kOpening,
  kSafe,      // alive, as far as anybody can know
  kJeopardy,  // its local deadline passed: its holds are lost, it may still turn out to be alive
  kClosing,
  kClosed,     // final
  kExpired,    // final
  kNotOpened,  // final: `refused` or `error` says why
};
const char* Name(SessionState state);

struct SessionUpdate {
  SessionState state = SessionState::kOpening;
  std::string request_id;
  std::string session_id;  // from kSafe on
  std::string session_fp;
  Duration ttl{};
  BootTime deadline{};  // kSafe: the local deadline
  Cause cause = Cause::kUnspecified;
  std::optional<SessionRefused> refused;  // kNotOpened
  std::optional<Error> error;             // kNotOpened, kExpired, kClosed: what went wrong last
};
using SessionCallback = std::function<void(const SessionUpdate&)>;

struct SessionGoal {
  OpenSessionRequest open;
  Duration stop_time{};  // of the slowest work on its holds
  Duration jeopardy =
      Seconds(45);  // how long a session in jeopardy is asked for before it counts as expired
};

class LiveSession {
 public:
  class Impl;
  explicit LiveSession(std::shared_ptr<Impl> impl);
  // Closes without waiting for the answer. As ~HeldLock. Its holds must be gone before.
  ~LiveSession();
  LiveSession(const LiveSession&) = delete;
  LiveSession& operator=(const LiveSession&) = delete;

  SessionUpdate Current() const;
  // Blocks until it is safe or final.
  SessionUpdate WaitUntilOpen();
  SessionUpdate WaitUntilOver();
  // A lock that lives as long as this session, on the session's one keepalive. `goal.acquire` names
  // neither ttl nor session. Lost for good at the session's local deadline, also if the session
  // becomes safe again.
  std::unique_ptr<HeldLock> Hold(const LockGoal& goal, LockCallback on_update = {});
  // Stop the work on all its holds first: closing ends them. Returns at once.
  void Close();

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace holdfast::client
