#include "cli/journal_rows.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/id.h"
#include "base/overloaded.h"
#include "cli/answers.h"

namespace holdfast::cli {
namespace {

// Collects the fields of one command; what has its default is left out.
class Row {
 public:
  Row(const core::Command& command, const char* verb, const std::string& resource) {
    row_ = {{"verb", verb}, {"resource", resource}};
    Text("namespace", command.name_space);
    Text("principal", command.principal);
  }

  Row& Text(const char* key, const std::string& value) {
    if (!value.empty()) {
      row_.push_back({key, value});
    }
    return *this;
  }
  Row& Secret(const char* key, const std::string& value) {
    return Text(key, value.empty() ? value : Fingerprint(value));
  }
  Row& Secret(const char* key, const Id128& id) {
    return Text(key, IsZero(id) ? std::string() : Fingerprint(id));
  }
  Row& Time(const char* key, Duration value) {
    if (value != Duration::zero()) {
      row_.push_back({key, ToMillis(value)});
    }
    return *this;
  }
  Row& Flag(const char* key, bool value) {
    if (value) {
      row_.push_back({key, value});
    }
    return *this;
  }
  Row& Number(const char* key, std::uint64_t value) {
    row_.push_back({key, value});
    return *this;
  }
  Row& Inner(const char* key, Object value) {
    if (!value.empty()) {
      row_.push_back({key, std::move(value)});
    }
    return *this;
  }
  Object Take() { return std::move(row_); }

