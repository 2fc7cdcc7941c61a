// Stable names of enumerators, as audit, the CLI and the docs print them.
#include "core/event.h"
#include "core/outcome.h"
#include "core/view.h"

namespace holdfast::core {

const char* CauseName(Cause cause) {
  switch (cause) {
    case Cause::kNone:
      return "NONE";
    case Cause::kReleased:
      return "RELEASED";
    case Cause::kExpired:
      return "EXPIRED";
    case Cause::kSessionClosed:
      return "SESSION_CLOSED";
    case Cause::kSessionExpired:
      return "SESSION_EXPIRED";
    case Cause::kBroken:
      return "BROKEN";
    case Cause::kUnconfirmed:
      return "UNCONFIRMED";
    case Cause::kCancelled:
      return "CANCELLED";
    case Cause::kWaitTimedOut:
      return "WAIT_TIMED_OUT";
    case Cause::kDetachedTooLong:
      return "DETACHED_TOO_LONG";
    case Cause::kNamespaceDeleted:
      return "NAMESPACE_DELETED";
    case Cause::kHandedOver:
      return "HANDED_OVER";
    case Cause::kAcquired:
      return "ACQUIRED";
    case Cause::kNeverHeld:
      return "NEVER_HELD";
    case Cause::kHoldLimit:
      return "HOLD_LIMIT";
    case Cause::kRevoking:
      return "REVOKING";
  }
  return "NONE";
}

const char* RefusalName(RefusalCode code) {
  switch (code) {
    case RefusalCode::kNone:
      return "NONE";
    case RefusalCode::kHeld:
      return "HELD";
    case RefusalCode::kWaitTimeout:
      return "WAIT_TIMEOUT";
    case RefusalCode::kQueueFull:
      return "QUEUE_FULL";
    case RefusalCode::kTenantLimit:
      return "TENANT_LIMIT";
    case RefusalCode::kDelayed:
      return "DELAYED";
    case RefusalCode::kCancelled:
      return "CANCELLED";
    case RefusalCode::kAlreadyHeld:
      return "ALREADY_HELD";
    case RefusalCode::kAlreadyWaiting:
      return "ALREADY_WAITING";
    case RefusalCode::kRequestIdReused:
      return "REQUEST_ID_REUSED";
    case RefusalCode::kEnded:
      return "ENDED";
    case RefusalCode::kSessionEnded:
      return "SESSION_ENDED";
    case RefusalCode::kFencingRequired:
      return "FENCING_REQUIRED";
    case RefusalCode::kGrantsBlocked:
      return "GRANTS_BLOCKED";
    case RefusalCode::kSuperseded:
      return "SUPERSEDED";
    case RefusalCode::kStateFull:
      return "STATE_FULL";
  }
  return "NONE";
}

const char* EventKindName(EventKind kind) {
  switch (kind) {
    case EventKind::kGranted:
      return "GRANTED";
    case EventKind::kEnded:
      return "ENDED";
    case EventKind::kRevoking:
      return "REVOKING";
    case EventKind::kWaiting:
      return "WAITING";
    case EventKind::kWaiterLeft:
      return "WAITER_LEFT";
    case EventKind::kProclaimed:
      return "PROCLAIMED";
    case EventKind::kConfirmed:
      return "CONFIRMED";
    case EventKind::kSessionOpened:
      return "SESSION_OPENED";
    case EventKind::kSessionEnded:
      return "SESSION_ENDED";
  }
  return "GRANTED";
}

const char* CancelResultName(CancelResult result) {
  switch (result) {
    case CancelResult::kBeforeArrival:
      return "CANCELLED_BEFORE_ARRIVAL";
    case CancelResult::kWaiterRemoved:
      return "WAITER_REMOVED";
    case CancelResult::kProvisionalReleased:
      return "PROVISIONAL_RELEASED";
    case CancelResult::kStillGranted:
      return "STILL_GRANTED";
    case CancelResult::kAlreadyOver:
      return "ALREADY_OVER";
    case CancelResult::kNotYours:
      return "NOT_YOURS";
    case CancelResult::kMemoryFull:
      break;
  }
  return "MEMORY_FULL";
}

const char* BreakResultName(BreakResult result) {
  switch (result) {
    case BreakResult::kRevoking:
      return "REVOKING_STARTED";
    case BreakResult::kEndedNow:
      return "ENDED_NOW";
    case BreakResult::kWouldBreak:
      return "WOULD_BREAK";
    case BreakResult::kNotTaken:
      return "NOT_TAKEN";
    case BreakResult::kUnsafeRefused:
      break;
  }
  return "UNSAFE_REFUSED";
}

const char* SessionRefusalName(SessionRefusal reason) {
  switch (reason) {
    case SessionRefusal::kLimit:
      return "SESSION_LIMIT";
    case SessionRefusal::kRequestIdReused:
      return "REQUEST_ID_REUSED";
    case SessionRefusal::kEnded:
      return "ENDED";
    case SessionRefusal::kGrantsBlocked:
      break;
  }
  return "GRANTS_BLOCKED";
}

const char* GuaranteeName(Guarantee guarantee) {
  return guarantee == Guarantee::kFenced ? "FENCED" : "ADVISORY";
}

const char* ResourceStateName(ResourceState state) {
  switch (state) {
    case ResourceState::kFree:
      return "FREE";
    case ResourceState::kTaken:
      return "TAKEN";
    case ResourceState::kDelayed:
      break;
  }
  return "IN_DELAY";
}

const char* TokenVerdictName(TokenVerdict verdict) {
  switch (verdict) {
    case TokenVerdict::kCurrent:
      return "CURRENT";
    case TokenVerdict::kOld:
      return "OLD";
    case TokenVerdict::kNeverIssued:
      break;
  }
  return "NEVER_ISSUED";
}

}  // namespace holdfast::core
