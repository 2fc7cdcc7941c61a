// Locks: acquire to watch.
#include <algorithm>
#include <utility>

#include "core/validate.h"
#include "holdfast/v1/elections.pb.h"
#include "holdfast/v1/locks.pb.h"
#include "server/fields.h"

namespace holdfast::server {
namespace {

Result<EngineRequest> ReadAcquireAs(v1::AcquireRequest& request, const std::string& principal,
                                    bool campaign, const std::string& value) {
  SetDefaultNamespace(request);
  SetRequestId(request);
  FieldReader reader;
  core::Acquire acquire;
  acquire.resource = request.resource();
  acquire.request_id = request.request_id();
  acquire.owner = request.owner();
  if (request.has_ttl()) {
    reader.ReadPositiveDuration("ttl", request.ttl(), acquire.ttl);
    reader.Require(request.session_id().empty(), "ttl", "absent where session_id is given",
                   "and session_id exclude each other");
  }
  if (!request.session_id().empty()) {
    reader.ReadId("session_id", request.session_id(), acquire.session);
  }
  reader.ReadDuration("wait", request.wait(), acquire.wait);
  acquire.metadata.reserve(request.metadata().size());
  for (const auto& entry : request.metadata()) {
    acquire.metadata.push_back({entry.first, entry.second});
  }
  std::sort(acquire.metadata.begin(), acquire.metadata.end(),
            [](const auto& a, const auto& b) { return a.key < b.key; });
  acquire.campaign = campaign;
  acquire.value = value;
  acquire.client = ReadClient(request.client());
  return reader.Finish(core::Command{principal, request.namespace_(), std::move(acquire)});
}

Result<EngineRequest> ReadAcquire(v1::AcquireRequest& request, const std::string& principal) {
  return ReadAcquireAs(request, principal, false, {});
}

Result<EngineRequest> ReadCampaign(v1::CampaignRequest& request, const std::string& principal) {
  return ReadAcquireAs(*request.mutable_acquire(), principal, true, request.value());
}

void WriteGrant(const core::Granted& granted, v1::Grant& out) {
  out.set_lease_id(ToHex(granted.lease_id));
  out.set_lease_fp(Fingerprint(out.lease_id()));
  out.set_fencing_token(granted.token);
  WriteDuration(granted.ttl, *out.mutable_ttl());
  WriteDuration(granted.remaining, *out.mutable_remaining());
  out.set_provisional(granted.provisional);
  out.set_guarantee(static_cast<v1::Guarantee>(granted.guarantee));
  WriteTime(granted.expires_at, *out.mutable_expires_at());
}

void WriteRefusal(const core::Refused& refused, v1::Refusal& out) {
  out.set_code(static_cast<v1::RefusalCode>(refused.code));
  if (refused.holder != nullptr) {
    WriteHolder(*refused.holder, *out.mutable_holder());
  }
  out.set_queue_length(refused.queue_length);
  if (refused.retry_after.has_value()) {
    WriteDuration(*refused.retry_after, *out.mutable_retry_after());
  }
  out.set_cause(static_cast<v1::Cause>(refused.cause));
  out.set_limit(refused.limit);
}

Status WriteAcquire(const v1::AcquireRequest& request, engine::Reply& reply,
                    v1::AcquireResponse& response) {
  const auto outcome = OutcomeIn(reply, request.namespace_());
  if (!outcome.ok()) {
    return outcome.error();
  }
  response.set_resource(request.resource());
  response.set_request_id(request.request_id());
  if (const auto* granted = std::get_if<core::Granted>(*outcome)) {
    WriteGrant(*granted, *response.mutable_granted());
  } else if (const auto* refused = std::get_if<core::Refused>(*outcome)) {
    WriteRefusal(*refused, *response.mutable_refused());
  } else {
    return UnexpectedReply("Acquire");
  }
  return {};
}

Status WriteCampaign(const v1::CampaignRequest& request, engine::Reply& reply,
                     v1::AcquireResponse& response) {
  return WriteAcquire(request.acquire(), reply, response);
}

Result<EngineRequest> ReadRenew(v1::RenewRequest& request, const std::string& principal) {
  SetDefaultNamespace(request);
  FieldReader reader;
  core::Renew renew{.resource = request.resource()};
  reader.ReadId("lease_id", request.lease_id(), renew.lease_id);
  return reader.Finish(core::Command{principal, request.namespace_(), std::move(renew)});
}

Status WriteRenew(const v1::RenewRequest& request, engine::Reply& reply,
                  v1::RenewResponse& response) {
  const auto outcome = OutcomeIn(reply, request.namespace_());
  if (!outcome.ok()) {
    return outcome.error();
  }
  response.set_resource(request.resource());
  if (const auto* renewed = std::get_if<core::Renewed>(*outcome)) {
    WriteDuration(renewed->ttl, *response.mutable_renewed()->mutable_ttl());
    WriteDuration(renewed->remaining, *response.mutable_renewed()->mutable_remaining());
  } else if (auto* refused = std::get_if<core::NotRenewed>(*outcome)) {
    v1::RenewResponse::NotRenewed& out = *response.mutable_not_renewed();
    out.set_cause(static_cast<v1::Cause>(refused->cause));
    WriteDuration(refused->remaining, *out.mutable_remaining());
    out.set_reason(std::move(refused->reason));
  } else {
    return UnexpectedReply("Renew");
  }
  return {};
}

Result<EngineRequest> ReadRelease(v1::ReleaseRequest& request, const std::string& principal) {
  SetDefaultNamespace(request);
  FieldReader reader;
  core::Release release{.resource = request.resource()};
  reader.ReadId("lease_id", request.lease_id(), release.lease_id);
  return reader.Finish(core::Command{principal, request.namespace_(), std::move(release)});
}

Status WriteRelease(const v1::ReleaseRequest& request, engine::Reply& reply,
                    v1::ReleaseResponse& response) {
  const auto outcome = OutcomeIn(reply, request.namespace_());
  if (!outcome.ok()) {
    return outcome.error();
  }
  const auto* released = std::get_if<core::Released>(*outcome);
  if (released == nullptr) {
    return UnexpectedReply("Release");
  }
  response.set_released(released->released);
  response.set_cause(static_cast<v1::Cause>(released->cause));
  response.set_resource(request.resource());
  return {};
}

Result<EngineRequest> ReadCancel(v1::CancelRequest& request, const std::string& principal) {
  SetDefaultNamespace(request);
  FieldReader reader;
  core::Cancel cancel{.resource = request.resource(),
                      .request_id = request.request_id(),
                      .owner = request.owner(),
                      .client = ReadClient(request.client())};
  return reader.Finish(core::Command{principal, request.namespace_(), std::move(cancel)});
}

Status WriteCancel(const v1::CancelRequest& request, engine::Reply& reply,
                   v1::CancelResponse& response) {
  const auto outcome = OutcomeIn(reply, request.namespace_());
  if (!outcome.ok()) {
    return outcome.error();
  }
  const auto* cancelled = std::get_if<core::Cancelled>(*outcome);
  if (cancelled == nullptr) {
    return UnexpectedReply("Cancel");
  }
  response.set_outcome(static_cast<v1::CancelResponse::Outcome>(cancelled->result));
  response.set_resource(request.resource());
  return {};
}

Result<EngineRequest> ReadBreak(v1::BreakRequest& request, const std::string& principal) {
  SetDefaultNamespace(request);
  FieldReader reader;
  core::Break command{.resource = request.resource(),
                      .reason = request.reason(),
                      .dry_run = request.dry_run(),
                      .now = request.now(),
                      .unsafe = request.unsafe()};
  return reader.Finish(core::Command{principal, request.namespace_(), std::move(command)});
}

Status WriteBreak(const v1::BreakRequest& request, engine::Reply& reply,
                  v1::BreakResponse& response) {
  const auto outcome = OutcomeIn(reply, request.namespace_());
  if (!outcome.ok()) {
    return outcome.error();
  }
  auto* broken = std::get_if<core::Broken>(*outcome);
  if (broken == nullptr) {
    return UnexpectedReply("Break");
  }
  response.set_outcome(static_cast<v1::BreakResponse::Outcome>(broken->result));
  if (broken->holder != nullptr) {
    WriteHolder(*broken->holder, *response.mutable_holder());
  }
  response.set_next_owner(std::move(broken->next_owner));
  response.set_resource(request.resource());
  return {};
}

}  // namespace

constinit const Verb<v1::AcquireRequest, v1::AcquireResponse> kAcquire{"Acquire", Access::kUser,
                                                                       ReadAcquire, WriteAcquire};
constinit const Verb<v1::CampaignRequest, v1::AcquireResponse> kCampaign{
    "Campaign", Access::kUser, ReadCampaign, WriteCampaign};
constinit const Verb<v1::RenewRequest, v1::RenewResponse> kRenew{"Renew", Access::kUser, ReadRenew,
                                                                 WriteRenew};
constinit const Verb<v1::ReleaseRequest, v1::ReleaseResponse> kRelease{"Release", Access::kUser,
                                                                       ReadRelease, WriteRelease};
constinit const Verb<v1::ReleaseRequest, v1::ReleaseResponse> kResign{"Resign", Access::kUser,
                                                                      ReadRelease, WriteRelease};
constinit const Verb<v1::CancelRequest, v1::CancelResponse> kCancel{"Cancel", Access::kUser,
                                                                    ReadCancel, WriteCancel};
constinit const Verb<v1::BreakRequest, v1::BreakResponse> kBreak{"Break", Access::kAdmin, ReadBreak,
                                                                 WriteBreak};

bool MayWait(const v1::AcquireRequest& request) {
  return request.wait().seconds() > 0 || request.wait().nanos() > 0;
}
bool MayWait(const v1::CampaignRequest& request) {
  return MayWait(request.acquire());
}

}  // namespace holdfast::server
