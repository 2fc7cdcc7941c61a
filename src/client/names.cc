#include <array>
#include <cstddef>

#include "holdfast/metrics.h"
#include "holdfast/states.h"
#include "holdfast/types.h"

namespace holdfast::client {
namespace {

// The tables are in the order of the enumerators.
template <typename Enum, std::size_t N>
const char* NameIn(const std::array<const char*, N>& names, Enum value) {
  const auto position = static_cast<std::size_t>(value);
  return position < N ? names[position] : "UNKNOWN";
}

}  // namespace

const char* Name(Guarantee guarantee) {
  static constexpr std::array<const char*, 3> kNames = {"UNSPECIFIED", "ADVISORY", "FENCED"};
  return NameIn(kNames, guarantee);
}

const char* Name(Cause cause) {
  static constexpr std::array<const char*, 16> kNames = {
      "UNSPECIFIED",       "RELEASED",          "EXPIRED",
      "SESSION_CLOSED",    "SESSION_EXPIRED",   "BROKEN",
      "UNCONFIRMED",       "CANCELLED",         "WAIT_TIMED_OUT",
      "DETACHED_TOO_LONG", "NAMESPACE_DELETED", "HANDED_OVER",
      "ACQUIRED",          "NEVER_HELD",        "HOLD_LIMIT",
      "REVOKING"};
  return NameIn(kNames, cause);
}

const char* Name(RefusalCode code) {
  static constexpr std::array<const char*, 16> kNames = {
      "UNSPECIFIED", "HELD",          "WAIT_TIMEOUT",     "QUEUE_FULL",      "TENANT_LIMIT",
      "DELAYED",     "CANCELLED",     "ALREADY_HELD",     "ALREADY_WAITING", "REQUEST_ID_REUSED",
      "ENDED",       "SESSION_ENDED", "FENCING_REQUIRED", "GRANTS_BLOCKED",  "SUPERSEDED",
      "STATE_FULL"};
  return NameIn(kNames, code);
}

const char* Name(CancelOutcome outcome) {
  static constexpr std::array<const char*, 8> kNames = {
      "UNSPECIFIED",    "CANCELLED_BEFORE_ARRIVAL",
      "WAITER_REMOVED", "PROVISIONAL_RELEASED",
      "STILL_GRANTED",  "ALREADY_OVER",
      "NOT_YOURS",      "MEMORY_FULL"};
  return NameIn(kNames, outcome);
}

const char* Name(ResourceState state) {
  static constexpr std::array<const char*, 4> kNames = {"UNSPECIFIED", "FREE", "TAKEN", "IN_DELAY"};
  return NameIn(kNames, state);
}

const char* Name(TokenVerdict verdict) {
  static constexpr std::array<const char*, 4> kNames = {"UNSPECIFIED", "CURRENT", "OLD",
                                                        "NEVER_ISSUED"};
  return NameIn(kNames, verdict);
}

const char* Name(BreakOutcome outcome) {
  static constexpr std::array<const char*, 6> kNames = {
      "UNSPECIFIED", "REVOKING_STARTED", "ENDED_NOW", "WOULD_BREAK", "NOT_TAKEN", "UNSAFE_REFUSED"};
  return NameIn(kNames, outcome);
}

const char* Name(WatchKind kind) {
  static constexpr std::array<const char*, 8> kNames = {
      "UNSPECIFIED", "GRANTED",     "ENDED",      "REVOKED",
      "WAITING",     "WAITER_LEFT", "PROCLAIMED", "RENEWED_CONFIRMED"};
  return NameIn(kNames, kind);
}

const char* Name(SessionRefusal reason) {
  static constexpr std::array<const char*, 5> kNames = {
      "UNSPECIFIED", "SESSION_LIMIT", "REQUEST_ID_REUSED", "ENDED", "GRANTS_BLOCKED"};
  return NameIn(kNames, reason);
}

const char* Name(NamespaceOutcome outcome) {
  static constexpr std::array<const char*, 6> kNames = {"UNSPECIFIED",         "OK",
                                                        "NAMESPACE_NOT_FOUND", "NAMESPACE_EXISTS",
                                                        "NAMESPACE_NOT_EMPTY", "NAMESPACE_LIMIT"};
  return NameIn(kNames, outcome);
}

const char* Name(LockState state) {
  static constexpr std::array<const char*, 8> kNames = {"ACQUIRING", "CONFIRMING",  "HELD",
                                                        "REVOKING",  "RELEASING",   "RELEASED",
                                                        "LOST",      "NOT_ACQUIRED"};
  return NameIn(kNames, state);
}

const char* Name(SessionState state) {
  static constexpr std::array<const char*, 7> kNames = {
      "OPENING", "SAFE", "JEOPARDY", "CLOSING", "CLOSED", "EXPIRED", "NOT_OPENED"};
  return NameIn(kNames, state);
}

const char* Name(AttemptEnd end) {
  static constexpr std::array<const char*, 4> kNames = {"ANSWERED", "NOTHING_DONE", "UNKNOWN",
                                                        "FAILED"};
  return NameIn(kNames, end);
}

}  // namespace holdfast::client
