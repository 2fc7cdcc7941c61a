#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/answers.h"
#include "cli/holding_command.h"
#include "cli/service.h"
#include "cli/signals.h"
#include "cli/ttl_warning.h"
#include "cli/verbs.h"

namespace holdfast::cli {
namespace {

constexpr const char* kChapter = "Elections";

struct ElectOptions {
  std::string resource;
  std::string value;
  std::optional<Duration> ttl;
  std::optional<Duration> wait;
  std::optional<Duration> stop_time;
  std::string owner;
  std::vector<std::string> command;
};

// From the client's thread, which must not wait for a slow reader of our output, to the one that
// prints.
class Updates {
 public:
  void Push(const client::LockUpdate& update) {
    const std::lock_guard lock(mutex_);
    updates_.push_back(update);
    changed_.notify_one();
  }
  client::LockUpdate Pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !updates_.empty(); });
    client::LockUpdate update = std::move(updates_.front());
    updates_.pop_front();
    return update;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<client::LockUpdate> updates_;
};

const char* ElectionState(client::LockState state) {
  switch (state) {
    case client::LockState::kAcquiring:
      return "CAMPAIGNING";
    case client::LockState::kConfirming:
      return "CONFIRMING";
    case client::LockState::kHeld:
      return "LEADING";
    case client::LockState::kRevoking:
      return "REVOKING";
    case client::LockState::kReleasing:
      return "RESIGNING";
    case client::LockState::kReleased:
      return "RESIGNED";
    case client::LockState::kLost:
      return "LOST";
    case client::LockState::kNotAcquired:
      break;
  }
  return "NOT_ELECTED";
}

Object StateLine(const client::LockUpdate& update) {
  Object line = {{"state", ElectionState(update.state)}, {"resource", update.resource}};
  if (update.grant.has_value()) {
    line.push_back({"fencing_token", Token(update.grant->fencing_token)});
    line.push_back({"lease_fp", update.grant->lease_fp});
  }
  if (update.state == client::LockState::kHeld) {
    line.push_back({"lease_id", update.grant->lease_id});
    line.push_back({"guarantee", Name(update.grant->guarantee)});
  }
  if (update.cause != client::Cause::kUnspecified) {
    line.push_back({"cause", Name(update.cause)});
  }
  if (!update.reason.empty()) {
    line.push_back({"reason", update.reason});
  }
  if (update.refusal.has_value()) {
    line.push_back({"outcome", Name(update.refusal->code)});
  }
  if (update.error.has_value()) {
    line.push_back({"error", update.error->message});
  }
  line.push_back({"request_id", update.request_id});
  return line;
}

int ExitCodeOfEnd(const client::LockUpdate& end) {
  if (end.state == client::LockState::kReleased) {
    return kDone;
  }
  if (end.state == client::LockState::kLost) {
    return kOwnershipLost;
  }
  if (end.refusal.has_value()) {
    return ExitCodeOf(*end.refusal);
  }
  return end.error.has_value() ? ExitCodeOf(*end.error) : kNotAcquired;
}

bool WaitWasOver(const client::LockUpdate& end) {
  return end.state == client::LockState::kNotAcquired && end.refusal.has_value() &&
         end.refusal->code == client::RefusalCode::kWaitTimeout;
}

// One campaign from the wish to its end; prints each change of state.
client::LockUpdate Campaign(const Invocation& invocation, client::Client& client,
                            SignalWatch& signals, const client::LockGoal& goal) {
  Updates updates;
  const auto held =
      client.Lock(goal, [&updates](const client::LockUpdate& update) { updates.Push(update); });
  const SignalWatch::Scope on_signal(signals, [&] { held->Release(); });
  std::optional<client::LockState> shown;
  for (;;) {
    client::LockUpdate update = updates.Pop();
    // Every renewal moves the deadline and is an update too.
    if (shown != update.state) {
      PrintLine(invocation.format, StateLine(update));
      shown = update.state;
    }
    if (IsFinal(update.state)) {
      return update;
    }
  }
}

// What every campaign asks for; `wait` is the caller's.
client::LockGoal GoalOf(const ElectOptions& options) {
  return {.acquire = {.namespace_name = {},
                      .resource = options.resource,
                      .request_id = client::NewRequestId(),
                      .owner = options.owner,
                      .ttl = options.ttl,
                      .session_id = {},
                      .wait = {},
                      .metadata = {},
                      .context = {}},
          .value = options.value,
          .stop_time = options.stop_time.value_or(Duration::zero())};
}

int Elect(const Invocation& invocation, const ElectOptions& options) {
  if (!options.command.empty()) {
    return RunHolding(invocation, {.goal = GoalOf(options),
                                   .wait = options.wait,
                                   .stop_time = options.stop_time,
                                   .conflict_exit_code = {},
                                   .command = options.command});
  }
  SignalWatch signals;
  return WithClient(invocation, [&](client::Client& client) {
    Duration wait = options.wait.value_or(Duration::zero());
    if (!options.wait.has_value()) {
      // Without an end: as long as one campaign may wait, then again.
      const std::string name =
          invocation.connection.name_space.empty() ? "default" : invocation.connection.name_space;
      const auto policy = client.GetNamespace(name);
      if (!policy.ok()) {
        return Fail(invocation, policy.error());
      }
      wait = policy->policy.wait_max.value_or(Duration::zero());
    }
    WarnOfShortTtl(client, options.ttl);
    client::LockUpdate end;
    do {
      client::LockGoal goal = GoalOf(options);
      goal.acquire.wait = wait;
      end = Campaign(invocation, client, signals, goal);
    } while (!options.wait.has_value() && WaitWasOver(end) && !signals.came());
    return end.error.has_value() && end.state == client::LockState::kNotAcquired
               ? Fail(invocation, *end.error)
               : ExitCodeOfEnd(end);
  });
}

