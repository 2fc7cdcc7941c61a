// The states of a lock and of a session as their holder sees them. Each change is one update; a
// final state comes once.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "holdfast/export.h"
#include "holdfast/result.h"
#include "holdfast/time.h"
#include "holdfast/types.h"

namespace holdfast::client {

enum class LockState {
  kAcquiring,    // asked for, or waiting in the queue
  kConfirming,   // granted out of the queue, being renewed; not to be used yet
  kHeld,         // use it while EnsureHeld() says yes
  kRevoking,     // as kHeld, but it cannot be renewed: being broken, or at the hold limit
  kReleasing,    // released by us, not confirmed yet; not to be used any more
  kReleased,     // final
  kLost,         // final: was held, and must not be used any more
  kNotAcquired,  // final: `refusal` or `error` says why
};
HOLDFAST_API const char* Name(LockState state);
inline bool IsFinal(LockState state) {
  return state >= LockState::kReleased;
}

struct LockUpdate {
  LockState state = LockState::kAcquiring;
  std::string resource;
  std::string request_id;
  std::optional<Grant> grant;  // from kConfirming on
  BootTime deadline{};         // kHeld, kRevoking: the local deadline, never valid at or after it
  Cause cause = Cause::kUnspecified;
  std::string reason;              // kRevoking: the administrator's words
  std::optional<Refusal> refusal;  // kNotAcquired
  std::optional<Error> error;      // in final states: what went wrong last
};
using LockCallback = std::function<void(const LockUpdate&)>;

struct LockGoal {
  AcquireRequest acquire;
  std::optional<std::string> value;  // present: a campaign that proclaims this value
  // How long the work needs to stop; the local deadline comes earlier by this.
  Duration stop_time{};
};

enum class SessionState {
  kOpening,
  kSafe,       // alive, as far as anybody can know
  kJeopardy,   // its local deadline passed: its holds are lost, it may still turn out to be alive
  kClosing,    // closed by us, not confirmed yet
  kClosed,     // final
  kExpired,    // final
  kNotOpened,  // final: `refused` or `error` says why
};
HOLDFAST_API const char* Name(SessionState state);
inline bool IsFinal(SessionState state) {
  return state >= SessionState::kClosed;
}

struct SessionUpdate {
  SessionState state = SessionState::kOpening;
  std::string request_id;
  std::string session_id;  // from kSafe on
  std::string session_fp;
  Duration ttl{};
  BootTime deadline{};  // kSafe: the local deadline
  Cause cause = Cause::kUnspecified;
  std::optional<SessionRefused> refused;  // kNotOpened
  std::optional<Error> error;             // in final states: what went wrong last
};
using SessionCallback = std::function<void(const SessionUpdate&)>;

struct SessionGoal {
  OpenSessionRequest open;
  Duration stop_time{};  // of the slowest work on its holds
  // How long a session in jeopardy is asked for before it counts as expired.
  Duration jeopardy = Seconds(45);
};

}  // namespace holdfast::client
