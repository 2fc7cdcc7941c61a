// Translation between the messages of holdfast.v1 and the core's commands, queries, outcomes and
// views. No gRPC here.
//
// A Verb is one row of the API: how its request becomes an engine request, and how the reply
// becomes its response. The request message stays with the call, since responses repeat parts of
// it. Pure, except that Read makes a request id (from the CSPRNG) where the caller sent none, and
// writes it and the default namespace into the request.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "core/command.h"
#include "core/view.h"
#include "engine/front.h"
#include "engine/watch_hub.h"
#include "holdfast/result.h"
#include "server/auth.h"

namespace holdfast::engine {
struct RunnerStats;
}

namespace holdfast::server {
struct HotResourcesView;
}

namespace holdfast::v1 {
class AcquireRequest;
class AcquireResponse;
class BreakRequest;
class BreakResponse;
class CampaignRequest;
class CancelRequest;
class CancelResponse;
class CheckTokenRequest;
class CheckTokenResponse;
class CloseSessionRequest;
class CloseSessionResponse;
class DescribeRequest;
class DescribeResponse;
class DescribeSessionRequest;
class DescribeSessionResponse;
class GetNamespaceRequest;
class GetStatusRequest;
class GetStatusResponse;
class StepDownRequest;
class StepDownResponse;
class KeepAliveRequest;
class KeepAliveResponse;
class LeaderRequest;
class LeaderResponse;
class ListHotResourcesRequest;
class ListHotResourcesResponse;
class ListNamespacesRequest;
class ListNamespacesResponse;
class ListRequest;
class ListResponse;
class NamespaceResponse;
class OpenSessionRequest;
class OpenSessionResponse;
class Operation;
class OperationResult;
class Problem;
class ProclaimRequest;
class ProclaimResponse;
class ReleaseRequest;
class ReleaseResponse;
class RenewRequest;
class RenewResponse;
class SetFeatureLevelRequest;
class SetFeatureLevelResponse;
class SetNamespaceRequest;
class WatchRequest;
class WatchResponse;
}  // namespace holdfast::v1

namespace holdfast::server {

using EngineRequest = std::variant<core::Command, core::Query>;

template <typename Request, typename Response>
struct Verb {
  const char* name;
  Access access;
  // kInvalidArgument names the field as the API spells it, and its limit. What it returns has
  // passed core::Validate.
  Result<EngineRequest> (*read)(Request& request, const std::string& principal);
  // The reply's own error, kNotFound for an unknown namespace.
  Status (*write)(const Request& request, engine::Reply& reply, Response& response);
};

extern const Verb<v1::AcquireRequest, v1::AcquireResponse> kAcquire;
extern const Verb<v1::RenewRequest, v1::RenewResponse> kRenew;
extern const Verb<v1::ReleaseRequest, v1::ReleaseResponse> kRelease;
extern const Verb<v1::CancelRequest, v1::CancelResponse> kCancel;
extern const Verb<v1::DescribeRequest, v1::DescribeResponse> kDescribe;
extern const Verb<v1::ListRequest, v1::ListResponse> kList;
extern const Verb<v1::CheckTokenRequest, v1::CheckTokenResponse> kCheckToken;
extern const Verb<v1::BreakRequest, v1::BreakResponse> kBreak;

extern const Verb<v1::OpenSessionRequest, v1::OpenSessionResponse> kOpenSession;
extern const Verb<v1::KeepAliveRequest, v1::KeepAliveResponse> kKeepAlive;
extern const Verb<v1::CloseSessionRequest, v1::CloseSessionResponse> kCloseSession;
extern const Verb<v1::DescribeSessionRequest, v1::DescribeSessionResponse> kDescribeSession;

extern const Verb<v1::CampaignRequest, v1::AcquireResponse> kCampaign;
extern const Verb<v1::ProclaimRequest, v1::ProclaimResponse> kProclaim;
extern const Verb<v1::ReleaseRequest, v1::ReleaseResponse> kResign;
extern const Verb<v1::LeaderRequest, v1::LeaderResponse> kLeader;

extern const Verb<v1::SetNamespaceRequest, v1::NamespaceResponse> kCreateNamespace;
extern const Verb<v1::SetNamespaceRequest, v1::NamespaceResponse> kSetNamespace;
extern const Verb<v1::GetNamespaceRequest, v1::NamespaceResponse> kGetNamespace;
extern const Verb<v1::ListNamespacesRequest, v1::ListNamespacesResponse> kListNamespaces;
extern const Verb<v1::GetNamespaceRequest, v1::NamespaceResponse> kDeleteNamespace;
extern const Verb<v1::SetFeatureLevelRequest, v1::SetFeatureLevelResponse> kSetFeatureLevel;
// The part of the status that the state knows; WriteStats adds the rest.
extern const Verb<v1::GetStatusRequest, v1::GetStatusResponse> kGetStatus;
extern const Verb<v1::StepDownRequest, v1::StepDownResponse> kStepDown;
void WriteStats(const engine::RunnerStats& stats, BootTime now, WallTime wall,
                Duration recommended_ttl_min, v1::GetStatusResponse& response);

// Checks the request and its namespace; WriteHot answers it.
extern const Verb<v1::ListHotResourcesRequest, v1::ListHotResourcesResponse> kListHotResources;
void WriteHot(const HotResourcesView& view, v1::ListHotResourcesResponse& response);

// Leaves only the namespaces that the caller may use.
void Restrict(const Caller& caller, v1::ListNamespacesResponse& response);

// Operations of the bidirectional stream: the same verbs, behind a tag. WriteResult puts errors
// into the result.
Result<EngineRequest> ReadOperation(v1::Operation& operation, const std::string& principal);
void WriteResult(const v1::Operation& operation, engine::Reply& reply, v1::OperationResult& result);
void WriteProblemResult(const v1::Operation& operation, const Error& error,
                        v1::OperationResult& result);
// Whether its answer may take as long as its caller is willing to wait.
bool MayWait(const v1::Operation& operation);
bool MayWait(const v1::AcquireRequest& request);
bool MayWait(const v1::CampaignRequest& request);

struct WatchStart {
  engine::WatchFilter filter;
  std::uint64_t after_index = 0;
};
Result<WatchStart> ReadWatch(v1::WatchRequest& request);
void WriteWatchItem(const engine::WatchItem& item, v1::WatchResponse& response);

void WriteProblem(const Error& error, v1::Problem& problem);
// The gRPC status code (grpc::StatusCode) of an error, and the serialized RpcStatus that travels in
// its details.
int RpcCode(ErrorCode code);
std::string RpcDetails(const Error& error);

}  // namespace holdfast::server
