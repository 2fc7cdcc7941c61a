#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/id.h"
#include "cli/answers.h"
#include "cli/holding_command.h"
#include "cli/service.h"
#include "cli/signals.h"
#include "cli/ttl_warning.h"
#include "cli/verbs.h"

namespace holdfast::cli {
namespace {

constexpr const char* kChapter = "Locks";

struct AcquireOptions {
  std::string resource;
  std::optional<Duration> ttl;
  std::optional<Duration> wait;
  std::string owner;
  std::string request_id;
  std::string session;
  std::map<std::string, std::string> metadata;
};

int PrintGrant(const Invocation& invocation, const client::AcquireResult& result) {
  Print(invocation.format, AcquireAnswer(result));
  return kDone;
}

// A grant out of a queue lives only for seconds until somebody confirms that it has arrived.
int Confirm(const Invocation& invocation, client::Client& client, client::AcquireResult& result) {
  auto& grant = std::get<client::Grant>(result.outcome);
  const auto renewed =
      client.Renew({.namespace_name = {}, .resource = result.resource, .lease_id = grant.lease_id});
  if (!renewed.ok()) {
    return Fail(invocation, renewed.error(), {.request_id = result.request_id, .look_first = {}});
  }
  if (const client::NotRenewed* lost = renewed->not_renewed()) {
    result.outcome = client::Refusal{.code = client::RefusalCode::kEnded,
                                     .holder = {},
                                     .queue_length = 0,
                                     .retry_after = {},
                                     .cause = lost->cause,
                                     .limit = {}};
    Print(invocation.format, AcquireAnswer(result));
    return kOwnershipLost;
  }
  grant.provisional = false;
  grant.ttl = renewed->renewed()->ttl;
  grant.remaining = renewed->renewed()->remaining;
  return PrintGrant(invocation, result);
}

int Acquire(const Invocation& invocation, const AcquireOptions& options) {
  const client::AcquireRequest request{
      .namespace_name = {},
      .resource = options.resource,
      .request_id = options.request_id.empty() ? client::NewRequestId() : options.request_id,
      .owner = options.owner,
      .ttl = options.ttl,
      .session_id = options.session,
      .wait = options.wait.value_or(Duration::zero()),
      .metadata = options.metadata,
      .context = {}};
  const Repetition repetition{.request_id = request.request_id, .look_first = {}};
  SignalWatch signals;  // before the client, whose threads must not take the signals
  return WithClient(invocation, [&](client::Client& client) {
    // Ctrl-C leaves no place in the queue behind; the answer then says CANCELLED.
    const SignalWatch::Scope on_signal(signals, [&] {
      (void)client.Cancel({.namespace_name = {},
                           .resource = request.resource,
                           .request_id = request.request_id,
                           .owner = request.owner,
                           .context = {}});
    });
    auto result = client.Acquire(request);
    if (!result.ok()) {
      return Fail(invocation, result.error(), repetition);
    }
    if (const client::Refusal* refusal = result->refused()) {
      Print(invocation.format, AcquireAnswer(*result));
      return static_cast<int>(ExitCodeOf(*refusal));
    }
    const int code = result->granted()->provisional ? Confirm(invocation, client, *result)
                                                    : PrintGrant(invocation, *result);
    WarnOfShortTtl(client, request.ttl);
    return code;
  });
}

void AddAcquire(CommandLine& line) {
  auto options = std::make_shared<AcquireOptions>();
  line.OnService("acquire", kChapter,
                 "Take an exclusive lock. The grant is a lease: it ends by itself after its ttl "
                 "unless it is renewed. Hand its fencing token to whatever the lock protects, and "
                 "let that refuse every token below the highest that it has seen.")
      .Text("NAME", options->resource, "The resource: [a-z0-9][a-z0-9._:/-]{0,254}")
      .Required()
      .Time("--ttl", options->ttl, "Lifetime of the lease (the namespace's default, 30s)")
      .Time("--wait", options->wait, "Wait in the queue for at most this long (0s: try once)")
      .Text("--owner", options->owner, "Who asks, for people who look")
      .Text("--request-id", options->request_id,
            "Ask again under the same id: one effect, the same answer (default: a new one)")
      .Text("--session", options->session, "Live as long as this session instead of a ttl")
      .Pairs("--metadata", options->metadata, "Shown to whoever describes the lock")
      .Example("holdfast acquire orders/7 --ttl 30s --wait 10s -o json")
      .Exits({kOutcomeUnknown, kNotAcquired, kOwnershipLost})
      .Run([options](const Invocation& invocation) { return Acquire(invocation, *options); });
}

struct LeaseOptions {
  std::string resource;
  std::string lease_id;
};

int Renew(const Invocation& invocation, const LeaseOptions& options) {
  return WithClient(invocation, [&](client::Client& client) {
    const auto result = client.Renew(
        {.namespace_name = {}, .resource = options.resource, .lease_id = options.lease_id});
    if (!result.ok()) {
      return Fail(invocation, result.error());
    }
    Print(invocation.format, RenewAnswer(*result, options.lease_id));
    return static_cast<int>(result->renewed() != nullptr ? kDone : kOwnershipLost);
  });
}

int Release(const Invocation& invocation, const LeaseOptions& options) {
  return WithClient(invocation, [&](client::Client& client) {
    const auto result = client.Release(
        {.namespace_name = {}, .resource = options.resource, .lease_id = options.lease_id});
    if (!result.ok()) {
      return Fail(invocation, result.error());
    }
    Print(invocation.format, ReleaseAnswer(*result, options.lease_id));
    return static_cast<int>(result->released ? kDone : kOwnershipLost);
  });
}

void AddRenewAndRelease(CommandLine& line) {
  auto renew = std::make_shared<LeaseOptions>();
  line.OnService("renew", kChapter,
                 "Make a lease last for its ttl again, counted from now. Never shortens it. "
                 "Refused for a lease that is over, is being broken, or has reached the "
                 "namespace's maximum hold. Safe to repeat.")
      .Text("NAME", renew->resource, "The resource")
      .Required()
      .Text("--lease-id", renew->lease_id, "As acquire printed it")
      .Required()
      .Example("holdfast renew orders/7 --lease-id 5f0c...")
      .Exits({kOutcomeUnknown, kOwnershipLost})
      .Run([renew](const Invocation& invocation) { return Renew(invocation, *renew); });

  auto release = std::make_shared<LeaseOptions>();
  line.OnService("release", kChapter,
                 "Give a lock back. True if this lease is, or was already, ended by release; "
                 "otherwise false with the cause, and nothing changes: an old lease never touches "
                 "the new holder. Safe to repeat.")
      .Text("NAME", release->resource, "The resource")
      .Required()
      .Text("--lease-id", release->lease_id, "As acquire printed it")
      .Required()
      .Example("holdfast release orders/7 --lease-id 5f0c...")
      .Exits({kOutcomeUnknown, kOwnershipLost})
      .Run([release](const Invocation& invocation) { return Release(invocation, *release); });
}

struct CancelOptions {
  std::string resource;
  std::string request_id;
  std::string owner;
};

int Cancel(const Invocation& invocation, const CancelOptions& options) {
  return WithClient(invocation, [&](client::Client& client) {
    const auto result = client.Cancel({.namespace_name = {},
                                       .resource = options.resource,
                                       .request_id = options.request_id,
                                       .owner = options.owner,
                                       .context = {}});
    if (!result.ok()) {
      return Fail(invocation, result.error(), {.request_id = options.request_id, .look_first = {}});
    }
    Print(invocation.format, {{"outcome", Name(result->outcome)},
                              {"resource", result->resource},
                              {"request_id", options.request_id}});
    return static_cast<int>(ExitCodeOf(result->outcome));
  });
}

void AddCancel(CommandLine& line) {
  auto options = std::make_shared<CancelOptions>();
  line.OnService("cancel", kChapter,
                 "Withdraw an acquire by its request id: a waiter leaves the queue, and an acquire "
                 "that has not arrived yet will not grant. A confirmed grant is left alone "
                 "(STILL_GRANTED): release it.")
      .Text("NAME", options->resource, "The resource")
      .Required()
      .Text("--request-id", options->request_id, "Of the acquire")
      .Required()
      .Text("--owner", options->owner, "As in the acquire")
      .Example("holdfast cancel orders/7 --request-id 9a31...")
      .Exits({kOutcomeUnknown, kNotAcquired})
      .Run([options](const Invocation& invocation) { return Cancel(invocation, *options); });
}

struct BreakOptions {
  std::string resource;
  std::string reason;
  bool dry_run = false;
  bool now = false;
  bool unsafe = false;
};

int Break(const Invocation& invocation, const BreakOptions& options) {
  return WithClient(invocation, [&](client::Client& client) {
    const auto result = client.Break({.namespace_name = {},
                                      .resource = options.resource,
                                      .reason = options.reason,
                                      .dry_run = options.dry_run,
                                      .now = options.now,
                                      .unsafe = options.unsafe});
    if (!result.ok()) {
      return Fail(invocation, result.error(),
                  {.request_id = {}, .look_first = "holdfast describe " + options.resource});
    }
    Print(invocation.format, BreakAnswer(*result));
    const bool refused = result->outcome == client::BreakOutcome::kUnsafeRefused;
    return static_cast<int>(refused ? kNotPermitted : kDone);
  });
}

void AddBreak(CommandLine& line) {
  auto options = std::make_shared<BreakOptions>();
  line.OnService("break", kChapter,
                 "Take a lock away from its holder, for an administrator. It cannot be renewed any "
                 "more, the holder is told, and the next one gets it at its release or promised "
                 "end. With --now the next one gets it at once, which is safe only where the "
                 "resource refuses old tokens. Audited.")
      .Text("NAME", options->resource, "The resource")
      .Required()
      .Text("--reason", options->reason, "Why, for the holder and the audit log")
      .Required()
      .Flag("--dry-run", options->dry_run, "Only say who holds it and who would be next")
      .Flag("--now", options->now, "Do not wait for the promised end (fenced namespaces)")
      .Flag("--unsafe", options->unsafe, "Allow --now in an advisory namespace")
      .Example("holdfast break orders/7 --reason 'host is gone' --dry-run")
      .Exits({kOutcomeUnknown})
      .Run([options](const Invocation& invocation) { return Break(invocation, *options); });
}

struct LockOptions {
  std::string resource;
  std::optional<Duration> ttl;
  std::optional<Duration> wait;
  std::optional<Duration> stop_time;
  std::string owner;
  std::map<std::string, std::string> metadata;
  std::optional<std::uint64_t> conflict_exit_code;
  std::vector<std::string> command;
};

int Lock(const Invocation& invocation, const LockOptions& options) {
  return RunHolding(invocation, {.goal = {.acquire = {.namespace_name = {},
                                                      .resource = options.resource,
                                                      .request_id = {},
                                                      .owner = options.owner,
                                                      .ttl = options.ttl,
                                                      .session_id = {},
                                                      .wait = {},
                                                      .metadata = options.metadata,
                                                      .context = {}},
                                          .value = {},
                                          .stop_time = {}},
                                 .wait = options.wait.value_or(Duration::zero()),
                                 .stop_time = options.stop_time,
                                 .conflict_exit_code = options.conflict_exit_code,
                                 .command = options.command});
}

void AddLock(CommandLine& line) {
  auto options = std::make_shared<LockOptions>();
  line.OnService("lock", kChapter,
                 "Run a command while a lock is held. The lease is renewed in the background; if "
                 "it cannot be, the command and everything that it started are stopped before "
                 "somebody else can get the lock: SIGTERM, after --stop-time SIGKILL. So they are "
                 "if this program dies. Signals are passed on. The command finds "
                 "HOLDFAST_RESOURCE, HOLDFAST_FENCING_TOKEN and HOLDFAST_LEASE_ID in its "
                 "environment: hand the token to what the lock protects.")
      .Text("NAME", options->resource, "The resource: [a-z0-9][a-z0-9._:/-]{0,254}")
      .Required()
      .Command(options->command)
      .Time("--ttl", options->ttl, "Lifetime of the lease (the namespace's default, 30s)")
      .Time("--wait", options->wait, "Wait in the queue for at most this long (0s: try once)")
      .Time("--stop-time", options->stop_time,
            "From SIGTERM to SIGKILL; the work ends earlier by this (5s, or a quarter of the ttl)")
      .Number("--conflict-exit-code", options->conflict_exit_code,
              "Exit with this instead of 75 if it is not acquired (0 to 255)")
      .Text("--owner", options->owner, "Who asks, for people who look")
      .Pairs("--metadata", options->metadata, "Shown to whoever describes the lock")
      .Example("holdfast lock backups/db --ttl 30s --wait 10m -- pg_dump -f db.dump db")
      .Exits({kOutcomeUnknown, kNotAcquired, kOwnershipLost})
      .Note(kCommandExits)
      .Run([options](const Invocation& invocation) { return Lock(invocation, *options); });
}

}  // namespace

void AddLockVerbs(CommandLine& line) {
  AddAcquire(line);
  AddRenewAndRelease(line);
  AddCancel(line);
  AddBreak(line);
  AddLock(line);
}

}  // namespace holdfast::cli
