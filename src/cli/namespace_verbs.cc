#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "cli/answers.h"
#include "cli/service.h"
#include "cli/verbs.h"

namespace holdfast::cli {
namespace {

constexpr const char* kChapter = "Administration";

struct PolicyOptions {
  std::string name;
  client::Policy policy;
  std::optional<std::string> protection;
  std::optional<std::string> strict;
  std::optional<std::uint64_t> waiters_per_resource;
  std::optional<std::uint64_t> waiters_per_tenant;
  std::optional<std::uint64_t> holds_per_tenant;
  std::optional<std::uint64_t> sessions_per_tenant;
};

ExitCode ExitCodeOfNamespace(client::NamespaceOutcome outcome) {
  switch (outcome) {
    case client::NamespaceOutcome::kOk:
      return kDone;
    case client::NamespaceOutcome::kNotFound:
    case client::NamespaceOutcome::kExists:
      return kUsage;
    case client::NamespaceOutcome::kUnspecified:
    case client::NamespaceOutcome::kNotEmpty:
    case client::NamespaceOutcome::kLimit:
      break;
  }
  return kNotAcquired;
}

int PrintResult(const Invocation& invocation, const Result<client::NamespaceResult>& result,
                const Repetition& repetition = {}) {
  if (!result.ok()) {
    return Fail(invocation, result.error(), repetition);
  }
  Print(invocation.format, NamespaceAnswer(*result));
  return ExitCodeOfNamespace(result->outcome);
}

// Numbers that do not fit go to the service as the largest, which is out of every limit, so that it
// names field and limit.
std::optional<std::uint32_t> Clamped(const std::optional<std::uint64_t>& number) {
  if (!number.has_value()) {
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(*number, UINT32_MAX));
}

client::Policy PolicyOf(const PolicyOptions& options) {
  client::Policy policy = options.policy;
  if (options.protection.has_value()) {
    policy.protection =
        *options.protection == "fenced" ? client::Guarantee::kFenced : client::Guarantee::kAdvisory;
  }
  if (options.strict.has_value()) {
    policy.strict = *options.strict == "true";
  }
  policy.waiters_per_resource = Clamped(options.waiters_per_resource);
  policy.waiters_per_tenant = Clamped(options.waiters_per_tenant);
  policy.holds_per_tenant = Clamped(options.holds_per_tenant);
  policy.sessions_per_tenant = Clamped(options.sessions_per_tenant);
  return policy;
}

void AddPolicyOptions(Verb& verb, PolicyOptions& options) {
  client::Policy& policy = options.policy;
  verb.Text("NS", options.name, "The namespace: [a-z0-9][a-z0-9-]{0,62}")
      .Required()
      .Choice("--protection", options.protection, {"advisory", "fenced"},
              "Whether its resources refuse old fencing tokens")
      .Choice("--strict", options.strict, {"true", "false"}, "Refuse advisory use")
      .Time("--ttl-default", policy.ttl_default, "Lifetime of a lease that asks for none")
      .Time("--ttl-min", policy.ttl_min, "Shortest lifetime that may be asked for")
      .Time("--ttl-max", policy.ttl_max, "Longest one")
      .Time("--hold-max", policy.hold_max, "After this, renewals are refused; 0s: never")
      .Time("--wait-max", policy.wait_max, "Longest wait in a queue")
      .Number("--waiters-per-resource", options.waiters_per_resource, "Length of a queue")
      .Number("--waiters-per-tenant", options.waiters_per_tenant, "Waits of one principal")
      .Number("--holds-per-tenant", options.holds_per_tenant, "Locks of one principal")
      .Number("--sessions-per-tenant", options.sessions_per_tenant, "Sessions of one principal")
      .Time("--lock-delay", policy.lock_delay,
            "No new grant for this long after an expiry or a break")
      .Time("--request-memory", policy.request_memory, "How long request ids are remembered")
      .Number("--request-bytes-per-tenant", policy.request_bytes_per_tenant,
              "Budget of remembered request ids of one principal, in bytes")
      .Time("--detach-grace", policy.detach_grace,
            "How long a waiter without a connection keeps its place");
}

int Create(const Invocation& invocation, const PolicyOptions& options) {
  return WithClient(invocation, [&](client::Client& client) {
    return PrintResult(invocation, client.CreateNamespace(options.name, PolicyOf(options)),
                       {.request_id = {}, .look_first = "holdfast namespace get " + options.name});
  });
}

int Set(const Invocation& invocation, const PolicyOptions& options) {
  return WithClient(invocation, [&](client::Client& client) {
    return PrintResult(invocation, client.SetNamespace(options.name, PolicyOf(options)));
  });
}

int Get(const Invocation& invocation, const std::string& name) {
  return WithClient(invocation, [&](client::Client& client) {
    return PrintResult(invocation, client.GetNamespace(name));
  });
}

int Delete(const Invocation& invocation, const std::string& name) {
  return WithClient(invocation, [&](client::Client& client) {
    return PrintResult(invocation, client.DeleteNamespace(name),
                       {.request_id = {}, .look_first = "holdfast namespace get " + name});
  });
}

int List(const Invocation& invocation) {
  return WithClient(invocation, [&](client::Client& client) {
    const auto result = client.ListNamespaces();
    if (!result.ok()) {
      return Fail(invocation, result.error());
    }
    std::vector<Object> rows;
    for (const client::NamespaceResult& item : *result) {
      Object row = {{"namespace", item.name}};
      const Object policy = PolicyAnswer(item.policy);
      row.insert(row.end(), policy.begin(), policy.end());
      rows.push_back(std::move(row));
    }
    Print(invocation.format, {{"namespaces", std::move(rows)}});
    return static_cast<int>(kDone);
  });
}

using PolicyAction = int (*)(const Invocation&, const PolicyOptions&);
using NameAction = int (*)(const Invocation&, const std::string&);

void AddWithPolicy(CommandLine& line, const char* path, const char* purpose, PolicyAction action) {
  auto options = std::make_shared<PolicyOptions>();
  Verb verb = line.OnService(path, "", purpose);
  AddPolicyOptions(verb, *options);
  verb.Example(std::string("holdfast ") + path + " payments --protection fenced --ttl-max 5m")
      .Exits({kOutcomeUnknown, kNotAcquired})
      .Run(
          [options, action](const Invocation& invocation) { return action(invocation, *options); });
}

void AddWithName(CommandLine& line, const char* path, const char* purpose,
                 const std::vector<ExitCode>& exits, NameAction action) {
  auto name = std::make_shared<std::string>();
  line.OnService(path, "", purpose)
      .Text("NS", *name, "The namespace")
      .Required()
      .Example(std::string("holdfast ") + path + " payments")
      .Exits(exits)
      .Run([name, action](const Invocation& invocation) { return action(invocation, *name); });
}

}  // namespace

void AddNamespaceVerbs(CommandLine& line) {
  line.DescribeGroup("namespace", kChapter,
                     "A set of resources with one policy: protection, ttl, waits, limits.");
  AddWithPolicy(line, "namespace create", "Create a namespace; what is not given has its default.",
                Create);
  AddWithPolicy(line, "namespace set",
                "Change the given fields of a namespace. --protection fenced is a promise of its "
                "owner that its resources refuse every fencing token below the highest seen; it "
                "sets the lock-delay to 0 unless that is given too. Safe to repeat.",
                Set);
  AddWithName(line, "namespace get", "Show the policy of a namespace.", {}, Get);
  line.OnService("namespace list", "", "Show all namespaces that you may use.")
      .Example("holdfast namespace list")
      .Exits({})
      .Run(List);
  AddWithName(line, "namespace delete",
              "Delete a namespace without holds, waiters and sessions; never `default`.",
              {kOutcomeUnknown, kNotAcquired}, Delete);
}

}  // namespace holdfast::cli
