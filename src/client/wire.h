// Between the client's structs and the bytes of the API. Thread-safe. No gRPC here: a failed RPC
// arrives as its parts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "client/call.h"
#include "client/machine.h"
#include "holdfast/result.h"
#include "holdfast/types.h"

namespace holdfast::client {

RawRequest Encode(const Request& request);
RawRequest EncodeDescribe(const std::string& namespace_name, const std::string& resource);
RawRequest EncodeList(const ListRequest& request);
RawRequest EncodeCheckToken(const std::string& namespace_name, const std::string& resource,
                            std::uint64_t fencing_token);
RawRequest EncodeBreak(const BreakRequest& request);
RawRequest EncodeWatch(const WatchRequest& request);
RawRequest EncodeDescribeSession(const std::string& namespace_name, const std::string& session_id);
RawRequest EncodeProclaim(const ProclaimRequest& request);
RawRequest EncodeResign(const ReleaseRequest& request);
RawRequest EncodeLeader(const std::string& namespace_name, const std::string& resource);
RawRequest EncodeObserve(const std::string& namespace_name, const std::string& resource);
RawRequest EncodeCreateNamespace(const std::string& name, const Policy& policy);
RawRequest EncodeSetNamespace(const std::string& name, const Policy& policy);
RawRequest EncodeGetNamespace(const std::string& name);
RawRequest EncodeDeleteNamespace(const std::string& name);
RawRequest EncodeListNamespaces();
RawRequest EncodeSetFeatureLevel(std::uint32_t level);
RawRequest EncodeGetStatus();
RawRequest EncodeStepDown();
RawRequest EncodeListHotResources(const std::string& name_space, std::uint32_t limit);

// An answer that cannot be read, or has no outcome that this build knows, is kInternal.
Result<AcquireResult> DecodeAcquire(std::string_view body);
Result<RenewResult> DecodeRenew(std::string_view body);
Result<ReleaseResult> DecodeRelease(std::string_view body);
Result<CancelResult> DecodeCancel(std::string_view body);
Result<DescribeResult> DecodeDescribe(std::string_view body);
Result<ListResult> DecodeList(std::string_view body);
Result<CheckTokenResult> DecodeCheckToken(std::string_view body);
Result<BreakResult> DecodeBreak(std::string_view body);
Result<WatchItem> DecodeWatch(std::string_view body);
Result<OpenSessionResult> DecodeOpenSession(std::string_view body);
Result<KeepAliveResult> DecodeKeepAlive(std::string_view body);
Result<CloseSessionResult> DecodeCloseSession(std::string_view body);
Result<SessionDescription> DecodeDescribeSession(std::string_view body);
Result<ProclaimResult> DecodeProclaim(std::string_view body);
Result<LeaderInfo> DecodeLeader(std::string_view body);
Result<NamespaceResult> DecodeNamespace(std::string_view body);
Result<std::vector<NamespaceResult>> DecodeNamespaces(std::string_view body);
Result<FeatureLevelResult> DecodeFeatureLevel(std::string_view body);
Result<ServiceStatus> DecodeStatus(std::string_view body);
Result<bool> DecodeStepDown(std::string_view body);
Result<HotResources> DecodeHotResources(std::string_view body);

// The answer to `request`, which tells its type.
Result<Reply> DecodeReply(const Request& request, std::string body);

// How an RPC failed.
struct WireFailure {
  bool sent = false;  // it may have reached the service
  int grpc_code = 0;  // of the gRPC status
  std::string message;
  std::string details;  // the status' details: a serialized holdfast.v1.RpcStatus, or nothing
};

// What it means: the service's own word, if it sent a Problem; else nothing was done only if
// nothing was sent.
Failure Classify(const WireFailure& failure);

}  // namespace holdfast::client
