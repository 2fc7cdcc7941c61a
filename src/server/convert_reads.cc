// Reading locks: describe, list, check-token, watch, and an election's leader.
#include <utility>

#include "core/validate.h"
#include "holdfast/v1/elections.pb.h"
#include "holdfast/v1/locks.pb.h"
#include "server/fields.h"

namespace holdfast::server {
namespace {

Result<EngineRequest> ReadDescribe(v1::DescribeRequest& request, const std::string& /*principal*/) {
  SetDefaultNamespace(request);
  return FieldReader().Finish(
      core::Query(core::Describe{request.namespace_(), request.resource()}));
}

void WriteTransition(core::TransitionView& transition, v1::Transition& out) {
  out.set_index(transition.index);
  WriteTime(transition.at, *out.mutable_at());
  out.set_cause(static_cast<v1::Cause>(transition.cause));
  out.set_fencing_token(transition.token);
  out.set_owner(std::move(transition.owner));
  out.set_reason(std::move(transition.reason));
}

Status WriteDescribe(const v1::DescribeRequest& request, engine::Reply& reply,
                     v1::DescribeResponse& response) {
  const auto view = ViewIn(reply, request.namespace_());
  if (!view.ok()) {
    return view.error();
  }
  auto* resource = std::get_if<core::ResourceView>(*view);
  if (resource == nullptr) {
    return UnexpectedReply("Describe");
  }
  response.set_resource(request.resource());
  response.set_namespace_(request.namespace_());
  response.set_state(static_cast<v1::DescribeResponse::State>(resource->state));
  if (resource->holder != nullptr) {
    WriteHolder(*resource->holder, *response.mutable_holder());
  }
  if (resource->state == core::ResourceState::kDelayed) {
    WriteDuration(resource->delay_left, *response.mutable_delay_left());
  }
  for (core::WaiterView& waiter : resource->queue) {
    v1::Waiter& out = *response.add_queue();
    out.set_owner(std::move(waiter.owner));
    out.set_principal(std::move(waiter.principal));
    WriteDuration(waiter.waiting_for, *out.mutable_waiting_for());
    WriteDuration(waiter.wait_left, *out.mutable_wait_left());
    out.set_detached(waiter.detached);
  }
  response.set_queue_length(resource->queue_length);
  for (core::TransitionView& transition : resource->transitions) {
    WriteTransition(transition, *response.add_transitions());
  }
  response.set_guarantee(static_cast<v1::Guarantee>(resource->guarantee));
  response.set_value(std::move(resource->value));
  response.set_index(reply.index);
  return {};
}

Result<EngineRequest> ReadList(v1::ListRequest& request, const std::string& /*principal*/) {
  SetDefaultNamespace(request);
  FieldReader reader;
  reader.Require(request.page_token().empty() || core::ValidateResource(request.page_token()).ok(),
                 "page_token", "next_page_token of the page before",
                 "was not made by this service");
  return reader.Finish(core::Query(core::List{.name_space = request.namespace_(),
                                              .prefix = request.prefix(),
                                              .page_size = request.page_size(),
                                              .after = request.page_token()}));
}

Status WriteList(const v1::ListRequest& request, engine::Reply& reply, v1::ListResponse& response) {
  const auto view = ViewIn(reply, request.namespace_());
  if (!view.ok()) {
    return view.error();
  }
  auto* list = std::get_if<core::ListView>(*view);
  if (list == nullptr) {
    return UnexpectedReply("List");
  }
  if (list->more && !list->items.empty()) {
    response.set_next_page_token(list->items.back().resource);
  }
  for (core::ResourceView& item : list->items) {
    v1::ListResponse::Item& out = *response.add_items();
    out.set_resource(std::move(item.resource));
    out.set_state(static_cast<v1::DescribeResponse::State>(item.state));
    if (item.holder != nullptr) {
      WriteHolder(*item.holder, *out.mutable_holder());
    }
    out.set_queue_length(item.queue_length);
  }
  return {};
}

Result<EngineRequest> ReadCheckToken(v1::CheckTokenRequest& request,
                                     const std::string& /*principal*/) {
  SetDefaultNamespace(request);
  return FieldReader().Finish(core::Query(
      core::CheckToken{request.namespace_(), request.resource(), request.fencing_token()}));
}

Status WriteCheckToken(const v1::CheckTokenRequest& request, engine::Reply& reply,
                       v1::CheckTokenResponse& response) {
  const auto view = ViewIn(reply, request.namespace_());
  if (!view.ok()) {
    return view.error();
  }
  const auto* token = std::get_if<core::TokenView>(*view);
  if (token == nullptr) {
    return UnexpectedReply("CheckToken");
  }
  response.set_verdict(static_cast<v1::CheckTokenResponse::Verdict>(token->verdict));
  response.set_current(token->verdict == core::TokenVerdict::kCurrent);
  response.set_index(reply.index);
  return {};
}

Result<EngineRequest> ReadLeader(v1::LeaderRequest& request, const std::string& /*principal*/) {
  SetDefaultNamespace(request);
  return FieldReader().Finish(core::Query(core::Leader{request.namespace_(), request.resource()}));
}

Status WriteLeader(const v1::LeaderRequest& request, engine::Reply& reply,
                   v1::LeaderResponse& response) {
  const auto view = ViewIn(reply, request.namespace_());
  if (!view.ok()) {
    return view.error();
  }
  auto* leader = std::get_if<core::LeaderView>(*view);
  if (leader == nullptr) {
    return UnexpectedReply("Leader");
  }
  response.set_vacant(leader->vacant);
  response.set_index(reply.index);
  if (!leader->vacant) {
    response.set_value(std::move(leader->value));
    response.set_fencing_token(leader->token);
    response.set_owner(std::move(leader->owner));
    WriteTime(leader->since, *response.mutable_since());
    WriteDuration(leader->left, *response.mutable_lease_left());
  }
  return {};
}

}  // namespace

constinit const Verb<v1::DescribeRequest, v1::DescribeResponse> kDescribe{
    "Describe", Access::kUser, ReadDescribe, WriteDescribe};
constinit const Verb<v1::ListRequest, v1::ListResponse> kList{"List", Access::kUser, ReadList,
                                                              WriteList};
constinit const Verb<v1::CheckTokenRequest, v1::CheckTokenResponse> kCheckToken{
    "CheckToken", Access::kUser, ReadCheckToken, WriteCheckToken};
constinit const Verb<v1::LeaderRequest, v1::LeaderResponse> kLeader{"Leader", Access::kUser,
                                                                    ReadLeader, WriteLeader};

Result<WatchStart> ReadWatch(v1::WatchRequest& request) {
  SetDefaultNamespace(request);
  if (request.exact()) {
    const Status resource = core::ValidateResource(request.prefix());
    if (!resource.ok()) {
      return InvalidArgument("prefix", resource.error().limit,
                             "prefix is not the name of a resource");
    }
  }
  // A prefix of a watch obeys the rules of a prefix of a list.
  const Status status = core::Validate(core::Query(core::List{.name_space = request.namespace_(),
                                                              .prefix = request.prefix(),
                                                              .page_size = 0,
                                                              .after = {}}));
  if (!status.ok()) {
    return status.error();
  }
  return WatchStart{.filter = {.name_space = request.namespace_(),
                               .prefix = request.prefix(),
                               .exact = request.exact()},
                    .after_index = request.after_index()};
}

void WriteWatchItem(const engine::WatchItem& item, v1::WatchResponse& response) {
  if (const auto* gap = std::get_if<engine::WatchGap>(&item)) {
    response.mutable_gap()->set_index(gap->index);
    return;
  }
  const auto& watched = std::get<engine::WatchedEvent>(item);
  const core::Event& event = *watched.event;
  v1::WatchEvent& out = *response.mutable_event();
  out.set_index(watched.index);
  out.set_kind(static_cast<v1::WatchEvent::Kind>(event.kind));
  out.set_resource(event.resource);
  out.set_fencing_token(event.token);
  out.set_owner(event.owner);
  out.set_cause(static_cast<v1::Cause>(event.cause));
  out.set_value(event.value);
  out.set_reason(event.reason);
  WriteTime(watched.at, *out.mutable_at());
}

}  // namespace holdfast::server
