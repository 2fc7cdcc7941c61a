#include "cli/holding_command.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "cli/answers.h"
#include "cli/service.h"
#include "cli/ttl_warning.h"
#include "exec/wrapper.h"

namespace holdfast::cli {
namespace {

constexpr Duration kLongestGrace = Seconds(5);
constexpr std::uint64_t kHighestExitCode = 255;

// For people the sentence, for programs the object.
void Say(const Invocation& invocation, const std::string& sentence, const Object& object) {
  const std::string text =
      invocation.format == Format::kJson ? ToJson(object) + "\n" : "holdfast: " + sentence + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
}

int SayError(const Invocation& invocation, const Error& error) {
  const bool unknown = error.code == ErrorCode::kUnknownOutcome;
  std::string sentence = error.message;
  if (!error.field.empty()) {
    sentence += fmt::format(" (field={}, limit={})", error.field, error.limit);
  }
  if (unknown) {
    sentence += "; nothing was run, and the same command may be given again";
  }
  Say(invocation, sentence,
      {{"error", Object{{"code", ErrorCodeName(error.code)},
                        {"message", error.message},
                        {"field", error.field},
                        {"limit", error.limit}}}});
  return ExitCodeOf(error);
}

Result<exec::StopTimes> StopTimesOf(const HoldingCommand& holding, Duration ttl) {
  const exec::StopTimes times{
      .grace = holding.stop_time.value_or(std::min<Duration>(kLongestGrace, ttl / 4)),
      .kill = std::clamp<Duration>(ttl / 10, Millis(100), Seconds(1))};
  if (times.Sum() > ttl / 2) {
    const Duration longest = std::max<Duration>(ttl / 2 - times.kill, Duration::zero());
    return InvalidArgument(
        "stop_time",
        fmt::format("0s to {}, for a ttl of {}", ShowDuration(longest), ShowDuration(ttl)),
        fmt::format("stop_time {} leaves less than half of the lease for work",
                    ShowDuration(times.grace)));
  }
  return times;
}

Object EndOf(const HoldingCommand& holding, const char* outcome, int exit_code) {
  return {
      {"outcome", outcome}, {"resource", holding.goal.acquire.resource}, {"exit_code", exit_code}};
}

int SayNotAcquired(const Invocation& invocation, const HoldingCommand& holding,
                   const client::LockUpdate& lock) {
  if (!lock.refusal.has_value()) {
    return SayError(invocation,
                    lock.error.value_or(Error{ErrorCode::kUnavailable, "not acquired", {}, {}}));
  }
  const client::Refusal& refusal = *lock.refusal;
  ExitCode code = ExitCodeOf(refusal);
  if (code == kNotAcquired && holding.conflict_exit_code.has_value()) {
    code = static_cast<ExitCode>(*holding.conflict_exit_code);
  }
  const Object answer = AcquireAnswer({.resource = holding.goal.acquire.resource,
                                       .request_id = lock.request_id,
                                       .outcome = refusal,
                                       .sent_at = {}});
  Say(invocation, fmt::format("not acquired: {}", ToLine(answer)), answer);
  return code;
}

int SayLost(const Invocation& invocation, const HoldingCommand& holding, const exec::RunEnd& end) {
  const client::LockUpdate& lock = end.lock;
  // A deadline that the supervisor saw first is that of an expiry.
  const char* cause =
      Name(lock.cause == client::Cause::kUnspecified ? client::Cause::kExpired : lock.cause);
  Object object = EndOf(holding, "OWNERSHIP_LOST", kOwnershipLost);
  object.push_back({"cause", cause});
  if (lock.grant.has_value()) {
    object.push_back({"fencing_token", Token(lock.grant->fencing_token)});
  }
  if (!lock.reason.empty()) {
    object.push_back({"reason", lock.reason});
  }
  if (lock.error.has_value()) {
    object.push_back({"error", lock.error->message});
  }
  std::string sentence =
      fmt::format("ownership of {} was lost ({}): the command was {}",
                  holding.goal.acquire.resource, cause, end.started ? "stopped" : "not started");
  for (const std::string& more : {lock.reason, lock.error ? lock.error->message : ""}) {
    sentence += more.empty() ? "" : "; " + more;
  }
  Say(invocation, sentence, object);
  return kOwnershipLost;
}

int SayEnd(const Invocation& invocation, const HoldingCommand& holding, const exec::RunEnd& end) {
  const std::string& resource = holding.goal.acquire.resource;
  switch (end.kind) {
    case exec::RunEnd::Kind::kNotAcquired:
      return SayNotAcquired(invocation, holding, end.lock);
    case exec::RunEnd::Kind::kInterrupted: {
      const int code = 128 + end.signal;
      Say(invocation,
          fmt::format("SIG{} before {} was held: nothing was run", sigabbrev_np(end.signal),
                      resource),
          EndOf(holding, "INTERRUPTED", code));
      return code;
    }
    case exec::RunEnd::Kind::kOwnershipLost:
      return SayLost(invocation, holding, end);
    case exec::RunEnd::Kind::kCannotRun:
      Say(invocation,
          fmt::format("cannot run {}: {}", holding.command.front(),
                      std::generic_category().message(end.exec_error)),
          EndOf(holding, "CANNOT_RUN", end.exit_code));
      break;
    case exec::RunEnd::Kind::kUnsupervised:
      Say(invocation, "the supervisor was killed, and the command with it",
          EndOf(holding, "UNSUPERVISED", end.exit_code));
      break;
    case exec::RunEnd::Kind::kCommandEnded:
      break;
  }
  if (!end.released) {
    Say(invocation, fmt::format("{} could not be given back: it ends by itself", resource),
        EndOf(holding, "NOT_RELEASED", end.exit_code));
  }
  return end.exit_code;
}

bool WaitWasOver(const exec::RunEnd& end) {
  return end.kind == exec::RunEnd::Kind::kNotAcquired && end.lock.refusal.has_value() &&
         end.lock.refusal->code == client::RefusalCode::kWaitTimeout;
}

// What the namespace says where the command line says nothing.
Status FillFromPolicy(const Invocation& invocation, const HoldingCommand& holding,
                      exec::Wrapper& wrapper, client::Client& client, client::LockGoal& goal) {
  if (goal.acquire.ttl.has_value() && holding.wait.has_value()) {
    return {};
  }
  const std::string& name = invocation.connection.name_space;
  std::optional<Result<client::NamespaceResult>> answer;
  wrapper.Interruptible([&] { answer = client.GetNamespace(name.empty() ? "default" : name); });
  if (!answer->ok()) {
    return answer->error();
  }
  const client::Policy& policy = (*answer)->policy;
  if (!goal.acquire.ttl.has_value()) {
    goal.acquire.ttl = policy.ttl_default.value_or(Seconds(30));
  }
  goal.acquire.wait = holding.wait.value_or(policy.wait_max.value_or(Duration::zero()));
  return {};
}

// Before anything is held: the command's time begins with the grant.
Status WarnBefore(const Invocation& invocation, const HoldingCommand& holding,
                  exec::Wrapper& wrapper, client::Client& client) {
  std::optional<Result<std::optional<std::string>>> warning;
  wrapper.Interruptible([&] { warning = ShortTtlWarning(client, holding.goal.acquire.ttl); });
  if (!warning->ok()) {
    return warning->error();
  }
  if (warning->value().has_value()) {
    const std::string& text = *warning->value();
    Say(invocation, "warning: " + text, {{"warning", text}});
  }
  return {};
}

int Run(const Invocation& invocation, const HoldingCommand& holding, exec::Wrapper& wrapper,
        client::Client& client) {
  client::LockGoal goal = holding.goal;
  goal.acquire.wait = holding.wait.value_or(Duration::zero());
  if (const Status filled = FillFromPolicy(invocation, holding, wrapper, client, goal);
      !filled.ok()) {
    return SayError(invocation, filled.error());
  }
  const auto times = StopTimesOf(holding, *goal.acquire.ttl);
  if (!times.ok()) {
    return SayError(invocation, times.error());
  }
  if (const Status warned = WarnBefore(invocation, holding, wrapper, client); !warned.ok()) {
    return SayError(invocation, warned.error());
  }
  goal.stop_time = times->Sum();
  const auto on_stragglers = [&](std::size_t count) {
    Object object = EndOf(holding, "STRAGGLERS", kOwnershipLost);
    object.push_back({"processes", static_cast<std::uint64_t>(count)});
    Say(invocation, fmt::format("{} processes of the command cannot be killed", count), object);
  };
  exec::RunEnd end;
  do {
    goal.acquire.request_id = client::NewRequestId();
    end = wrapper.Run(client, goal, *times, invocation.connection.timeout.value_or(Seconds(10)),
                      on_stragglers);
  } while (!holding.wait.has_value() && WaitWasOver(end));
  return SayEnd(invocation, holding, end);
}

}  // namespace

const char* const kCommandExits =
    "Else the exit code is the command's: 126 it cannot be run, 127 it was not found,\n"
    "128 + n signal n ended it, or came before the lock was held. Ours are explained on\n"
    "standard error.\n";

int RunHolding(const Invocation& invocation, const HoldingCommand& holding) {
  if (holding.command.empty()) {
    return SayError(invocation, InvalidArgument("command", "a program behind --",
                                                "there is no command: holdfast lock NAME -- "
                                                "COMMAND"));
  }
  if (holding.conflict_exit_code.value_or(0) > kHighestExitCode) {
    return SayError(invocation, InvalidArgument("conflict_exit_code", "0 to 255",
                                                fmt::format("conflict_exit_code is {}",
                                                            *holding.conflict_exit_code)));
  }
  auto wrapper =
      exec::Wrapper::Create({.words = holding.command, .resource = holding.goal.acquire.resource});
  if (!wrapper.ok()) {
    return SayError(invocation, wrapper.error());
  }
  const auto client = Connect(invocation.connection);
  return client.ok() ? Run(invocation, holding, **wrapper, **client)
                     : SayError(invocation, client.error());
}

}  // namespace holdfast::cli
