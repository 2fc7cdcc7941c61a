// Sessions, and proclaiming on an election.
#include <utility>

#include "holdfast/v1/elections.pb.h"
#include "holdfast/v1/sessions.pb.h"
#include "server/fields.h"

namespace holdfast::server {
namespace {

Result<EngineRequest> ReadOpen(v1::OpenSessionRequest& request, const std::string& principal) {
  SetDefaultNamespace(request);
  SetRequestId(request);
  FieldReader reader;
  core::OpenSession open;
  open.request_id = request.request_id();
  open.owner = request.owner();
  if (request.has_ttl()) {
    reader.ReadPositiveDuration("ttl", request.ttl(), open.ttl);
  }
  open.client = ReadClient(request.client());
  return reader.Finish(core::Command{principal, request.namespace_(), std::move(open)});
}

Status WriteOpen(const v1::OpenSessionRequest& request, engine::Reply& reply,
                 v1::OpenSessionResponse& response) {
  const auto outcome = OutcomeIn(reply, request.namespace_());
  if (!outcome.ok()) {
    return outcome.error();
  }
  response.set_request_id(request.request_id());
  if (const auto* opened = std::get_if<core::SessionOpened>(*outcome)) {
    v1::OpenSessionResponse::Opened& out = *response.mutable_opened();
    out.set_session_id(ToHex(opened->session_id));
    out.set_session_fp(Fingerprint(out.session_id()));
    WriteDuration(opened->ttl, *out.mutable_ttl());
    WriteDuration(opened->remaining, *out.mutable_remaining());
  } else if (auto* refused = std::get_if<core::SessionRefused>(*outcome)) {
    v1::OpenSessionResponse::Refused& out = *response.mutable_refused();
    out.set_reason(static_cast<v1::OpenSessionResponse::RefusalReason>(refused->reason));
    out.set_limit(std::move(refused->limit));
  } else {
    return UnexpectedReply("Open");
  }
  return {};
}

Result<EngineRequest> ReadKeepAlive(v1::KeepAliveRequest& request, const std::string& principal) {
  SetDefaultNamespace(request);
  FieldReader reader;
  core::KeepAlive command;
  reader.ReadId("session_id", request.session_id(), command.session_id);
  return reader.Finish(core::Command{principal, request.namespace_(), command});
}

Status WriteKeepAlive(const v1::KeepAliveRequest& request, engine::Reply& reply,
                      v1::KeepAliveResponse& response) {
  const auto outcome = OutcomeIn(reply, request.namespace_());
  if (!outcome.ok()) {
    return outcome.error();
  }
  const auto* kept = std::get_if<core::SessionKept>(*outcome);
  if (kept == nullptr) {
    return UnexpectedReply("KeepAlive");
  }
  response.set_alive(kept->alive);
  WriteDuration(kept->remaining, *response.mutable_remaining());
  response.set_cause(static_cast<v1::Cause>(kept->cause));
  response.set_revocations(kept->revocations);
  return {};
}

Result<EngineRequest> ReadClose(v1::CloseSessionRequest& request, const std::string& principal) {
  SetDefaultNamespace(request);
  FieldReader reader;
  core::CloseSession command;
  reader.ReadId("session_id", request.session_id(), command.session_id);
  return reader.Finish(core::Command{principal, request.namespace_(), command});
}

Status WriteClose(const v1::CloseSessionRequest& request, engine::Reply& reply,
                  v1::CloseSessionResponse& response) {
  const auto outcome = OutcomeIn(reply, request.namespace_());
  if (!outcome.ok()) {
    return outcome.error();
  }
  const auto* closed = std::get_if<core::SessionClosed>(*outcome);
  if (closed == nullptr) {
    return UnexpectedReply("Close");
  }
  response.set_closed(closed->closed);
  response.set_cause(static_cast<v1::Cause>(closed->cause));
  return {};
}

Result<EngineRequest> ReadDescribeSession(v1::DescribeSessionRequest& request,
                                          const std::string& /*principal*/) {
  SetDefaultNamespace(request);
  FieldReader reader;
  core::DescribeSession query{.name_space = request.namespace_()};
  reader.ReadId("session_id", request.session_id(), query.session_id);
  return reader.Finish(core::Query(std::move(query)));
}

Status WriteDescribeSession(const v1::DescribeSessionRequest& request, engine::Reply& reply,
                            v1::DescribeSessionResponse& response) {
  const auto view = ViewIn(reply, request.namespace_());
  if (!view.ok()) {
    return view.error();
  }
  auto* session = std::get_if<core::SessionView>(*view);
  if (session == nullptr) {
    return UnexpectedReply("DescribeSession");
  }
  response.set_alive(session->alive);
  response.set_owner(std::move(session->owner));
  WriteDuration(session->ttl, *response.mutable_ttl());
  WriteDuration(session->remaining, *response.mutable_remaining());
  response.set_holds(session->holds);
  response.set_waits(session->waits);
  response.set_cause(static_cast<v1::Cause>(session->cause));
  return {};
}

Result<EngineRequest> ReadProclaim(v1::ProclaimRequest& request, const std::string& principal) {
  SetDefaultNamespace(request);
  FieldReader reader;
  core::Proclaim proclaim{.resource = request.resource(), .lease_id = {}, .value = request.value()};
  reader.ReadId("lease_id", request.lease_id(), proclaim.lease_id);
  return reader.Finish(core::Command{principal, request.namespace_(), std::move(proclaim)});
}

Status WriteProclaim(const v1::ProclaimRequest& request, engine::Reply& reply,
                     v1::ProclaimResponse& response) {
  const auto outcome = OutcomeIn(reply, request.namespace_());
  if (!outcome.ok()) {
    return outcome.error();
  }
  const auto* proclaimed = std::get_if<core::Proclaimed>(*outcome);
  if (proclaimed == nullptr) {
    return UnexpectedReply("Proclaim");
  }
  response.set_proclaimed(proclaimed->proclaimed);
  response.set_cause(static_cast<v1::Cause>(proclaimed->cause));
  return {};
}

}  // namespace

constinit const Verb<v1::OpenSessionRequest, v1::OpenSessionResponse> kOpenSession{
    "Open", Access::kUser, ReadOpen, WriteOpen};
constinit const Verb<v1::KeepAliveRequest, v1::KeepAliveResponse> kKeepAlive{
    "KeepAlive", Access::kUser, ReadKeepAlive, WriteKeepAlive};
constinit const Verb<v1::CloseSessionRequest, v1::CloseSessionResponse> kCloseSession{
    "Close", Access::kUser, ReadClose, WriteClose};
constinit const Verb<v1::DescribeSessionRequest, v1::DescribeSessionResponse> kDescribeSession{
    "DescribeSession", Access::kUser, ReadDescribeSession, WriteDescribeSession};
constinit const Verb<v1::ProclaimRequest, v1::ProclaimResponse> kProclaim{
    "Proclaim", Access::kUser, ReadProclaim, WriteProclaim};

}  // namespace holdfast::server
