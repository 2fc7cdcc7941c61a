#include "core/machine.h"

#include <algorithm>

#include "base/check.h"
#include "base/overloaded.h"
#include "core/hash.h"
#include "core/limits.h"
#include "core/validate.h"

namespace holdfast::core {
namespace {

bool IsKeepAlive(const Command& command) {
  return std::holds_alternative<KeepAlive>(command.body);
}
bool IsRenew(const Command& command) {
  return std::holds_alternative<Renew>(command.body);
}

}  // namespace

void Machine::Apply(const Batch& batch, Applied& out) {
  HF_CHECK(batch.index > index_ && batch.epoch >= epoch_, "batches follow each other");
  HF_CHECK(batch.time >= now_ && batch.time - now_ <= kTimeStepMax,
           "state time moves by at most a second");
  out.Clear();
  out.outcomes.resize(batch.commands.size());
  Context context{batch.time,  now_,           std::max(batch.wall, wall_),
                  batch.index, timers_,        floors_,
                  out,         kDuePerBatchMax};
  now_ = batch.time;
  wall_ = context.wall;
  index_ = batch.index;
  epoch_ = batch.epoch;

  if (!batch.commands.empty()) {
    if (const auto* start = std::get_if<EpochStart>(&batch.commands.front().body);
        start != nullptr) {
      StartEpoch(context, *start);
    }
  }
  // Keepalives come before renewals, since a hold on a session lives as long as the session.
  for (const auto is_in_turn : {IsKeepAlive, IsRenew}) {
    for (std::size_t i = 0; i < batch.commands.size(); ++i) {
      if (is_in_turn(batch.commands[i])) {
        out.outcomes[i] = RunInNamespace(context, batch.commands[i]);
      }
    }
  }
  RunDue(context);
  for (std::size_t i = 0; i < batch.commands.size(); ++i) {
    if (!IsKeepAlive(batch.commands[i]) && !IsRenew(batch.commands[i])) {
      out.outcomes[i] = Run(context, batch.commands[i]);
    }
  }
  locks_.DrainSessions(context);
  Trace(out);
}

void Machine::StartEpoch(Context& context, const EpochStart& command) {
  floors_.Add(context.now, command.grace, timers_.First(context.now));
  locks_.DetachAll(context);
}

void Machine::RunDue(Context& context) {
  while (context.due_left > 0 && timers_.HasDue(now_)) {
    --context.due_left;
    const Timer timer = timers_.PopFirst();
    switch (timer.kind) {
      case TimerKind::kSession:
        sessions_.OnTimer(context, timer.slot);
        break;
      case TimerKind::kForgetRequests:
        requests_.OnForgetRequests(context, static_cast<NamespaceId>(timer.id));
        break;
      case TimerKind::kForgetClients:
        requests_.OnForgetClients(context, static_cast<NamespaceId>(timer.id));
        break;
      case TimerKind::kLease:
      case TimerKind::kWait:
      case TimerKind::kDetach:
      case TimerKind::kDelay:
        locks_.OnTimer(context, timer);
        break;
    }
  }
  locks_.DrainSessions(context);
}

Outcome Machine::Run(Context& context, const Command& command) {
  const Overloaded run{
      [&](const ChangeNamespace& c) -> Outcome { return namespaces_.Change(c); },
      [&](const SetFeatureLevel& c) -> Outcome {
        const bool accepted = c.level >= feature_level_;
        feature_level_ = std::max(feature_level_, c.level);
        return FeatureLevelSet{accepted, feature_level_};
      },
      [&](const RecoverState& c) -> Outcome {
        locks_.Recover(context, c.token_floor, context.now + c.block);
        return Done{};
      },
      [&](const Detach& c) -> Outcome {
        locks_.Detach(context, c);
        return Done{};
      },
      [&](const EpochStart&) -> Outcome { return Done{}; },  // done first, see Apply
      [&](const auto&) -> Outcome { return RunInNamespace(context, command); },
  };
  return std::visit(run, command.body);
}

Outcome Machine::RunInNamespace(Context& context, const Command& command) {
  const NamespaceId id = namespaces_.Find(command.name_space);
  if (id == 0) {
    return NoSuchNamespace{};
  }
  const Overloaded run{
      [&](const Acquire& c) -> Outcome {
        return locks_.Acquire(context, id, command.principal, c);
      },
      [&](const Renew& c) -> Outcome { return locks_.Renew(context, id, c); },
      [&](const Release& c) -> Outcome { return locks_.Release(context, id, c); },
      [&](const Cancel& c) -> Outcome { return locks_.Cancel(context, id, command.principal, c); },
      [&](const Break& c) -> Outcome { return locks_.Break(context, id, c); },
      [&](const Proclaim& c) -> Outcome { return locks_.Proclaim(context, id, c); },
      [&](const OpenSession& c) -> Outcome {
        return sessions_.Open(context, id, command.principal, c, locks_.GrantsBlocked(context.now));
      },
      [&](const KeepAlive&) -> Outcome { return sessions_.KeepAlive(context, id, command); },
      [&](const CloseSession& c) -> Outcome { return sessions_.Close(context, id, c); },
      [&](const auto&) -> Outcome { return Done{}; },
  };
  return std::visit(run, command.body);
}

View Machine::Answer(const Query& query, Timestamp as_of) const {
  const auto in_namespace = [&](const std::string& name, auto answer) -> View {
    const NamespaceId id = namespaces_.Find(name);
    return id == 0 ? View(NoSuchNamespace{}) : View(answer(id));
  };
  const Overloaded run{
      [&](const Describe& q) {
        return in_namespace(q.name_space, [&](NamespaceId id) {
          return locks_.Describe(floors_, id, q.resource, as_of);
        });
      },
      [&](const List& q) {
        return in_namespace(q.name_space,
                            [&](NamespaceId id) { return locks_.List(floors_, id, q, as_of); });
      },
      [&](const CheckToken& q) {
        return in_namespace(
            q.name_space, [&](NamespaceId id) { return locks_.CheckToken(floors_, id, q, as_of); });
      },
      [&](const Leader& q) {
        return in_namespace(q.name_space, [&](NamespaceId id) {
          return locks_.Leader(floors_, id, q.resource, as_of);
        });
      },
      [&](const DescribeSession& q) {
        return in_namespace(q.name_space, [&](NamespaceId id) {
          return sessions_.View(floors_, id, q.session_id, as_of);
        });
      },
      [&](const GetNamespace& q) -> View { return namespaces_.View(q.name); },
      [&](const ListNamespaces&) -> View { return namespaces_.ViewAll(); },
      [&](const GetCounts&) -> View { return Counts(as_of); },
  };
  return std::visit(run, query);
}

CountsView Machine::Counts(Timestamp as_of) const {
  CountsView counts;
  counts.resources = locks_.resources();
  counts.holds = locks_.holds();
  counts.waiters = locks_.waiters();
  counts.sessions = sessions_.size();
  counts.request_ids = requests_.size();
  counts.last_token = locks_.last_token();
  counts.time = now_;
  counts.feature_level = feature_level_;
  counts.expiry_lag = std::max(now_ - timers_.First(now_), Duration{});
  if (locks_.GrantsBlocked(as_of)) {
    counts.grants_blocked_for = locks_.blocked_until() - as_of;
  }
  return counts;
}

Status Machine::Admit(const Command& command) const {
  if (Status valid = Validate(command); !valid.ok()) {
    return valid;
  }
  if (const auto* change = std::get_if<ChangeNamespace>(&command.body); change != nullptr) {
    const NamespaceId id = namespaces_.Find(change->name);
    return ValidatePolicy(Patched(id == 0 ? Policy{} : namespaces_.At(id).policy, change->patch));
  }
  if (command.name_space.empty()) {
    return {};
  }
  const NamespaceId id = namespaces_.Find(command.name_space);
  if (id == 0) {
    return Error{ErrorCode::kNotFound,
                 "namespace \"" + command.name_space + "\" does not exist",
                 "namespace",
                 {}};
  }
  return ValidateAgainst(namespaces_.At(id).policy, command);
}

Duration Machine::LongestPromise() const {
  return namespaces_.LongestPromise(std::max(locks_.LongestTtl(), sessions_.LongestTtl()));
}

Duration Machine::TimeLeft(const Command& command) const {
  const NamespaceId id = namespaces_.Find(command.name_space);
  if (id == 0) {
    return Duration{};
  }
  if (const auto* renew = std::get_if<Renew>(&command.body); renew != nullptr) {
    return locks_.TimeLeft(floors_, id, renew->resource, renew->lease_id, now_);
  }
  return sessions_.View(floors_, id, std::get<KeepAlive>(command.body).session_id, now_).remaining;
}

void Machine::Trace(const Applied& out) {
  for (const Outcome& outcome : out.outcomes) {
    trace_ = Mix64(trace_ ^ outcome.index());
  }
  for (const Event& event : out.events) {
    const std::uint64_t kinds =
        static_cast<std::uint64_t>(event.kind) << 8U | static_cast<std::uint64_t>(event.cause);
    trace_ = Hash64(event.resource, trace_ ^ (event.token << 16U) ^ kinds);
  }
  trace_ = Mix64(trace_ ^ index_ ^ static_cast<std::uint64_t>(now_.time_since_epoch().count()));
}

std::string Machine::FindInconsistency() const {
  if (std::string wrong = requests_.FindInconsistency(timers_); !wrong.empty()) {
    return wrong;
  }
  if (std::string wrong = sessions_.FindInconsistency(timers_, floors_); !wrong.empty()) {
    return wrong;
  }
  return locks_.FindInconsistency(timers_, floors_);
}

}  // namespace holdfast::core
