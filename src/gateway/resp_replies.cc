// Answers of the native verbs.
#include <algorithm>
#include <utility>

#include "base/overloaded.h"
#include "gateway/resp_verbs.h"

namespace holdfast::gateway {
namespace {

const char* PrefixOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "INVALIDARG";
    case ErrorCode::kNotFound:
      return "NOTFOUND";
    case ErrorCode::kAlreadyExists:
      return "EXISTS";
    case ErrorCode::kUnauthenticated:
      return "NOAUTH";
    case ErrorCode::kPermissionDenied:
      return "NOPERM";
    case ErrorCode::kOverloaded:
      return "OVERLOADED";
    case ErrorCode::kUnavailable:
    case ErrorCode::kBusy:
    case ErrorCode::kDiskFull:
      return "UNAVAILABLE";
    case ErrorCode::kUnknownOutcome:
    case ErrorCode::kDeadlineExceeded:
      return "UNKNOWNOUTCOME";
    case ErrorCode::kUnsupported:
      return "UNSUPPORTED";
    case ErrorCode::kCorrupt:
    case ErrorCode::kIo:
    case ErrorCode::kInternal:
      break;
  }
  return "INTERNAL";
}

void AddCause(RespMap& map, core::Cause cause) {
  if (cause != core::Cause::kNone) {
    map.Add("cause", core::CauseName(cause));
  }
}

void AddHolder(RespMap& map, const core::HolderView& holder) {
  map.Add("holder_owner", holder.owner)
      .Add("holder_principal", holder.principal)
      .Add("holder_fencing_token", static_cast<std::int64_t>(holder.token))
      .Add("holder_lease_fp", Fingerprint(holder.lease_id))
      .Add("holder_held_for_ms", ToMillis(holder.held_for))
      .Add("holder_left_ms", ToMillis(holder.left));
  if (holder.revoking) {
    map.Add("holder_revoking", 1);
  }
}

void Fill(const core::Granted& o, RespMap& map) {
  map.Add("outcome", "GRANTED")
      .Add("fencing_token", static_cast<std::int64_t>(o.token))
      .Add("lease_id", ToHex(o.lease_id))
      .Add("ttl_ms", ToMillis(o.ttl))
      .Add("remaining_ms", ToMillis(o.remaining))
      .Add("guarantee", core::GuaranteeName(o.guarantee));
  if (o.provisional) {
    map.Add("provisional", 1);
  }
}

void Fill(const core::Refused& o, RespMap& map) {
  map.Add("outcome", core::RefusalName(o.code));
  AddCause(map, o.cause);
  if (o.holder != nullptr) {
    AddHolder(map, *o.holder);
  }
  map.Add("queue_length", o.queue_length);
  if (o.retry_after.has_value()) {
    map.Add("retry_after_ms", ToMillis(*o.retry_after));
  }
  map.AddIfAny("limit", o.limit);
}

void Fill(const core::Renewed& o, RespMap& map) {
  map.Add("outcome", "RENEWED")
      .Add("ttl_ms", ToMillis(o.ttl))
      .Add("remaining_ms", ToMillis(o.remaining));
}

void Fill(const core::NotRenewed& o, RespMap& map) {
  map.Add("outcome", "NOT_RENEWED").Add("cause", core::CauseName(o.cause));
  map.Add("remaining_ms", ToMillis(o.remaining)).AddIfAny("reason", o.reason);
}

void Fill(const core::Released& o, RespMap& map) {
  map.Add("outcome", o.released ? "RELEASED" : "NOT_RELEASED");
  AddCause(map, o.cause);
}

void Fill(const core::Cancelled& o, RespMap& map) {
  map.Add("outcome", core::CancelResultName(o.result));
}

void Fill(const core::Broken& o, RespMap& map) {
  map.Add("outcome", core::BreakResultName(o.result));
  if (o.holder != nullptr) {
    AddHolder(map, *o.holder);
  }
  map.AddIfAny("next_owner", o.next_owner);
}

void Fill(const core::Proclaimed& o, RespMap& map) {
  map.Add("outcome", o.proclaimed ? "PROCLAIMED" : "NOT_PROCLAIMED");
  AddCause(map, o.cause);
}

void Fill(const core::SessionOpened& o, RespMap& map) {
  map.Add("outcome", "OPENED")
      .Add("session_id", ToHex(o.session_id))
      .Add("ttl_ms", ToMillis(o.ttl))
      .Add("remaining_ms", ToMillis(o.remaining));
}

void Fill(const core::SessionRefused& o, RespMap& map) {
  map.Add("outcome", core::SessionRefusalName(o.reason)).AddIfAny("limit", o.limit);
}

void Fill(const core::SessionKept& o, RespMap& map) {
  map.Add("outcome", o.alive ? "KEPT" : "NOT_KEPT")
      .Add("remaining_ms", ToMillis(o.remaining))
      .Add("revocations", static_cast<std::int64_t>(o.revocations));
  AddCause(map, o.cause);
}

void Fill(const core::SessionClosed& o, RespMap& map) {
  map.Add("outcome", o.closed ? "CLOSED" : "NOT_CLOSED");
  AddCause(map, o.cause);
}

void FillShort(const core::ResourceView& v, RespMap& map) {
  map.Add("state", core::ResourceStateName(v.state));
  if (v.holder != nullptr) {
    AddHolder(map, *v.holder);
  }
  if (v.state == core::ResourceState::kDelayed) {
    map.Add("delay_left_ms", ToMillis(v.delay_left));
  }
  map.Add("queue_length", v.queue_length);
}

