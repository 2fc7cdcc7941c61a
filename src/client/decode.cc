#include <algorithm>
#include <limits>

#include "client/wire.h"
#include "holdfast/v1/admin.pb.h"
#include "holdfast/v1/elections.pb.h"
#include "holdfast/v1/locks.pb.h"
#include "holdfast/v1/sessions.pb.h"

namespace holdfast::client {
namespace {

// Saturates: no answer of a broken service may overflow.
Duration From(const google::protobuf::Duration& from) {
  constexpr std::int64_t kSecondsMax = std::numeric_limits<std::int64_t>::max() / 4'000'000'000;
  const std::int64_t seconds = std::clamp(from.seconds(), -kSecondsMax, kSecondsMax);
  return std::chrono::seconds(seconds) + std::chrono::nanoseconds(from.nanos());
}

WallTime From(const google::protobuf::Timestamp& from) {
  google::protobuf::Duration since_epoch;
  since_epoch.set_seconds(from.seconds());
  since_epoch.set_nanos(from.nanos());
  return WallTime(From(since_epoch));
}

// The enumerators have the numbers of the API; a number that this build does not know is
// unspecified.
template <typename Enum>
Enum As(int number, Enum last) {
  return number >= 0 && number <= static_cast<int>(last) ? static_cast<Enum>(number) : Enum{};
}

Cause From(v1::Cause cause) {
  return As(cause, Cause::kRevoking);
}
Guarantee From(v1::Guarantee guarantee) {
  return As(guarantee, Guarantee::kFenced);
}

template <typename Map>
std::map<std::string, std::string> FromMap(const Map& from) {
  return {from.begin(), from.end()};
}

Holder From(const v1::Holder& from) {
  return Holder{.owner = from.owner(),
                .principal = from.principal(),
                .fencing_token = from.fencing_token(),
                .lease_fp = from.lease_fp(),
                .held_for = From(from.held_for()),
                .lease_left = From(from.lease_left()),
                .since = From(from.since()),
                .provisional = from.provisional(),
                .revoking = from.revoking(),
                .on_session_fp = from.on_session_fp(),
                .metadata = FromMap(from.metadata())};
}

Grant From(const v1::Grant& from) {
  return Grant{.lease_id = from.lease_id(),
               .fencing_token = from.fencing_token(),
               .ttl = From(from.ttl()),
               .remaining = From(from.remaining()),
               .provisional = from.provisional(),
               .guarantee = From(from.guarantee()),
               .expires_at = From(from.expires_at()),
               .lease_fp = from.lease_fp()};
}

Refusal From(const v1::Refusal& from) {
  Refusal to{.code = As(from.code(), RefusalCode::kStateFull),
             .holder = {},
             .queue_length = from.queue_length(),
             .retry_after = {},
             .cause = From(from.cause()),
             .limit = from.limit()};
  if (from.has_holder()) {
    to.holder = From(from.holder());
  }
  if (from.has_retry_after()) {
    to.retry_after = From(from.retry_after());
  }
  return to;
}

WatchEvent From(const v1::WatchEvent& from) {
  return WatchEvent{.index = from.index(),
                    .kind = As(from.kind(), WatchKind::kConfirmed),
                    .resource = from.resource(),
                    .fencing_token = from.fencing_token(),
                    .owner = from.owner(),
                    .cause = From(from.cause()),
                    .value = from.value(),
                    .reason = from.reason(),
                    .at = From(from.at())};
}

NamespaceResult From(const v1::NamespaceResponse& from) {
  const v1::Policy& policy = from.policy();
  return NamespaceResult{
      .outcome = As(from.outcome(), NamespaceOutcome::kLimit),
      .name = from.name(),
      .policy = Policy{.protection = From(policy.protection()),
                       .strict = policy.strict(),
                       .ttl_default = From(policy.ttl_default()),
                       .ttl_min = From(policy.ttl_min()),
                       .ttl_max = From(policy.ttl_max()),
                       .hold_max = From(policy.hold_max()),
                       .wait_max = From(policy.wait_max()),
                       .waiters_per_resource = policy.waiters_per_resource(),
                       .waiters_per_tenant = policy.waiters_per_tenant(),
                       .holds_per_tenant = policy.holds_per_tenant(),
                       .sessions_per_tenant = policy.sessions_per_tenant(),
                       .lock_delay = From(policy.lock_delay()),
                       .request_memory = From(policy.request_memory()),
                       .request_bytes_per_tenant = policy.request_bytes_per_tenant(),
                       .detach_grace = From(policy.detach_grace())}};
}

Error Unreadable(const char* what) {
  return MakeError(ErrorCode::kInternal, std::string("the service's answer to ") + what +
                                             " is not one that this version understands");
}

template <typename Message>
bool Parse(std::string_view body, Message& message) {
  return message.ParseFromArray(body.data(), static_cast<int>(body.size()));
}

}  // namespace

Result<AcquireResult> DecodeAcquire(std::string_view body) {
  v1::AcquireResponse from;
  if (!Parse(body, from)) {
    return Unreadable("acquire");
  }
  AcquireResult to{.resource = from.resource(), .request_id = from.request_id(), .outcome = {}};
  switch (from.outcome_case()) {
    case v1::AcquireResponse::kGranted:
      to.outcome = From(from.granted());
      return to;
    case v1::AcquireResponse::kRefused:
      to.outcome = From(from.refused());
      return to;
    case v1::AcquireResponse::OUTCOME_NOT_SET:
      break;
  }
  return Unreadable("acquire");
}

Result<RenewResult> DecodeRenew(std::string_view body) {
  v1::RenewResponse from;
  if (!Parse(body, from)) {
    return Unreadable("renew");
  }
  RenewResult to{.resource = from.resource(), .outcome = {}};
  switch (from.outcome_case()) {
    case v1::RenewResponse::kRenewed:
      to.outcome =
          Renewed{.ttl = From(from.renewed().ttl()), .remaining = From(from.renewed().remaining())};
      return to;
    case v1::RenewResponse::kNotRenewed:
      to.outcome = NotRenewed{.cause = From(from.not_renewed().cause()),
                              .remaining = From(from.not_renewed().remaining()),
                              .reason = from.not_renewed().reason()};
      return to;
    case v1::RenewResponse::OUTCOME_NOT_SET:
      break;
  }
  return Unreadable("renew");
}

Result<ReleaseResult> DecodeRelease(std::string_view body) {
  v1::ReleaseResponse from;
  if (!Parse(body, from)) {
    return Unreadable("release");
  }
  return ReleaseResult{
      .resource = from.resource(), .released = from.released(), .cause = From(from.cause())};
}

Result<CancelResult> DecodeCancel(std::string_view body) {
  v1::CancelResponse from;
  if (!Parse(body, from)) {
    return Unreadable("cancel");
  }
  return CancelResult{.resource = from.resource(),
                      .outcome = As(from.outcome(), CancelOutcome::kMemoryFull)};
}

Result<DescribeResult> DecodeDescribe(std::string_view body) {
  v1::DescribeResponse from;
  if (!Parse(body, from)) {
    return Unreadable("describe");
  }
  DescribeResult to;
  to.resource = from.resource();
  to.namespace_name = from.namespace_();
  to.state = As(from.state(), ResourceState::kInDelay);
  if (from.has_holder()) {
    to.holder = From(from.holder());
  }
  to.delay_left = From(from.delay_left());
  for (const v1::Waiter& waiter : from.queue()) {
    to.queue.push_back(Waiter{.owner = waiter.owner(),
                              .principal = waiter.principal(),
                              .waiting_for = From(waiter.waiting_for()),
                              .wait_left = From(waiter.wait_left()),
                              .detached = waiter.detached()});
  }
  to.queue_length = from.queue_length();
  for (const v1::Transition& transition : from.transitions()) {
    to.transitions.push_back(Transition{.index = transition.index(),
                                        .at = From(transition.at()),
                                        .cause = From(transition.cause()),
                                        .fencing_token = transition.fencing_token(),
                                        .owner = transition.owner(),
                                        .reason = transition.reason()});
  }
  to.guarantee = From(from.guarantee());
  to.value = from.value();
  to.index = from.index();
  return to;
}

Result<ListResult> DecodeList(std::string_view body) {
  v1::ListResponse from;
  if (!Parse(body, from)) {
    return Unreadable("list");
  }
  ListResult to;
  for (const v1::ListResponse::Item& item : from.items()) {
    ListItem& added = to.items.emplace_back();
    added.resource = item.resource();
    added.state = As(item.state(), ResourceState::kInDelay);
    added.queue_length = item.queue_length();
    if (item.has_holder()) {
      added.holder = From(item.holder());
    }
  }
  to.next_page_token = from.next_page_token();
  return to;
}

Result<CheckTokenResult> DecodeCheckToken(std::string_view body) {
  v1::CheckTokenResponse from;
  if (!Parse(body, from)) {
    return Unreadable("check-token");
  }
  return CheckTokenResult{.verdict = As(from.verdict(), TokenVerdict::kNeverIssued),
                          .current = from.current(),
                          .index = from.index()};
}

Result<BreakResult> DecodeBreak(std::string_view body) {
  v1::BreakResponse from;
  if (!Parse(body, from)) {
    return Unreadable("break");
  }
  BreakResult to{.resource = from.resource(),
                 .outcome = As(from.outcome(), BreakOutcome::kUnsafeRefused),
                 .holder = {},
                 .next_owner = from.next_owner()};
  if (from.has_holder()) {
    to.holder = From(from.holder());
  }
  return to;
}

Result<WatchItem> DecodeWatch(std::string_view body) {
  v1::WatchResponse from;
  if (!Parse(body, from)) {
    return Unreadable("watch");
  }
  WatchItem to;
  switch (from.item_case()) {
    case v1::WatchResponse::kEvent:
      to = From(from.event());
      return to;
    case v1::WatchResponse::kGap:
      to = WatchGap{from.gap().index()};
      return to;
    case v1::WatchResponse::kStartedAt:
      to = WatchStarted{from.started_at()};
      return to;
    case v1::WatchResponse::ITEM_NOT_SET:
      break;
  }
  return Unreadable("watch");
}

Result<OpenSessionResult> DecodeOpenSession(std::string_view body) {
  v1::OpenSessionResponse from;
  if (!Parse(body, from)) {
    return Unreadable("session open");
  }
  OpenSessionResult to{.request_id = from.request_id(), .outcome = {}};
  switch (from.outcome_case()) {
    case v1::OpenSessionResponse::kOpened:
      to.outcome = SessionOpened{.session_id = from.opened().session_id(),
                                 .session_fp = from.opened().session_fp(),
                                 .ttl = From(from.opened().ttl()),
                                 .remaining = From(from.opened().remaining())};
      return to;
    case v1::OpenSessionResponse::kRefused:
      to.outcome =
          SessionRefused{.reason = As(from.refused().reason(), SessionRefusal::kGrantsBlocked),
                         .limit = from.refused().limit()};
      return to;
    case v1::OpenSessionResponse::OUTCOME_NOT_SET:
      break;
  }
  return Unreadable("session open");
}

Result<KeepAliveResult> DecodeKeepAlive(std::string_view body) {
  v1::KeepAliveResponse from;
  if (!Parse(body, from)) {
    return Unreadable("session keepalive");
  }
  return KeepAliveResult{.alive = from.alive(),
                         .remaining = From(from.remaining()),
                         .cause = From(from.cause()),
                         .revocations = from.revocations()};
}

Result<CloseSessionResult> DecodeCloseSession(std::string_view body) {
  v1::CloseSessionResponse from;
  if (!Parse(body, from)) {
    return Unreadable("session close");
  }
  return CloseSessionResult{.closed = from.closed(), .cause = From(from.cause())};
}

Result<SessionDescription> DecodeDescribeSession(std::string_view body) {
  v1::DescribeSessionResponse from;
  if (!Parse(body, from)) {
    return Unreadable("session describe");
  }
  return SessionDescription{.alive = from.alive(),
                            .owner = from.owner(),
                            .ttl = From(from.ttl()),
                            .remaining = From(from.remaining()),
                            .holds = from.holds(),
                            .waits = from.waits(),
                            .cause = From(from.cause())};
}

Result<ProclaimResult> DecodeProclaim(std::string_view body) {
  v1::ProclaimResponse from;
  if (!Parse(body, from)) {
    return Unreadable("proclaim");
  }
  return ProclaimResult{.proclaimed = from.proclaimed(), .cause = From(from.cause())};
}

Result<LeaderInfo> DecodeLeader(std::string_view body) {
  v1::LeaderResponse from;
  if (!Parse(body, from)) {
    return Unreadable("leader");
  }
  return LeaderInfo{.vacant = from.vacant(),
                    .value = from.value(),
                    .fencing_token = from.fencing_token(),
                    .owner = from.owner(),
                    .since = From(from.since()),
                    .lease_left = From(from.lease_left()),
                    .index = from.index()};
}

Result<NamespaceResult> DecodeNamespace(std::string_view body) {
  v1::NamespaceResponse from;
  if (!Parse(body, from)) {
    return Unreadable("namespace");
  }
  return From(from);
}

Result<std::vector<NamespaceResult>> DecodeNamespaces(std::string_view body) {
  v1::ListNamespacesResponse from;
  if (!Parse(body, from)) {
    return Unreadable("namespace list");
  }
  std::vector<NamespaceResult> to;
  for (const v1::NamespaceResponse& item : from.namespaces()) {
    to.push_back(From(item));
  }
  return to;
}

Result<FeatureLevelResult> DecodeFeatureLevel(std::string_view body) {
  v1::SetFeatureLevelResponse from;
  if (!Parse(body, from)) {
    return Unreadable("feature level");
  }
  return FeatureLevelResult{.level = from.level(), .accepted = from.accepted()};
}

Result<bool> DecodeStepDown(std::string_view body) {
  v1::StepDownResponse from;
  if (!Parse(body, from)) {
    return Unreadable("step-down");
  }
  return from.stepping_down();
}

namespace {

std::optional<NodeStatus> NodeOf(const v1::GetStatusResponse& from) {
  if (!from.has_node()) {
    return std::nullopt;
  }
  const v1::NodeStatus& node = from.node();
  NodeStatus to{.name = node.name(),
                .leader = node.leader(),
                .leader_address = node.leader_address(),
                .phi = node.phi(),
                .etcd_answers = node.etcd_answers(),
                .takeovers = node.takeovers(),
                .unknown_appends = node.unknown_appends(),
                .relists = node.relists(),
                .nodes = {},
                .etcd = {},
                .etcd_quota_bytes = node.etcd_quota_bytes(),
                .etcd_full = node.etcd_full()};
  for (const v1::PeerStatus& peer : node.nodes()) {
    to.nodes.push_back({peer.name(), peer.address(), peer.zone(), peer.alive(), peer.index(),
                        peer.snapshot_index()});
  }
  for (const v1::EtcdStatus& etcd : node.etcd()) {
    to.etcd.push_back({etcd.endpoint(),
                       etcd.answers(),
                       etcd.leads(),
                       etcd.version(),
                       etcd.db_bytes(),
                       etcd.db_bytes_in_use(),
                       {etcd.reports().begin(), etcd.reports().end()},
                       etcd.problem()});
  }
  return to;
}

}  // namespace

Result<ServiceStatus> DecodeStatus(std::string_view body) {
  v1::GetStatusResponse from;
  if (!Parse(body, from)) {
    return Unreadable("status");
  }
  return ServiceStatus{.version = from.version(),
                       .role = from.role(),
                       .index = from.index(),
                       .epoch = from.epoch(),
                       .state_time = From(from.state_time()),
                       .feature_level = from.feature_level(),
                       .fencing_token = from.fencing_token(),
                       .resources = from.resources(),
                       .holds = from.holds(),
                       .waiters = from.waiters(),
                       .sessions = from.sessions(),
                       .request_ids = from.request_ids(),
                       .snapshot_index = from.snapshot_index(),
                       .snapshot_age = From(from.snapshot_age()),
                       .journal_first_index = from.journal_first_index(),
                       .queue_depth = from.queue_depth(),
                       .uptime = From(from.uptime()),
                       .expiry_lag = From(from.expiry_lag()),
                       .grants_blocked_for = From(from.grants_blocked_for()),
                       .batches = from.batches(),
                       .operations = from.operations(),
                       .syncs = from.syncs(),
                       .accepting_writes = from.accepting_writes(),
                       .shadow_lag = from.shadow_lag(),
                       .recommended_ttl_min = From(from.recommended_ttl_min()),
                       .node = NodeOf(from)};
}

Result<HotResources> DecodeHotResources(std::string_view body) {
  v1::ListHotResourcesResponse from;
  if (!Parse(body, from)) {
    return Unreadable("hot resources");
  }
  HotResources to{.resources = {},
                  .operations = from.operations(),
                  .error_max = from.error_max(),
                  .window = From(from.window())};
  for (const v1::HotResource& resource : from.resources()) {
    to.resources.push_back({.namespace_name = resource.namespace_(),
                            .resource = resource.resource(),
                            .operations = resource.operations(),
                            .error = resource.error(),
                            .acquires = resource.acquires(),
                            .waits = resource.waits()});
  }
  return to;
}

namespace {

template <typename T>
Result<Reply> Wrap(Result<T> result) {
  if (!result.ok()) {
    return result.error();
  }
  return Reply(std::move(*result));
}

struct Decoder {
  std::string& body;

  Result<Reply> operator()(const AcquireRequest&) const { return Wrap(DecodeAcquire(body)); }
  Result<Reply> operator()(const CampaignRequest&) const { return Wrap(DecodeAcquire(body)); }
  Result<Reply> operator()(const RenewRequest&) const { return Wrap(DecodeRenew(body)); }
  Result<Reply> operator()(const ReleaseRequest&) const { return Wrap(DecodeRelease(body)); }
  Result<Reply> operator()(const CancelRequest&) const { return Wrap(DecodeCancel(body)); }
  Result<Reply> operator()(const OpenSessionRequest&) const {
    return Wrap(DecodeOpenSession(body));
  }
  Result<Reply> operator()(const KeepAliveRequest&) const { return Wrap(DecodeKeepAlive(body)); }
  Result<Reply> operator()(const CloseSessionRequest&) const {
    return Wrap(DecodeCloseSession(body));
  }
  Result<Reply> operator()(const RawRequest&) const { return Reply(RawReply{std::move(body)}); }
};

}  // namespace

Result<Reply> DecodeReply(const Request& request, std::string body) {
  return std::visit(Decoder{body}, request);
}

}  // namespace holdfast::client
