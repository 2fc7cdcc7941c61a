// Namespaces, the feature level, and the status.
#include <algorithm>
#include <utility>

#include "engine/runner.h"
#include "holdfast/v1/admin.pb.h"
#include "server/fields.h"
#include "server/hot_resources.h"

namespace holdfast::server {
namespace {

constexpr std::uint32_t kHotResourcesDefault = 20;

void ReadOptional(FieldReader& reader, const char* field, bool present,
                  const google::protobuf::Duration& value, std::optional<Duration>& out) {
  if (present) {
    reader.ReadDuration(field, value, out.emplace());
  }
}

core::PolicyPatch ReadPolicy(FieldReader& reader, const v1::Policy& policy) {
  core::PolicyPatch patch;
  reader.Require(v1::Guarantee_IsValid(policy.protection()), "protection", "ADVISORY or FENCED",
                 "is neither ADVISORY nor FENCED");
  if (policy.protection() != v1::GUARANTEE_UNSPECIFIED) {
    patch.protection = static_cast<core::Guarantee>(policy.protection());
  }
  ReadOptional(reader, "ttl_default", policy.has_ttl_default(), policy.ttl_default(),
               patch.ttl_default);
  ReadOptional(reader, "ttl_min", policy.has_ttl_min(), policy.ttl_min(), patch.ttl_min);
  ReadOptional(reader, "ttl_max", policy.has_ttl_max(), policy.ttl_max(), patch.ttl_max);
  ReadOptional(reader, "hold_max", policy.has_hold_max(), policy.hold_max(), patch.hold_max);
  ReadOptional(reader, "wait_max", policy.has_wait_max(), policy.wait_max(), patch.wait_max);
  ReadOptional(reader, "lock_delay", policy.has_lock_delay(), policy.lock_delay(),
               patch.lock_delay);
  ReadOptional(reader, "request_memory", policy.has_request_memory(), policy.request_memory(),
               patch.request_memory);
  ReadOptional(reader, "detach_grace", policy.has_detach_grace(), policy.detach_grace(),
               patch.detach_grace);
  if (policy.has_strict()) {
    patch.strict = policy.strict();
  }
  if (policy.has_waiters_per_resource()) {
    patch.waiters_per_resource = policy.waiters_per_resource();
  }
  if (policy.has_waiters_per_tenant()) {
    patch.waiters_per_tenant = policy.waiters_per_tenant();
  }
  if (policy.has_holds_per_tenant()) {
    patch.holds_per_tenant = policy.holds_per_tenant();
  }
  if (policy.has_sessions_per_tenant()) {
    patch.sessions_per_tenant = policy.sessions_per_tenant();
  }
  if (policy.has_request_bytes_per_tenant()) {
    patch.request_bytes_per_tenant = policy.request_bytes_per_tenant();
  }
  return patch;
}

void WritePolicy(const core::Policy& policy, v1::Policy& out) {
  out.set_protection(static_cast<v1::Guarantee>(policy.protection));
  out.set_strict(policy.strict);
  WriteDuration(policy.ttl_default, *out.mutable_ttl_default());
  WriteDuration(policy.ttl_min, *out.mutable_ttl_min());
  WriteDuration(policy.ttl_max, *out.mutable_ttl_max());
  WriteDuration(policy.hold_max, *out.mutable_hold_max());
  WriteDuration(policy.wait_max, *out.mutable_wait_max());
  out.set_waiters_per_resource(policy.waiters_per_resource);
  out.set_waiters_per_tenant(policy.waiters_per_tenant);
  out.set_holds_per_tenant(policy.holds_per_tenant);
  out.set_sessions_per_tenant(policy.sessions_per_tenant);
  WriteDuration(policy.lock_delay, *out.mutable_lock_delay());
  WriteDuration(policy.request_memory, *out.mutable_request_memory());
  out.set_request_bytes_per_tenant(policy.request_bytes_per_tenant);
  WriteDuration(policy.detach_grace, *out.mutable_detach_grace());
}

// The policy of a namespace that does not exist means nothing, so it stays out.
void WriteNamespace(const std::string& name, core::NamespaceResult result,
                    const core::Policy& policy, v1::NamespaceResponse& out) {
  out.set_outcome(static_cast<v1::NamespaceResponse::Outcome>(result));
  out.set_name(name);
  if (result == core::NamespaceResult::kOk) {
    WritePolicy(policy, *out.mutable_policy());
  }
}

// The API calls the name of a namespace `name` where it is the subject.
Result<EngineRequest> Named(Result<EngineRequest>&& read) {
  if (read.ok() || read.error().field != "namespace") {
    return std::move(read);
  }
  Error error = read.error();
  error.field = "name";
  return error;
}

Result<EngineRequest> ReadChange(core::NamespaceVerb verb, const v1::SetNamespaceRequest& request,
                                 const std::string& principal) {
  FieldReader reader;
  core::ChangeNamespace change{.verb = verb, .name = request.name(), .patch = {}};
  change.patch = ReadPolicy(reader, request.policy());
  return Named(reader.Finish(core::Command{principal, "", std::move(change)}));
}

Result<EngineRequest> ReadCreate(v1::SetNamespaceRequest& request, const std::string& principal) {
  return ReadChange(core::NamespaceVerb::kCreate, request, principal);
}

Result<EngineRequest> ReadSet(v1::SetNamespaceRequest& request, const std::string& principal) {
  return ReadChange(core::NamespaceVerb::kSet, request, principal);
}

Result<EngineRequest> ReadDelete(v1::GetNamespaceRequest& request, const std::string& principal) {
  core::ChangeNamespace change{
      .verb = core::NamespaceVerb::kDelete, .name = request.name(), .patch = {}};
  return Named(FieldReader().Finish(core::Command{principal, "", std::move(change)}));
}

template <typename Request>
Status WriteChange(const Request& request, engine::Reply& reply, v1::NamespaceResponse& response) {
  const auto outcome = OutcomeIn(reply, request.name());
  if (!outcome.ok()) {
    return outcome.error();
  }
  const auto* changed = std::get_if<core::NamespaceChanged>(*outcome);
  if (changed == nullptr) {
    return UnexpectedReply("a change of a namespace");
  }
  WriteNamespace(request.name(), changed->result, changed->policy, response);
  return {};
}

Result<EngineRequest> ReadGet(v1::GetNamespaceRequest& request, const std::string& /*principal*/) {
  return Named(FieldReader().Finish(core::Query(core::GetNamespace{request.name()})));
}

Status WriteGet(const v1::GetNamespaceRequest& request, engine::Reply& reply,
                v1::NamespaceResponse& response) {
  const auto view = ViewIn(reply, request.name());
  if (!view.ok()) {
    return view.error();
  }
  const auto* found = std::get_if<core::NamespaceView>(*view);
  if (found == nullptr) {
    return UnexpectedReply("GetNamespace");
  }
  WriteNamespace(request.name(), found->result, found->policy, response);
  return {};
}

Result<EngineRequest> ReadNamespaces(v1::ListNamespacesRequest& /*request*/,
                                     const std::string& /*principal*/) {
  return EngineRequest(core::Query(core::ListNamespaces{}));
}

Status WriteNamespaces(const v1::ListNamespacesRequest& /*request*/, engine::Reply& reply,
                       v1::ListNamespacesResponse& response) {
  const auto view = ViewIn(reply, "");
  if (!view.ok()) {
    return view.error();
  }
  const auto* list = std::get_if<core::NamespacesView>(*view);
  if (list == nullptr) {
    return UnexpectedReply("ListNamespaces");
  }
  for (const core::NamespaceView& item : list->namespaces) {
    WriteNamespace(item.name, item.result, item.policy, *response.add_namespaces());
  }
  return {};
}

Result<EngineRequest> ReadFeatureLevel(v1::SetFeatureLevelRequest& request,
                                       const std::string& principal) {
  return FieldReader().Finish(core::Command{principal, "", core::SetFeatureLevel{request.level()}});
}

Status WriteFeatureLevel(const v1::SetFeatureLevelRequest& /*request*/, engine::Reply& reply,
                         v1::SetFeatureLevelResponse& response) {
  const auto outcome = OutcomeIn(reply, "");
  if (!outcome.ok()) {
    return outcome.error();
  }
  const auto* level = std::get_if<core::FeatureLevelSet>(*outcome);
  if (level == nullptr) {
    return UnexpectedReply("SetFeatureLevel");
  }
  response.set_level(level->level);
  response.set_accepted(level->accepted);
  return {};
}

Result<EngineRequest> ReadStatus(v1::GetStatusRequest& /*request*/,
                                 const std::string& /*principal*/) {
  return EngineRequest(core::Query(core::GetCounts{}));
}

// What it is about is not the state: complete.h does the rest.
Result<EngineRequest> ReadStepDown(v1::StepDownRequest& /*request*/,
                                   const std::string& /*principal*/) {
  return EngineRequest(core::Query(core::GetCounts{}));
}

Status WriteStepDown(const v1::StepDownRequest& /*request*/, engine::Reply& reply,
                     v1::StepDownResponse& /*response*/) {
  const auto view = ViewIn(reply, "");
  return view.ok() ? Status() : Status(view.error());
}

Status WriteStatus(const v1::GetStatusRequest& /*request*/, engine::Reply& reply,
                   v1::GetStatusResponse& response) {
  const auto view = ViewIn(reply, "");
  if (!view.ok()) {
    return view.error();
  }
  const auto* counts = std::get_if<core::CountsView>(*view);
  if (counts == nullptr) {
    return UnexpectedReply("GetStatus");
  }
  response.set_version(HOLDFAST_VERSION);
  response.set_role("leader");
  response.set_index(reply.index);
  WriteDuration(counts->time.time_since_epoch(), *response.mutable_state_time());
  response.set_feature_level(counts->feature_level);
  response.set_fencing_token(counts->last_token);
  response.set_resources(counts->resources);
  response.set_holds(counts->holds);
  response.set_waiters(counts->waiters);
  response.set_sessions(counts->sessions);
  response.set_request_ids(counts->request_ids);
  WriteDuration(counts->expiry_lag, *response.mutable_expiry_lag());
  WriteDuration(counts->grants_blocked_for, *response.mutable_grants_blocked_for());
  return {};
}

Result<EngineRequest> ReadHot(v1::ListHotResourcesRequest& request,
                              const std::string& /*principal*/) {
  FieldReader reader;
  reader.Require(request.limit() <= HotResources::kPlacesMax, "limit", "0 .. 1024",
                 "is more than 1024");
  if (request.limit() == 0) {
    request.set_limit(kHotResourcesDefault);
  }
  return request.namespace_().empty()
             ? reader.Finish(core::Query(core::GetCounts{}))
             : reader.Finish(core::Query(core::GetNamespace{request.namespace_()}));
}

// The reply only says whether there is such a namespace.
Status WriteHotReply(const v1::ListHotResourcesRequest& request, engine::Reply& reply,
                     v1::ListHotResourcesResponse& /*response*/) {
  const auto view = ViewIn(reply, request.namespace_());
  if (!view.ok()) {
    return view.error();
  }
  const auto* found = std::get_if<core::NamespaceView>(*view);
  return found != nullptr && found->result != core::NamespaceResult::kOk
             ? Status(NoNamespace(request.namespace_()))
             : Status();
}

}  // namespace

constinit const Verb<v1::ListHotResourcesRequest, v1::ListHotResourcesResponse> kListHotResources{
    "ListHotResources", Access::kUser, ReadHot, WriteHotReply};

void WriteHot(const HotResourcesView& view, v1::ListHotResourcesResponse& response) {
  for (const HotResource& from : view.resources) {
    v1::HotResource& to = *response.add_resources();
    to.set_namespace_(from.name_space);
    to.set_resource(from.resource);
    to.set_operations(from.operations);
    to.set_error(from.error);
    to.set_acquires(from.acquires);
    to.set_waits(from.waits);
  }
  response.set_operations(view.operations);
  response.set_error_max(view.error_max);
  WriteDuration(view.window, *response.mutable_window());
}

constinit const Verb<v1::SetNamespaceRequest, v1::NamespaceResponse> kCreateNamespace{
    "CreateNamespace", Access::kAdmin, ReadCreate, WriteChange<v1::SetNamespaceRequest>};
constinit const Verb<v1::SetNamespaceRequest, v1::NamespaceResponse> kSetNamespace{
    "SetNamespace", Access::kAdmin, ReadSet, WriteChange<v1::SetNamespaceRequest>};
constinit const Verb<v1::GetNamespaceRequest, v1::NamespaceResponse> kDeleteNamespace{
    "DeleteNamespace", Access::kAdmin, ReadDelete, WriteChange<v1::GetNamespaceRequest>};
constinit const Verb<v1::GetNamespaceRequest, v1::NamespaceResponse> kGetNamespace{
    "GetNamespace", Access::kUser, ReadGet, WriteGet};
constinit const Verb<v1::ListNamespacesRequest, v1::ListNamespacesResponse> kListNamespaces{
    "ListNamespaces", Access::kUser, ReadNamespaces, WriteNamespaces};
constinit const Verb<v1::SetFeatureLevelRequest, v1::SetFeatureLevelResponse> kSetFeatureLevel{
    "SetFeatureLevel", Access::kAdmin, ReadFeatureLevel, WriteFeatureLevel};
constinit const Verb<v1::GetStatusRequest, v1::GetStatusResponse> kGetStatus{
    "GetStatus", Access::kUser, ReadStatus, WriteStatus};
constinit const Verb<v1::StepDownRequest, v1::StepDownResponse> kStepDown{
    "StepDown", Access::kAdmin, ReadStepDown, WriteStepDown};

void Restrict(const Caller& caller, v1::ListNamespacesResponse& response) {
  auto& items = *response.mutable_namespaces();
  items.erase(std::remove_if(
                  items.begin(), items.end(),
                  [&](const v1::NamespaceResponse& item) { return !MayUse(caller, item.name()); }),
              items.end());
}

// As it is shown: "leader", "standby", ...
std::string RoleOf(engine::Role role) {
  if (role == engine::Role::kLeading) {
    return "leader";
  }
  std::string name = engine::RoleName(role);
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return name;
}

void WriteNode(const engine::MemberStatus& member, v1::GetStatusResponse& response) {
  response.set_role(RoleOf(member.role));
  response.set_epoch(member.epoch);
  v1::NodeStatus& node = *response.mutable_node();
  node.set_name(member.name);
  node.set_leader(member.leader);
  node.set_leader_address(member.leader_address);
  node.set_phi(member.phi);
  node.set_etcd_answers(member.etcd_answers);
  node.set_takeovers(member.takeovers);
  node.set_unknown_appends(member.unknown_appends);
  node.set_relists(member.relists);
  node.set_etcd_quota_bytes(member.store_quota_bytes);
  node.set_etcd_full(member.store_full);
  for (const journal::etcd::EndpointHealth& health : member.store) {
    v1::EtcdStatus& row = *node.add_etcd();
    row.set_endpoint(health.endpoint);
    row.set_answers(health.answers);
    row.set_leads(health.leads);
    row.set_version(health.version);
    row.set_db_bytes(health.db_bytes);
    row.set_db_bytes_in_use(health.db_bytes_in_use);
    row.mutable_reports()->Assign(health.reports.begin(), health.reports.end());
    row.set_problem(health.problem);
  }
  for (const engine::PeerState& peer : member.peers) {
    v1::PeerStatus& row = *node.add_nodes();
    row.set_name(peer.name);
    row.set_address(peer.record.address);
    row.set_zone(peer.record.zone);
    row.set_alive(peer.alive);
    row.set_index(peer.record.applied);
    row.set_snapshot_index(peer.record.snapshot_index);
  }
}

void WriteStats(const engine::RunnerStats& stats, BootTime now, WallTime wall,
                Duration recommended_ttl_min, v1::GetStatusResponse& response) {
  WriteDuration(recommended_ttl_min, *response.mutable_recommended_ttl_min());
  response.set_snapshot_index(stats.shadow.snapshot_index);
  if (stats.shadow.snapshot_at != WallTime{}) {
    // A wall clock that was set back must not show a negative age.
    WriteDuration(std::max(Duration::zero(), wall - stats.shadow.snapshot_at),
                  *response.mutable_snapshot_age());
  }
  response.set_journal_first_index(stats.journal_first_index);
  WriteDuration(now - stats.started_at, *response.mutable_uptime());
  response.set_accepting_writes(stats.accepting_writes);
  response.set_syncs(stats.journal.syncs);
  response.set_epoch(stats.engine.epoch);
  response.set_queue_depth(stats.engine.queue_depth);
  response.set_batches(stats.engine.batches);
  response.set_operations(stats.engine.commands + stats.engine.reads);
  // Read at different moments: the shadow may be ahead of what the engine said.
  if (stats.member.has_value()) {
    WriteNode(*stats.member, response);
    return;  // it has no shadow
  }
  response.set_shadow_lag(stats.engine.index - std::min(stats.engine.index, stats.shadow.index));
}

}  // namespace holdfast::server