void WriteWaiters(const std::vector<core::WaiterView>& queue, RespWriter& writer) {
  writer.Array(queue.size());
  for (const core::WaiterView& waiter : queue) {
    RespMap map(writer);
    map.Add("owner", waiter.owner)
        .Add("principal", waiter.principal)
        .Add("waiting_for_ms", ToMillis(waiter.waiting_for))
        .Add("wait_left_ms", ToMillis(waiter.wait_left))
        .Add("detached", waiter.detached ? 1 : 0)
        .WriteTo(writer);
  }
}

void WriteTransitions(const std::vector<core::TransitionView>& transitions, RespWriter& writer) {
  writer.Array(transitions.size());
  for (const core::TransitionView& transition : transitions) {
    RespMap map(writer);
    map.Add("index", static_cast<std::int64_t>(transition.index))
        .Add("at_ms", ToMillis(transition.at.time_since_epoch()))
        .Add("cause", core::CauseName(transition.cause))
        .Add("fencing_token", static_cast<std::int64_t>(transition.token))
        .Add("owner", transition.owner)
        .AddIfAny("reason", transition.reason)
        .WriteTo(writer);
  }
}

void Fill(const core::ResourceView& v, RespMap& map) {
  FillShort(v, map);
  map.Add("guarantee", core::GuaranteeName(v.guarantee)).AddIfAny("value", v.value);
  WriteWaiters(v.queue, map.Key("queue"));
  WriteTransitions(v.transitions, map.Key("transitions"));
}

void Fill(const core::ListView& v, RespMap& map) {
  RespWriter& writer = map.Key("items");
  writer.Array(v.items.size());
  for (const core::ResourceView& item : v.items) {
    RespMap entry(writer);
    entry.Add("name", item.resource);
    FillShort(item, entry);
    entry.WriteTo(writer);
  }
  if (v.more && !v.items.empty()) {
    map.Add("next", v.items.back().resource);
  }
}

void Fill(const core::TokenView& v, RespMap& map) {
  map.Add("verdict", core::TokenVerdictName(v.verdict));
}

void Fill(const core::LeaderView& v, RespMap& map) {
  map.Add("vacant", v.vacant ? 1 : 0);
  if (!v.vacant) {
    map.Add("value", v.value)
        .Add("fencing_token", static_cast<std::int64_t>(v.token))
        .Add("owner", v.owner)
        .Add("left_ms", ToMillis(v.left));
  }
}

void Fill(const core::SessionView& v, RespMap& map) {
  map.Add("alive", v.alive ? 1 : 0);
  AddCause(map, v.cause);
  if (v.alive) {
    map.Add("owner", v.owner)
        .Add("ttl_ms", ToMillis(v.ttl))
        .Add("remaining_ms", ToMillis(v.remaining))
        .Add("holds", v.holds)
        .Add("waits", v.waits);
  }
}

// Whether `answer` is of a kind that a verb can have, and was written.
template <typename Answer>
bool FillFrom(const Answer& answer, RespMap& map) {
  return std::visit(
      [&map](const auto& kind) {
        if constexpr (requires { Fill(kind, map); }) {
          Fill(kind, map);
          return true;
        }
        return false;
      },
      answer);
}

}  // namespace

void WriteError(const Error& error, RespWriter& writer) {
  std::string message = error.message;
  if (!error.field.empty()) {
    message += " (field " + error.field;
    message += error.limit.empty() ? ")" : ", limit: " + error.limit + ")";
  }
  writer.Error(PrefixOf(error.code), message);
}

void WriteReply(const RespVerb& verb, const std::string& request_id, engine::Reply& reply,
                RespWriter& writer) {
  if (const auto* error = std::get_if<Error>(&reply.answer)) {
    WriteError(*error, writer);
    return;
  }
  RespMap map(writer);
  const auto* outcome = std::get_if<core::Outcome>(&reply.answer);
  const auto* view = std::get_if<core::View>(&reply.answer);
  const bool missing =
      outcome != nullptr ? std::holds_alternative<core::NoSuchNamespace>(*outcome)
                         : view != nullptr && std::holds_alternative<core::NoSuchNamespace>(*view);
  if (missing) {
    WriteError({ErrorCode::kNotFound, "there is no such namespace", "namespace", ""}, writer);
  } else if (outcome != nullptr ? FillFrom(*outcome, map)
                                : view != nullptr && FillFrom(*view, map)) {
    map.AddIfAny("request_id", request_id).WriteTo(writer);
  } else {
    WriteError(
        {ErrorCode::kInternal, std::string("unexpected kind of reply to ") + verb.name, "", ""},
        writer);
  }
}

void WriteWatchItem(std::int64_t watch, const engine::WatchItem& item, RespWriter& writer) {
  writer.Push(3);
  writer.Bulk("holdfast.watch");
  writer.Integer(watch);
  RespMap map(writer);
  if (const auto* gap = std::get_if<engine::WatchGap>(&item)) {
    map.Add("kind", "GAP").Add("index", static_cast<std::int64_t>(gap->index)).WriteTo(writer);
    return;
  }
  const auto& watched = std::get<engine::WatchedEvent>(item);
  const core::Event& event = *watched.event;
  map.Add("kind", core::EventKindName(event.kind))
      .Add("index", static_cast<std::int64_t>(watched.index))
      .Add("name", event.resource)
      .Add("owner", event.owner);
  if (event.token != 0) {
    map.Add("fencing_token", static_cast<std::int64_t>(event.token));
  }
  AddCause(map, event.cause);
  map.AddIfAny("value", event.value).AddIfAny("reason", event.reason).WriteTo(writer);
}

}  // namespace holdfast::gateway
