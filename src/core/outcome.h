// Outcomes: the answers to commands, as data. None of them is an error; see docs/SEMANTICS.md for
// when each is given.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/id.h"
#include "base/time.h"
#include "core/command.h"
#include "core/policy.h"

namespace holdfast::core {

// Why a lease ended, a waiter left, or something was refused. Numbers are stored; never reuse one.
enum class Cause : std::uint8_t {
  kNone = 0,
  kReleased = 1,
  kExpired = 2,
  kSessionClosed = 3,
  kSessionExpired = 4,
  kBroken = 5,
  kUnconfirmed = 6,
  kCancelled = 7,
  kWaitTimedOut = 8,
  kDetachedTooLong = 9,
  kNamespaceDeleted = 10,
  kHandedOver = 11,
  kAcquired = 12,
  kNeverHeld = 13,
  kHoldLimit = 14,
  kRevoking = 15,
};
constexpr bool EnumInRange(Cause cause) {
  return cause <= Cause::kRevoking;
}
const char* CauseName(Cause cause);  // "RELEASED"

enum class RefusalCode : std::uint8_t {
  kNone = 0,
  kHeld = 1,
  kWaitTimeout = 2,
  kQueueFull = 3,
  kTenantLimit = 4,
  kDelayed = 5,
  kCancelled = 6,
  kAlreadyHeld = 7,
  kAlreadyWaiting = 8,
  kRequestIdReused = 9,
  kEnded = 10,
  kSessionEnded = 11,
  kFencingRequired = 12,
  kGrantsBlocked = 13,
  kSuperseded = 14,
  kStateFull = 15,
};
constexpr bool EnumInRange(RefusalCode code) {
  return code <= RefusalCode::kStateFull;
}
const char* RefusalName(RefusalCode code);  // "HELD"

// Who holds a resource, as others may see it.
struct HolderView {
  std::string owner;
  std::string principal;
  Token token = 0;
  Id128 lease_id{};  // fronts print only its fingerprint
  Duration held_for{};
  Duration left{};  // never negative
  WallTime since{};
  bool provisional = false;
  bool revoking = false;
  Id128 session{};  // fronts print only its fingerprint
  std::vector<MetadataEntry> metadata;
};

struct Granted {
  Id128 lease_id{};
  Token token = 0;
  Duration ttl{};
  Duration remaining{};
  bool provisional = false;
  Guarantee guarantee = Guarantee::kAdvisory;
  WallTime expires_at{};  // display only
};

struct Refused {
  RefusalCode code = RefusalCode::kNone;
  Cause cause = Cause::kNone;  // kEnded: how
  std::uint32_t queue_length = 0;
  std::optional<Duration> retry_after;
  std::unique_ptr<HolderView> holder;  // kHeld, kWaitTimeout, kAlreadyHeld
  std::string limit;  // kQueueFull, kTenantLimit, kStateFull: which, with its value
};

// The request waits; its answer comes later as a Resolution with this waiter and attachment.
struct Queued {
  WaiterId waiter = 0;
  std::uint64_t attachment = 0;
  std::uint32_t queue_length = 0;
};

struct Renewed {
  Duration ttl{};
  Duration remaining{};
};

struct NotRenewed {
  Cause cause = Cause::kNone;
  Duration remaining{};  // kRevoking, kHoldLimit: still held for this long
  std::string reason;
};

struct Released {
  bool released = false;
  Cause cause = Cause::kNone;
};

enum class CancelResult : std::uint8_t {
  kBeforeArrival = 1,
  kWaiterRemoved = 2,
  kProvisionalReleased = 3,
  kStillGranted = 4,
  kAlreadyOver = 5,
  kNotYours = 6,
  kMemoryFull = 7,
};

const char* CancelResultName(CancelResult result);  // "WAITER_REMOVED"

struct Cancelled {
  CancelResult result = CancelResult::kAlreadyOver;
};

enum class BreakResult : std::uint8_t {
  kRevoking = 1,
  kEndedNow = 2,
  kWouldBreak = 3,
  kNotTaken = 4,
  kUnsafeRefused = 5,
};

const char* BreakResultName(BreakResult result);  // "ENDED_NOW"

struct Broken {
  BreakResult result = BreakResult::kNotTaken;
  std::unique_ptr<HolderView> holder;
  std::string next_owner;
};

struct Proclaimed {
  bool proclaimed = false;
  Cause cause = Cause::kNone;
};

struct SessionOpened {
  Id128 session_id{};
  Duration ttl{};
  Duration remaining{};
};

enum class SessionRefusal : std::uint8_t {
  kLimit = 1,
  kRequestIdReused = 2,
  kEnded = 3,
  kGrantsBlocked = 4
};

const char* SessionRefusalName(SessionRefusal reason);  // "SESSION_LIMIT"

struct SessionRefused {
  SessionRefusal reason = SessionRefusal::kLimit;
  std::string limit;
};

struct SessionKept {
  bool alive = false;
  Duration remaining{};
  Cause cause = Cause::kNone;
  // Rises when a hold stops being renewed by the session's keepalives.
  std::uint64_t revocations = 0;
};

struct SessionClosed {
  bool closed = false;
  Cause cause = Cause::kNone;
};

enum class NamespaceResult : std::uint8_t {
  kOk = 1,
  kNotFound = 2,
  kExists = 3,
  kNotEmpty = 4,
  kLimit = 5
};

// kLimit: there are too many namespaces, or the change does not fit the policy as another change
// has just left it.
struct NamespaceChanged {
  NamespaceResult result = NamespaceResult::kOk;
  Policy policy;
};

struct FeatureLevelSet {
  bool accepted = false;
  std::uint32_t level = 0;
};

// The namespace of the command does not exist. Nothing was done.
struct NoSuchNamespace {};

// The engine's own commands (EpochStart, Detach, RecoverState) have no answer.
struct Done {};

using Outcome =
    std::variant<Done, Granted, Refused, Queued, Renewed, NotRenewed, Released, Cancelled, Broken,
                 Proclaimed, SessionOpened, SessionRefused, SessionKept, SessionClosed,
                 NamespaceChanged, FeatureLevelSet, NoSuchNamespace>;

}  // namespace holdfast::core
