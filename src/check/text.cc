#include "check/text.h"

#include <cstdlib>

#include "base/overloaded.h"

namespace holdfast::check {
namespace {

using namespace core;  // NOLINT(google-build-using-namespace): this file only spells out its
                       // vocabulary

std::string Field(const char* name, const std::string& value) {
  return value.empty() ? std::string() : std::string(" ") + name + "=" + value;
}

std::string Field(const char* name, std::uint64_t value) {
  return std::string(" ") + name + "=" + std::to_string(value);
}

std::string Field(const char* name, Duration value) {
  return std::string(" ") + name + "=" + Text(value);
}

std::string Holder(const HolderView& holder) {
  std::string text =
      " holder=" + holder.owner + Field("token", holder.token) + Field("left", holder.left);
  text += holder.provisional ? " provisional" : "";
  return text + (holder.revoking ? " revoking" : "");
}

std::string TextOf(const Granted& o, Names& names) {
  return "GRANTED " + names.Lease(o.lease_id) + Field("token", o.token) + Field("ttl", o.ttl) +
         Field("left", o.remaining) + " " + GuaranteeName(o.guarantee) +
         (o.provisional ? " provisional" : "");
}

std::string TextOf(const Refused& o) {
  std::string text = RefusalName(o.code);
  text += o.cause == Cause::kNone ? "" : std::string(" ") + CauseName(o.cause);
  text += o.holder == nullptr ? "" : Holder(*o.holder);
  text += o.queue_length == 0 ? "" : Field("queue", o.queue_length);
  text += o.retry_after.has_value() ? Field("retry_after", *o.retry_after) : "";
  return text + Field("limit", o.limit);
}

std::string TextOf(const NotRenewed& o) {
  return std::string("NOT_RENEWED ") + CauseName(o.cause) +
         (o.remaining > Duration{} ? Field("left", o.remaining) : "") + Field("reason", o.reason);
}

std::string TextOf(const Cancelled& o) {
  return CancelResultName(o.result);
}

std::string TextOf(const Broken& o) {
  return BreakResultName(o.result) + (o.holder == nullptr ? std::string() : Holder(*o.holder)) +
         Field("next", o.next_owner);
}

std::string TextOf(const SessionRefused& o) {
  return SessionRefusalName(o.reason) + Field("limit", o.limit);
}

// Only what differs from the built-in policy.
std::string PolicyText(const Policy& p) {
  const Policy usual;
  std::string text = std::string(" ") + GuaranteeName(p.protection) + (p.strict ? " strict" : "");
  const auto add = [&](const char* name, auto value, auto as_usual) {
    text += value == as_usual ? std::string() : Field(name, value);
  };
  add("ttl_default", p.ttl_default, usual.ttl_default);
  add("ttl_min", p.ttl_min, usual.ttl_min);
  add("ttl_max", p.ttl_max, usual.ttl_max);
  add("hold_max", p.hold_max, usual.hold_max);
  add("wait_max", p.wait_max, usual.wait_max);
  add("waiters_per_resource", p.waiters_per_resource, usual.waiters_per_resource);
  add("waiters_per_tenant", p.waiters_per_tenant, usual.waiters_per_tenant);
  add("holds_per_tenant", p.holds_per_tenant, usual.holds_per_tenant);
  add("sessions_per_tenant", p.sessions_per_tenant, usual.sessions_per_tenant);
  add("lock_delay", p.lock_delay, usual.lock_delay);
  add("request_memory", p.request_memory, usual.request_memory);
  add("request_bytes_per_tenant", p.request_bytes_per_tenant, usual.request_bytes_per_tenant);
  add("detach_grace", p.detach_grace, usual.detach_grace);
  return text;
}

std::string NamespaceText(NamespaceResult result, const Policy& policy) {
  switch (result) {
    case NamespaceResult::kOk:
      return "OK" + PolicyText(policy);
    case NamespaceResult::kNotFound:
      return "NOT_FOUND";
    case NamespaceResult::kExists:
      return "EXISTS";
    case NamespaceResult::kNotEmpty:
      return "NOT_EMPTY";
    case NamespaceResult::kLimit:
      return "LIMIT";
  }
  return {};
}

std::string TextOf(const ResourceView& v) {
  std::string text = v.state == ResourceState::kTaken     ? "TAKEN"
                     : v.state == ResourceState::kDelayed ? "DELAYED"
                                                          : "FREE";
  text = v.resource + " " + text + (v.holder == nullptr ? std::string() : Holder(*v.holder));
  text += v.state == ResourceState::kDelayed ? Field("delay_left", v.delay_left) : "";
  text += v.queue_length == 0 ? "" : Field("queue", v.queue_length);
  text += Field("value", v.value) + " " + GuaranteeName(v.guarantee);
  for (const WaiterView& waiter : v.queue) {
    text += "\n  waiter " + waiter.owner + Field("waiting_for", waiter.waiting_for) +
            Field("wait_left", waiter.wait_left) + (waiter.detached ? " detached" : "");
  }
  for (const TransitionView& transition : v.transitions) {
    text += std::string("\n  ") + CauseName(transition.cause) + Field("token", transition.token) +
            " " + transition.owner + Field("reason", transition.reason);
  }
  return text;
}

std::string TextOf(const CountsView& v) {
  std::string text = "resources=" + std::to_string(v.resources) + Field("holds", v.holds) +
                     Field("waiters", v.waiters) + Field("sessions", v.sessions) +
                     Field("request_ids", v.request_ids) + Field("last_token", v.last_token);
  text += v.expiry_lag > Duration{} ? Field("expiry_lag", v.expiry_lag) : "";
  return text + (v.grants_blocked_for > Duration{}
                     ? Field("grants_blocked_for", v.grants_blocked_for)
                     : "");
}

}  // namespace

Id128 Names::Find(std::string_view name) const {
  for (const auto& [id, known] : names_) {
    if (known == name) {
      return id;
    }
  }
  return Id128{};
}

std::string Names::NameOf(const Id128& id, char letter, int& count) {
  std::string& name = names_[id];
  if (name.empty()) {
    name = std::string("$") + letter + std::to_string(++count);
  }
  return name;
}

std::string Text(Duration duration) {
  const std::int64_t nanos = std::abs(static_cast<std::int64_t>(duration.count()));
  std::string text = (duration < Duration{} ? "-" : "") + std::to_string(nanos / 1'000'000'000);
  std::string fraction = std::to_string(1'000'000'000 + nanos % 1'000'000'000).substr(1);
  fraction.erase(fraction.find_last_not_of('0') + 1);
  return text + (fraction.empty() ? "" : "." + fraction) + "s";
}

std::string Text(const Outcome& outcome, Names& names) {
  const Overloaded text{
      [](const Done&) { return std::string("DONE"); },
      [&](const Granted& o) { return TextOf(o, names); },
      [](const Refused& o) { return TextOf(o); },
      [](const Queued& o) {
        return "QUEUED" + Field("waiter", o.waiter) + Field("attachment", o.attachment) +
               Field("queue", o.queue_length);
      },
      [](const Renewed& o) { return "RENEWED" + Field("ttl", o.ttl) + Field("left", o.remaining); },
      [](const NotRenewed& o) { return TextOf(o); },
      [](const Released& o) {
        return o.released ? std::string("RELEASED")
                          : std::string("NOT_RELEASED ") + CauseName(o.cause);
      },
      [](const Cancelled& o) { return TextOf(o); },
      [](const Broken& o) { return TextOf(o); },
      [](const Proclaimed& o) {
        return o.proclaimed ? std::string("PROCLAIMED")
                            : std::string("NOT_PROCLAIMED ") + CauseName(o.cause);
      },
      [&](const SessionOpened& o) {
        return "OPENED " + names.Session(o.session_id) + Field("ttl", o.ttl) +
               Field("left", o.remaining);
      },
      [](const SessionRefused& o) { return TextOf(o); },
      [](const SessionKept& o) {
        return o.alive ? "KEPT" + Field("left", o.remaining) +
                             (o.revocations > 0 ? Field("revocations", o.revocations) : "")
                       : std::string("NOT_KEPT ") + CauseName(o.cause);
      },
      [](const SessionClosed& o) {
        return o.closed ? std::string("CLOSED") : std::string("NOT_CLOSED ") + CauseName(o.cause);
      },
      [](const NamespaceChanged& o) { return NamespaceText(o.result, o.policy); },
      [](const FeatureLevelSet& o) {
        return (o.accepted ? "ACCEPTED" : "NOT_ACCEPTED") + Field("level", o.level);
      },
      [](const NoSuchNamespace&) { return std::string("NO_SUCH_NAMESPACE"); },
  };
  return std::visit(text, outcome);
}

std::string Text(const Event& event) {
  std::string text = EventKindName(event.kind);
  text += event.cause == Cause::kNone ? "" : std::string(" ") + CauseName(event.cause);
  text += event.resource.empty() ? "" : " " + event.resource;
  text += event.name_space == "default" ? "" : " ns=" + event.name_space;
  text += Field("owner", event.owner) + (event.token == 0 ? "" : Field("token", event.token));
  return text + Field("value", event.value) + Field("reason", event.reason);
}

std::string Text(const View& view) {
  const Overloaded text{
      [](const ResourceView& v) { return TextOf(v); },
      [](const ListView& v) {
        std::string lines =
            std::to_string(v.items.size()) + " items" + (v.more ? " more after " + v.last : "");
        for (const ResourceView& item : v.items) {
          lines += "\n  " + TextOf(item);
        }
        return lines;
      },
      [](const TokenView& v) { return std::string(TokenVerdictName(v.verdict)); },
      [](const LeaderView& v) {
        return v.vacant ? std::string("VACANT")
                        : "LEADER" + Field("owner", v.owner) + Field("token", v.token) +
                              Field("value", v.value) + Field("left", v.left);
      },
      [](const SessionView& v) {
        return v.alive ? "ALIVE" + Field("left", v.remaining) + Field("holds", v.holds) +
                             Field("waits", v.waits)
                       : std::string("OVER ") + CauseName(v.cause);
      },
      [](const NamespaceView& v) { return v.name + " " + NamespaceText(v.result, v.policy); },
      [](const NamespacesView& v) {
        std::string lines = std::to_string(v.namespaces.size()) + " namespaces";
        for (const NamespaceView& item : v.namespaces) {
          lines += "\n  " + item.name + PolicyText(item.policy);
        }
        return lines;
      },
      [](const CountsView& v) { return TextOf(v); },
      [](const NoSuchNamespace&) { return std::string("NO_SUCH_NAMESPACE"); },
  };
  return std::visit(text, view);
}

}  // namespace holdfast::check