void AddElect(CommandLine& line) {
  auto options = std::make_shared<ElectOptions>();
  line.OnService("elect", kChapter,
                 "Campaign for a leadership and hold it, printing one line per change: "
                 "CAMPAIGNING, LEADING, REVOKING, LOST, RESIGNED. Ctrl-C or SIGTERM resigns. Stop "
                 "leading at once on any line but LEADING and REVOKING; after REVOKING it ends "
                 "soon. With a command behind `--`, run that while leading instead, as `holdfast "
                 "lock` does.")
      .Text("NAME", options->resource, "The election")
      .Required()
      .Command(options->command, " [-- COMMAND [ARGUMENT]...]")
      .Text("--value", options->value, "What the leader proclaims, such as its address")
      .Required()
      .Time("--ttl", options->ttl, "Lifetime of the lease, renewed in time (30s)")
      .Time("--wait", options->wait, "Give up after waiting this long (never)")
      .Time("--stop-time", options->stop_time,
            "How long stopping to lead takes (0s; of a command: from SIGTERM to SIGKILL, 5s or a "
            "quarter of the ttl)")
      .Text("--owner", options->owner, "Who asks, for people who look")
      .Example("holdfast elect schedulers/main --value $(hostname):9000 -- ./scheduler")
      .Exits({kOutcomeUnknown, kNotAcquired, kOwnershipLost})
      .Run([options](const Invocation& invocation) { return Elect(invocation, *options); });
}

struct LeaderOptions {
  std::string resource;
  bool follow = false;
};

int Leader(const Invocation& invocation, const LeaderOptions& options) {
  if (!options.follow) {
    return WithClient(invocation, [&](client::Client& client) {
      const auto leader = client.Leader(options.resource);
      if (!leader.ok()) {
        return Fail(invocation, leader.error());
      }
      Print(invocation.format, LeaderAnswer(options.resource, *leader));
      return static_cast<int>(kDone);
    });
  }
  SignalWatch signals;
  return WithClient(invocation, [&](client::Client& client) {
    std::stop_source stop;
    const SignalWatch::Scope on_signal(signals, [&] { stop.request_stop(); });
    const Status status = client.Observe(
        options.resource, {},
        [&](const client::LeaderInfo& leader) {
          PrintLine(invocation.format, LeaderAnswer(options.resource, leader));
          return true;
        },
        stop.get_token());
    return !status.ok() && !signals.came() ? Fail(invocation, status.error())
                                           : static_cast<int>(kDone);
  });
}

void AddLeader(CommandLine& line) {
  auto options = std::make_shared<LeaderOptions>();
  line.OnService("leader", kChapter,
                 "Show the leader of an election and what it proclaims. With --follow, go on "
                 "with every change until interrupted: leaders may be skipped, their fencing "
                 "tokens only rise, and vacancy is reported.")
      .Text("NAME", options->resource, "The election")
      .Required()
      .Flag("-f,--follow", options->follow, "Go on with every change")
      .Example("holdfast leader schedulers/main")
      .Exits({})
      .Run([options](const Invocation& invocation) { return Leader(invocation, *options); });
}

struct ProclaimOptions {
  std::string resource;
  std::string lease_id;
  std::string value;
};

int Proclaim(const Invocation& invocation, const ProclaimOptions& options) {
  return WithClient(invocation, [&](client::Client& client) {
    const auto result = client.Proclaim({.namespace_name = {},
                                         .resource = options.resource,
                                         .lease_id = options.lease_id,
                                         .value = options.value});
    if (!result.ok()) {
      return Fail(invocation, result.error());
    }
    Object answer = {{"proclaimed", result->proclaimed}, {"resource", options.resource}};
    if (!result->proclaimed) {
      answer.push_back({"cause", Name(result->cause)});
    }
    Print(invocation.format, answer);
    return static_cast<int>(result->proclaimed ? kDone : kOwnershipLost);
  });
}

void AddProclaim(CommandLine& line) {
  auto options = std::make_shared<ProclaimOptions>();
  line.OnService("proclaim", kChapter,
                 "Change what the leader proclaims; only with its present lease. Safe to repeat.")
      .Text("NAME", options->resource, "The election")
      .Required()
      .Text("--lease-id", options->lease_id, "Of the leader, as elect or acquire printed it")
      .Required()
      .Text("--value", options->value, "The new value")
      .Required()
      .Example("holdfast proclaim schedulers/main --lease-id 5f0c... --value 10.0.0.9:9000")
      .Exits({kOutcomeUnknown, kOwnershipLost})
      .Run([options](const Invocation& invocation) { return Proclaim(invocation, *options); });
}

}  // namespace

void AddElectionVerbs(CommandLine& line) {
  AddElect(line);
  AddLeader(line);
  AddProclaim(line);
}

}  // namespace holdfast::cli
