#include <type_traits>

#include "client/wire.h"
#include "holdfast/v1/admin.pb.h"
#include "holdfast/v1/elections.pb.h"
#include "holdfast/v1/locks.pb.h"
#include "holdfast/v1/sessions.pb.h"

namespace holdfast::client {
namespace {

void Put(Duration from, google::protobuf::Duration& to) {
  to.set_seconds(from.count() / 1'000'000'000);
  to.set_nanos(static_cast<std::int32_t>(from.count() % 1'000'000'000));
}

void Put(const ClientContext& from, v1::ClientContext& to) {
  to.set_client_id(from.client_id);
  to.set_sequence(from.sequence);
  to.set_answered_below(from.answered_below);
}

v1::AcquireRequest ToWire(const AcquireRequest& from) {
  v1::AcquireRequest to;
  to.set_namespace_(from.namespace_name);
  to.set_resource(from.resource);
  to.set_request_id(from.request_id);
  to.set_owner(from.owner);
  if (from.ttl.has_value()) {
    Put(*from.ttl, *to.mutable_ttl());
  }
  to.set_session_id(from.session_id);
  if (from.wait != Duration::zero()) {
    Put(from.wait, *to.mutable_wait());
  }
  for (const auto& entry : from.metadata) {
    (*to.mutable_metadata())[entry.first] = entry.second;
  }
  if (from.context.has_value()) {
    Put(*from.context, *to.mutable_client());
  }
  return to;
}

// Renew, release, close and the like: a namespace, a name and a capability.
template <typename Message>
Message LeaseMessage(const std::string& namespace_name, const std::string& resource,
                     const std::string& lease_id) {
  Message to;
  to.set_namespace_(namespace_name);
  to.set_resource(resource);
  to.set_lease_id(lease_id);
  return to;
}

template <typename Message>
Message ResourceMessage(const std::string& namespace_name, const std::string& resource) {
  Message to;
  to.set_namespace_(namespace_name);
  to.set_resource(resource);
  return to;
}

template <typename Message>
Message SessionMessage(const std::string& namespace_name, const std::string& session_id) {
  Message to;
  to.set_namespace_(namespace_name);
  to.set_session_id(session_id);
  return to;
}

v1::CancelRequest ToWire(const CancelRequest& from) {
  v1::CancelRequest to;
  to.set_namespace_(from.namespace_name);
  to.set_resource(from.resource);
  to.set_request_id(from.request_id);
  to.set_owner(from.owner);
  if (from.context.has_value()) {
    Put(*from.context, *to.mutable_client());
  }
  return to;
}

v1::OpenSessionRequest ToWire(const OpenSessionRequest& from) {
  v1::OpenSessionRequest to;
  to.set_namespace_(from.namespace_name);
  to.set_request_id(from.request_id);
  to.set_owner(from.owner);
  if (from.ttl.has_value()) {
    Put(*from.ttl, *to.mutable_ttl());
  }
  if (from.context.has_value()) {
    Put(*from.context, *to.mutable_client());
  }
  return to;
}

v1::SetNamespaceRequest ToWire(const std::string& name, const Policy& from) {
  v1::SetNamespaceRequest request;
  request.set_name(name);
  v1::Policy& to = *request.mutable_policy();
  to.set_protection(static_cast<v1::Guarantee>(from.protection));
  const auto put = [](const std::optional<Duration>& value, auto&& make) {
    if (value.has_value()) {
      Put(*value, *make());
    }
  };
  put(from.ttl_default, [&] { return to.mutable_ttl_default(); });
  put(from.ttl_min, [&] { return to.mutable_ttl_min(); });
  put(from.ttl_max, [&] { return to.mutable_ttl_max(); });
  put(from.hold_max, [&] { return to.mutable_hold_max(); });
  put(from.wait_max, [&] { return to.mutable_wait_max(); });
  put(from.lock_delay, [&] { return to.mutable_lock_delay(); });
  put(from.request_memory, [&] { return to.mutable_request_memory(); });
  put(from.detach_grace, [&] { return to.mutable_detach_grace(); });
  if (from.strict.has_value()) {
    to.set_strict(*from.strict);
  }
  if (from.waiters_per_resource.has_value()) {
    to.set_waiters_per_resource(*from.waiters_per_resource);
  }
  if (from.waiters_per_tenant.has_value()) {
    to.set_waiters_per_tenant(*from.waiters_per_tenant);
  }
  if (from.holds_per_tenant.has_value()) {
    to.set_holds_per_tenant(*from.holds_per_tenant);
  }
  if (from.sessions_per_tenant.has_value()) {
    to.set_sessions_per_tenant(*from.sessions_per_tenant);
  }
  if (from.request_bytes_per_tenant.has_value()) {
    to.set_request_bytes_per_tenant(*from.request_bytes_per_tenant);
  }
  return request;
}

RawRequest Raw(const char* method, const google::protobuf::MessageLite& message) {
  return RawRequest{method, message.SerializeAsString()};
}

struct Encoder {
  RawRequest operator()(const AcquireRequest& from) const {
    return Raw("/holdfast.v1.Locks/Acquire", ToWire(from));
  }
  RawRequest operator()(const CampaignRequest& from) const {
    v1::CampaignRequest to;
    *to.mutable_acquire() = ToWire(from.acquire);
    to.set_value(from.value);
    return Raw("/holdfast.v1.Elections/Campaign", to);
  }
  RawRequest operator()(const RenewRequest& from) const {
    return Raw("/holdfast.v1.Locks/Renew",
               LeaseMessage<v1::RenewRequest>(from.namespace_name, from.resource, from.lease_id));
  }
  RawRequest operator()(const ReleaseRequest& from) const {
    return Raw("/holdfast.v1.Locks/Release",
               LeaseMessage<v1::ReleaseRequest>(from.namespace_name, from.resource, from.lease_id));
  }
  RawRequest operator()(const CancelRequest& from) const {
    return Raw("/holdfast.v1.Locks/Cancel", ToWire(from));
  }
  RawRequest operator()(const OpenSessionRequest& from) const {
    return Raw("/holdfast.v1.Sessions/Open", ToWire(from));
  }
  RawRequest operator()(const KeepAliveRequest& from) const {
    return Raw("/holdfast.v1.Sessions/KeepAlive",
               SessionMessage<v1::KeepAliveRequest>(from.namespace_name, from.session_id));
  }
  RawRequest operator()(const CloseSessionRequest& from) const {
    return Raw("/holdfast.v1.Sessions/Close",
               SessionMessage<v1::CloseSessionRequest>(from.namespace_name, from.session_id));
  }
  RawRequest operator()(const RawRequest& from) const { return from; }
};

}  // namespace

RawRequest Encode(const Request& request) {
  return std::visit(Encoder{}, request);
}

RawRequest EncodeDescribe(const std::string& namespace_name, const std::string& resource) {
  return Raw("/holdfast.v1.Locks/Describe",
             ResourceMessage<v1::DescribeRequest>(namespace_name, resource));
}

RawRequest EncodeList(const ListRequest& request) {
  v1::ListRequest to;
  to.set_namespace_(request.namespace_name);
  to.set_prefix(request.prefix);
  to.set_page_size(request.page_size);
  to.set_page_token(request.page_token);
  return Raw("/holdfast.v1.Locks/List", to);
}

RawRequest EncodeCheckToken(const std::string& namespace_name, const std::string& resource,
                            std::uint64_t fencing_token) {
  auto to = ResourceMessage<v1::CheckTokenRequest>(namespace_name, resource);
  to.set_fencing_token(fencing_token);
  return Raw("/holdfast.v1.Locks/CheckToken", to);
}

RawRequest EncodeBreak(const BreakRequest& request) {
  auto to = ResourceMessage<v1::BreakRequest>(request.namespace_name, request.resource);
  to.set_reason(request.reason);
  to.set_dry_run(request.dry_run);
  to.set_now(request.now);
  to.set_unsafe(request.unsafe);
  return Raw("/holdfast.v1.Locks/Break", to);
}

RawRequest EncodeWatch(const WatchRequest& request) {
  v1::WatchRequest to;
  to.set_namespace_(request.namespace_name);
  to.set_prefix(request.prefix);
  to.set_exact(request.exact);
  to.set_after_index(request.after_index);
  return Raw("/holdfast.v1.Locks/Watch", to);
}

RawRequest EncodeDescribeSession(const std::string& namespace_name, const std::string& session_id) {
  return Raw("/holdfast.v1.Sessions/DescribeSession",
             SessionMessage<v1::DescribeSessionRequest>(namespace_name, session_id));
}

RawRequest EncodeProclaim(const ProclaimRequest& request) {
  auto to =
      LeaseMessage<v1::ProclaimRequest>(request.namespace_name, request.resource, request.lease_id);
  to.set_value(request.value);
  return Raw("/holdfast.v1.Elections/Proclaim", to);
}

RawRequest EncodeResign(const ReleaseRequest& request) {
  return Raw(
      "/holdfast.v1.Elections/Resign",
      LeaseMessage<v1::ReleaseRequest>(request.namespace_name, request.resource, request.lease_id));
}

RawRequest EncodeLeader(const std::string& namespace_name, const std::string& resource) {
  return Raw("/holdfast.v1.Elections/Leader",
             ResourceMessage<v1::LeaderRequest>(namespace_name, resource));
}

RawRequest EncodeObserve(const std::string& namespace_name, const std::string& resource) {
  return Raw("/holdfast.v1.Elections/Observe",
             ResourceMessage<v1::LeaderRequest>(namespace_name, resource));
}

RawRequest EncodeCreateNamespace(const std::string& name, const Policy& policy) {
  return Raw("/holdfast.v1.Admin/CreateNamespace", ToWire(name, policy));
}

RawRequest EncodeSetNamespace(const std::string& name, const Policy& policy) {
  return Raw("/holdfast.v1.Admin/SetNamespace", ToWire(name, policy));
}

RawRequest EncodeGetNamespace(const std::string& name) {
  v1::GetNamespaceRequest to;
  to.set_name(name);
  return Raw("/holdfast.v1.Admin/GetNamespace", to);
}

RawRequest EncodeDeleteNamespace(const std::string& name) {
  v1::GetNamespaceRequest to;
  to.set_name(name);
  return Raw("/holdfast.v1.Admin/DeleteNamespace", to);
}

RawRequest EncodeListNamespaces() {
  return Raw("/holdfast.v1.Admin/ListNamespaces", v1::ListNamespacesRequest());
}

RawRequest EncodeSetFeatureLevel(std::uint32_t level) {
  v1::SetFeatureLevelRequest to;
  to.set_level(level);
  return Raw("/holdfast.v1.Admin/SetFeatureLevel", to);
}

RawRequest EncodeListHotResources(const std::string& name_space, std::uint32_t limit) {
  v1::ListHotResourcesRequest to;
  to.set_namespace_(name_space);
  to.set_limit(limit);
  return Raw("/holdfast.v1.Admin/ListHotResources", to);
}

RawRequest EncodeStepDown() {
  return Raw("/holdfast.v1.Admin/StepDown", v1::StepDownRequest());
}

RawRequest EncodeGetStatus() {
  return Raw("/holdfast.v1.Admin/GetStatus", v1::GetStatusRequest());
}

}  // namespace holdfast::client