 private:
  Object row_;
};

Object MetadataOf(const std::vector<core::MetadataEntry>& metadata) {
  Object object;
  for (const core::MetadataEntry& entry : metadata) {
    object.push_back({entry.key, entry.value});
  }
  return object;
}

client::Policy PolicyOf(const core::PolicyPatch& patch) {
  client::Policy policy;
  if (patch.protection.has_value()) {
    policy.protection = *patch.protection == core::Guarantee::kFenced
                            ? client::Guarantee::kFenced
                            : client::Guarantee::kAdvisory;
  }
  policy.strict = patch.strict;
  policy.ttl_default = patch.ttl_default;
  policy.ttl_min = patch.ttl_min;
  policy.ttl_max = patch.ttl_max;
  policy.hold_max = patch.hold_max;
  policy.wait_max = patch.wait_max;
  policy.waiters_per_resource = patch.waiters_per_resource;
  policy.waiters_per_tenant = patch.waiters_per_tenant;
  policy.holds_per_tenant = patch.holds_per_tenant;
  policy.sessions_per_tenant = patch.sessions_per_tenant;
  policy.lock_delay = patch.lock_delay;
  policy.request_memory = patch.request_memory;
  policy.request_bytes_per_tenant = patch.request_bytes_per_tenant;
  policy.detach_grace = patch.detach_grace;
  return policy;
}

const char* VerbName(core::NamespaceVerb verb) {
  switch (verb) {
    case core::NamespaceVerb::kCreate:
      return "namespace_create";
    case core::NamespaceVerb::kSet:
      return "namespace_set";
    case core::NamespaceVerb::kDelete:
      break;
  }
  return "namespace_delete";
}

Object AcquireRow(const core::Command& command, const core::Acquire& body) {
  return Row(command, body.campaign ? "campaign" : "acquire", body.resource)
      .Secret("request_fp", body.request_id)
      .Secret("lease_fp", body.lease_id)
      .Secret("session_fp", body.session)
      .Text("owner", body.owner)
      .Time("ttl_ms", body.ttl)
      .Time("wait_ms", body.wait)
      .Text("value", body.value)
      .Inner("metadata", MetadataOf(body.metadata))
      .Take();
}

Object OpenSessionRow(const core::Command& command, const core::OpenSession& body) {
  return Row(command, "session_open", "")
      .Secret("request_fp", body.request_id)
      .Secret("session_fp", body.session_id)
      .Text("owner", body.owner)
      .Time("ttl_ms", body.ttl)
      .Take();
}

Object BreakRow(const core::Command& command, const core::Break& body) {
  return Row(command, "break", body.resource)
      .Text("reason", body.reason)
      .Flag("now", body.now)
      .Flag("unsafe", body.unsafe)
      .Flag("dry_run", body.dry_run)
      .Take();
}

Object IdentityOf(const journal::DirectoryReport& report) {
  Object object;
  if (report.identity.has_value()) {
    object = {{"log_id", ToHex(report.identity->log_id)},
              {"created", ShowTime(report.identity->created)},
              {"token_floor", Token(report.identity->token_floor)}};
  }
  if (report.identity_error.has_value()) {
    object.push_back({"error", report.identity_error->message});
  }
  return object;
}

}  // namespace

Object CommandRow(const core::Command& command) {
  return std::visit(
      Overloaded{
          [&](const core::Acquire& body) { return AcquireRow(command, body); },
          [&](const core::Renew& body) {
            return Row(command, "renew", body.resource).Secret("lease_fp", body.lease_id).Take();
          },
          [&](const core::Release& body) {
            return Row(command, "release", body.resource).Secret("lease_fp", body.lease_id).Take();
          },
          [&](const core::Cancel& body) {
            return Row(command, "cancel", body.resource)
                .Secret("request_fp", body.request_id)
                .Text("owner", body.owner)
                .Take();
          },
          [&](const core::Detach& body) {
            return Row(command, "detach", "")
                .Number("waiter", body.waiter)
                .Number("attachment", body.attachment)
                .Take();
          },
          [&](const core::Break& body) { return BreakRow(command, body); },
          [&](const core::Proclaim& body) {
            return Row(command, "proclaim", body.resource)
                .Secret("lease_fp", body.lease_id)
                .Text("value", body.value)
                .Take();
          },
          [&](const core::OpenSession& body) { return OpenSessionRow(command, body); },
          [&](const core::KeepAlive& body) {
            return Row(command, "session_keepalive", "")
                .Secret("session_fp", body.session_id)
                .Take();
          },
          [&](const core::CloseSession& body) {
            return Row(command, "session_close", "").Secret("session_fp", body.session_id).Take();
          },
          [&](const core::ChangeNamespace& body) {
            return Row(command, VerbName(body.verb), "")
                .Text("name", body.name)
                .Inner("policy", PolicyAnswer(PolicyOf(body.patch)))
                .Take();
          },
          [&](const core::EpochStart& body) {
            return Row(command, "epoch_start", "")
                .Number("epoch", body.epoch)
                .Time("grace_ms", body.grace)
                .Take();
          },
          [&](const core::SetFeatureLevel& body) {
            return Row(command, "feature_level", "").Number("level", body.level).Take();
          },
          [&](const core::RecoverState& body) {
            return Row(command, "recover", "")
                .Text("token_floor", std::to_string(body.token_floor))
                .Time("block_ms", body.block)
                .Take();
          },
      },
      command.body);
}

Object ReportOf(const journal::DirectoryReport& report) {
  std::vector<Object> segments;
  for (const journal::WalkedSegment& segment : report.log.segments) {
    segments.push_back({{"file", segment.name},
                        {"first_index", segment.header.first_index},
                        {"entries", segment.entries},
                        {"bytes", segment.file_bytes}});
  }
  std::vector<Object> snapshots;
  for (const journal::SnapshotReport& snapshot : report.snapshots) {
    snapshots.push_back({{"file", snapshot.file},
                         {"index", snapshot.index},
                         {"bytes", snapshot.payload_bytes},
                         {"error", snapshot.error.has_value() ? snapshot.error->message : ""}});
  }
  std::vector<Object> damage;
  for (const journal::Damage& item : report.log.damage) {
    damage.push_back({{"file", item.file}, {"offset", item.offset}, {"reason", item.reason}});
  }
  Object torn;
  if (report.log.torn.has_value()) {
    torn = {{"file", report.log.torn->file}, {"offset", report.log.torn->offset}};
  }
  return {{"sound", report.Sound()},
          {"entries", report.entries},
          {"first_index", report.first_index},
          {"last_index", report.last_index},
          {"gap", report.gap},
          {"identity", IdentityOf(report)},
          {"torn_tail", std::move(torn)},
          {"damage", std::move(damage)},
          {"segments", std::move(segments)},
          {"snapshots", std::move(snapshots)}};
}

}  // namespace holdfast::cli
