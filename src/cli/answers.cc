#include "cli/answers.h"

#include <utility>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "base/id.h"
#include "base/overloaded.h"

namespace holdfast::cli {
namespace {

Object MetadataOf(const std::map<std::string, std::string>& metadata) {
  Object object;
  for (const auto& [key, value] : metadata) {
    object.push_back({key, value});
  }
  return object;
}

Object HolderOf(const client::Holder& holder) {
  return {{"owner", holder.owner},
          {"principal", holder.principal},
          {"fencing_token", Token(holder.fencing_token)},
          {"lease_fp", holder.lease_fp},
          {"held_for_ms", ToMillis(holder.held_for)},
          {"lease_left_ms", ToMillis(holder.lease_left)},
          {"since", ShowTime(holder.since)},
          {"provisional", holder.provisional},
          {"revoking", holder.revoking},
          {"session_fp", holder.on_session_fp},
          {"metadata", MetadataOf(holder.metadata)}};
}

void Append(Object& object, Object more) {
  for (Field& field : more) {
    object.push_back(std::move(field));
  }
}

void AppendCause(Object& object, client::Cause cause) {
  if (cause != client::Cause::kUnspecified) {
    object.push_back({"cause", Name(cause)});
  }
}

Object GrantOf(const client::Grant& grant) {
  return {{"lease_id", grant.lease_id},
          {"lease_fp", grant.lease_fp},
          {"fencing_token", Token(grant.fencing_token)},
          {"ttl_ms", ToMillis(grant.ttl)},
          {"remaining_ms", ToMillis(grant.remaining)},
          {"guarantee", Name(grant.guarantee)},
          {"expires_at", ShowTime(grant.expires_at)}};
}

Object RefusalOf(const client::Refusal& refusal) {
  Object object;
  if (refusal.holder.has_value()) {
    object.push_back({"holder", HolderOf(*refusal.holder)});
  }
  object.push_back({"queue_length", refusal.queue_length});
  if (refusal.retry_after.has_value()) {
    object.push_back({"retry_after_ms", ToMillis(*refusal.retry_after)});
  }
  AppendCause(object, refusal.cause);
  if (!refusal.limit.empty()) {
    object.push_back({"limit", refusal.limit});
  }
  return object;
}

}  // namespace

Object AcquireAnswer(const client::AcquireResult& result) {
  const client::Refusal* refusal = result.refused();
  Object answer = {{"outcome", refusal != nullptr ? Name(refusal->code) : "GRANTED"},
                   {"resource", result.resource},
                   {"request_id", result.request_id}};
  Append(answer, refusal != nullptr ? RefusalOf(*refusal) : GrantOf(*result.granted()));
  return answer;
}

Object RenewAnswer(const client::RenewResult& result, const std::string& lease_id) {
  Object answer = {{"outcome", result.renewed() != nullptr ? "RENEWED" : "NOT_RENEWED"},
                   {"resource", result.resource},
                   {"lease_fp", Fingerprint(lease_id)}};
  if (const client::Renewed* renewed = result.renewed()) {
    Append(answer,
           {{"ttl_ms", ToMillis(renewed->ttl)}, {"remaining_ms", ToMillis(renewed->remaining)}});
    return answer;
  }
  const client::NotRenewed& refusal = *result.not_renewed();
  AppendCause(answer, refusal.cause);
  Append(answer, {{"remaining_ms", ToMillis(refusal.remaining)}, {"reason", refusal.reason}});
  return answer;
}

Object ReleaseAnswer(const client::ReleaseResult& result, const std::string& lease_id) {
  Object answer = {{"released", result.released},
                   {"resource", result.resource},
                   {"lease_fp", Fingerprint(lease_id)}};
  if (!result.released) {
    AppendCause(answer, result.cause);
  }
  return answer;
}

Object BreakAnswer(const client::BreakResult& result) {
  Object answer = {{"outcome", Name(result.outcome)}, {"resource", result.resource}};
  if (result.holder.has_value()) {
    answer.push_back({"holder", HolderOf(*result.holder)});
  }
  answer.push_back({"next_owner", result.next_owner});
  return answer;
}

Object DescribeAnswer(const client::DescribeResult& result) {
  Object answer = {{"resource", result.resource},
                   {"namespace", result.namespace_name},
                   {"state", Name(result.state)},
                   {"guarantee", Name(result.guarantee)}};
  if (result.holder.has_value()) {
    answer.push_back({"holder", HolderOf(*result.holder)});
  }
  if (result.state == client::ResourceState::kInDelay) {
    answer.push_back({"delay_left_ms", ToMillis(result.delay_left)});
  }
  std::vector<Object> queue;
  for (const client::Waiter& waiter : result.queue) {
    queue.push_back({{"owner", waiter.owner},
                     {"principal", waiter.principal},
                     {"waiting_for_ms", ToMillis(waiter.waiting_for)},
                     {"wait_left_ms", ToMillis(waiter.wait_left)},
                     {"detached", waiter.detached}});
  }
  std::vector<Object> transitions;
  for (const client::Transition& transition : result.transitions) {
    transitions.push_back({{"at", ShowTime(transition.at)},
                           {"cause", Name(transition.cause)},
                           {"fencing_token", Token(transition.fencing_token)},
                           {"owner", transition.owner},
                           {"reason", transition.reason},
                           {"index", transition.index}});
  }
  Append(answer, {{"value", result.value},
                  {"queue_length", result.queue_length},
                  {"queue", std::move(queue)},
                  {"transitions", std::move(transitions)},
                  {"index", result.index}});
  return answer;
}

Object ListRow(const client::ListItem& item) {
  Object row = {{"resource", item.resource},
                {"state", Name(item.state)},
                {"queue_length", item.queue_length}};
  if (item.holder.has_value()) {
    const client::Holder& holder = *item.holder;
    Append(row, {{"owner", holder.owner},
                 {"principal", holder.principal},
                 {"fencing_token", Token(holder.fencing_token)},
                 {"lease_fp", holder.lease_fp},
                 {"held_for_ms", ToMillis(holder.held_for)},
                 {"lease_left_ms", ToMillis(holder.lease_left)},
                 {"revoking", holder.revoking}});
  }
  return row;
}

Object WatchLine(const client::WatchItem& item) {
  return std::visit(
      Overloaded{
          [](const client::WatchStarted& started) -> Object {
            return {{"kind", "STARTED"}, {"resource", ""}, {"index", started.index}};
          },
          [](const client::WatchGap& gap) -> Object {
            return {{"kind", "GAP"},
                    {"resource", ""},
                    {"index", gap.index},
                    {"reason", "events were lost: read the state, then trust what follows"}};
          },
          [](const client::WatchEvent& event) -> Object {
            Object line = {{"kind", Name(event.kind)}, {"resource", event.resource}};
            if (event.fencing_token != 0) {
              line.push_back({"fencing_token", Token(event.fencing_token)});
            }
            line.push_back({"owner", event.owner});
            AppendCause(line, event.cause);
            Append(line, {{"value", event.value},
                          {"reason", event.reason},
                          {"at", ShowTime(event.at)},
                          {"index", event.index}});
            return line;
          },
      },
      item);
}

Object OpenSessionAnswer(const client::OpenSessionResult& result) {
  if (const client::SessionOpened* opened = result.opened()) {
    return {{"outcome", "OPENED"},
            {"request_id", result.request_id},
            {"session_id", opened->session_id},
            {"session_fp", opened->session_fp},
            {"ttl_ms", ToMillis(opened->ttl)},
            {"remaining_ms", ToMillis(opened->remaining)}};
  }
  return {{"outcome", Name(result.refused()->reason)},
          {"request_id", result.request_id},
          {"limit", result.refused()->limit}};
}

Object SessionAnswer(const client::SessionDescription& session) {
  Object answer = {{"alive", session.alive},          {"owner", session.owner},
                   {"ttl_ms", ToMillis(session.ttl)}, {"remaining_ms", ToMillis(session.remaining)},
                   {"holds", session.holds},          {"waits", session.waits}};
  AppendCause(answer, session.cause);
  return answer;
}

Object LeaderAnswer(const std::string& resource, const client::LeaderInfo& leader) {
  Object answer = {{"resource", resource}, {"vacant", leader.vacant}};
  if (!leader.vacant) {
    Append(answer, {{"value", leader.value},
                    {"fencing_token", Token(leader.fencing_token)},
                    {"owner", leader.owner},
                    {"since", ShowTime(leader.since)},
                    {"lease_left_ms", ToMillis(leader.lease_left)}});
  }
  answer.push_back({"index", leader.index});
  return answer;
}

Object PolicyAnswer(const client::Policy& policy) {
  Object answer;
  const auto number = [&](const char* key, const auto& value) {
    if (value.has_value()) {
      answer.push_back({key, *value});
    }
  };
  const auto time = [&](const char* key, const std::optional<Duration>& value) {
    if (value.has_value()) {
      answer.push_back({key, ToMillis(*value)});
    }
  };
  if (policy.protection != client::Guarantee::kUnspecified) {
    answer.push_back({"protection", Name(policy.protection)});
  }
  number("strict", policy.strict);
  time("ttl_default_ms", policy.ttl_default);
  time("ttl_min_ms", policy.ttl_min);
  time("ttl_max_ms", policy.ttl_max);
  time("hold_max_ms", policy.hold_max);
  time("wait_max_ms", policy.wait_max);
  number("waiters_per_resource", policy.waiters_per_resource);
  number("waiters_per_tenant", policy.waiters_per_tenant);
  number("holds_per_tenant", policy.holds_per_tenant);
  number("sessions_per_tenant", policy.sessions_per_tenant);
  time("lock_delay_ms", policy.lock_delay);
  time("request_memory_ms", policy.request_memory);
  number("request_bytes_per_tenant", policy.request_bytes_per_tenant);
  time("detach_grace_ms", policy.detach_grace);
  return answer;
}

Object NamespaceAnswer(const client::NamespaceResult& result) {
  Object answer = {{"outcome", Name(result.outcome)}, {"namespace", result.name}};
  Object policy = PolicyAnswer(result.policy);
  if (!policy.empty()) {
    answer.push_back({"policy", std::move(policy)});
  }
  return answer;
}

Object NodeAnswer(const client::NodeStatus& node) {
  std::vector<Object> peers;
  for (const client::PeerStatus& peer : node.nodes) {
    peers.push_back({{"name", peer.name},
                     {"address", peer.address},
                     {"zone", peer.zone},
                     {"alive", peer.alive},
                     {"index", peer.index},
                     {"snapshot_index", peer.snapshot_index}});
  }
  std::vector<Object> etcd;
  for (const client::EtcdStatus& endpoint : node.etcd) {
    etcd.push_back({{"endpoint", endpoint.endpoint},
                    {"answers", endpoint.answers},
                    {"leads", endpoint.leads},
                    {"version", endpoint.version},
                    {"db_bytes", endpoint.db_bytes},
                    {"db_bytes_in_use", endpoint.db_bytes_in_use},
                    {"reports", fmt::format("{}", fmt::join(endpoint.reports, "; "))},
                    {"problem", endpoint.problem}});
  }
  return {{"name", node.name},
          {"leader", node.leader},
          {"leader_address", node.leader_address},
          {"phi", fmt::format("{:.1f}", node.phi)},
          {"etcd_answers", node.etcd_answers},
          {"takeovers", node.takeovers},
          {"unknown_appends", node.unknown_appends},
          {"relists", node.relists},
          {"nodes", peers},
          {"etcd", std::move(etcd)},
          {"etcd_quota_bytes", node.etcd_quota_bytes},
          {"etcd_full", node.etcd_full}};
}

Object StatusAnswer(const client::ServiceStatus& status) {
  Object answer = {{"version", status.version},
                   {"role", status.role},
                   {"accepting_writes", status.accepting_writes},
                   {"grants_blocked_for_ms", ToMillis(status.grants_blocked_for)},
                   {"uptime_ms", ToMillis(status.uptime)},
                   {"state_time_ms", ToMillis(status.state_time)},
                   {"epoch", status.epoch},
                   {"index", status.index},
                   {"feature_level", status.feature_level},
                   {"fencing_token", Token(status.fencing_token)},
                   {"resources", status.resources},
                   {"holds", status.holds},
                   {"waiters", status.waiters},
                   {"sessions", status.sessions},
                   {"request_ids", status.request_ids},
                   {"queue_depth", status.queue_depth},
                   {"expiry_lag_ms", ToMillis(status.expiry_lag)},
                   {"batches", status.batches},
                   {"operations", status.operations},
                   {"syncs", status.syncs},
                   {"journal_first_index", status.journal_first_index},
                   {"snapshot_index", status.snapshot_index},
                   {"snapshot_age_ms", ToMillis(status.snapshot_age)},
                   {"shadow_lag", status.shadow_lag},
                   {"recommended_ttl_min_ms", ToMillis(status.recommended_ttl_min)}};
  if (status.node.has_value()) {
    answer.push_back({"node", NodeAnswer(*status.node)});
  }
  return answer;
}

ExitCode ExitCodeOf(const client::Refusal& refusal) {
  switch (refusal.code) {
    case client::RefusalCode::kRequestIdReused:
      return kUsage;
    case client::RefusalCode::kEnded:
    case client::RefusalCode::kSessionEnded:
      return kOwnershipLost;
    case client::RefusalCode::kFencingRequired:
      return kNotPermitted;
    case client::RefusalCode::kUnspecified:
    case client::RefusalCode::kHeld:
    case client::RefusalCode::kWaitTimeout:
    case client::RefusalCode::kQueueFull:
    case client::RefusalCode::kTenantLimit:
    case client::RefusalCode::kDelayed:
    case client::RefusalCode::kCancelled:
    case client::RefusalCode::kAlreadyHeld:
    case client::RefusalCode::kAlreadyWaiting:
    case client::RefusalCode::kGrantsBlocked:
    case client::RefusalCode::kSuperseded:
    case client::RefusalCode::kStateFull:
      break;
  }
  return kNotAcquired;
}

ExitCode ExitCodeOf(client::CancelOutcome outcome) {
  switch (outcome) {
    case client::CancelOutcome::kNotYours:
      return kNotPermitted;
    case client::CancelOutcome::kMemoryFull:
      return kUnavailable;
    case client::CancelOutcome::kUnspecified:
    case client::CancelOutcome::kStillGranted:
      return kNotAcquired;
    case client::CancelOutcome::kCancelledBeforeArrival:
    case client::CancelOutcome::kWaiterRemoved:
    case client::CancelOutcome::kProvisionalReleased:
    case client::CancelOutcome::kAlreadyOver:
      break;
  }
  return kDone;
}

ExitCode ExitCodeOf(client::SessionRefusal reason) {
  switch (reason) {
    case client::SessionRefusal::kRequestIdReused:
      return kUsage;
    case client::SessionRefusal::kEnded:
      return kOwnershipLost;
    case client::SessionRefusal::kUnspecified:
    case client::SessionRefusal::kSessionLimit:
    case client::SessionRefusal::kGrantsBlocked:
      break;
  }
  return kNotAcquired;
}

}  // namespace holdfast::cli
