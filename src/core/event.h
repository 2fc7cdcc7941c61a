// What applying a batch tells the outside: answers, late answers of waiters, and events for
// watches, audit and metrics.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "core/command.h"
#include "core/outcome.h"

namespace holdfast::core {

enum class EventKind : std::uint8_t {
  kGranted = 1,   // cause: kAcquired or kHandedOver
  kEnded = 2,     // cause: how
  kRevoking = 3,  // a break began; `reason` holds the administrator's words
  kWaiting = 4,
  kWaiterLeft = 5,  // without a grant; cause: why
  kProclaimed = 6,
  kConfirmed = 7,  // a provisional grant was renewed for the first time
  kSessionOpened = 8,
  kSessionEnded = 9,
};
const char* EventKindName(EventKind kind);  // "GRANTED"

struct Event {
  EventKind kind = EventKind::kGranted;
  Cause cause = Cause::kNone;
  Token token =
      0;  // of an event of a lease, as is the value; none in events of waiters and sessions
  std::string name_space;
  std::string resource;   // empty in session events
  std::string principal;  // whose lease, wait or session it is
  std::string owner;
  Id128 capability{};  // lease or session id, none of a waiter; logged only as a fingerprint
  std::string value;   // of an election
  std::string reason;
  // kEnded: how long after the deadline that its holder was last told; zero if before it. For
  // metrics: not part of the trace.
  Duration late{};
};

// The late answer to a request that was Queued.
struct Resolution {
  WaiterId waiter = 0;
  std::uint64_t attachment = 0;
  Outcome outcome;
};

// Filled by Machine::Apply. Reuse one object to reuse its memory.
struct Applied {
  std::vector<Outcome> outcomes;  // one for each command, in order
  std::vector<Resolution> resolutions;
  std::vector<Event> events;

  void Clear() {
    outcomes.clear();
    resolutions.clear();
    events.clear();
  }
};

}  // namespace holdfast::core
