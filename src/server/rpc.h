// The pieces that touch gRPC and that all calls share.
#pragma once

#include <memory>

#include "holdfast/result.h"
#include "server/auth.h"
#include "server/loop.h"

namespace grpc {
class ServerContext;
class Status;
}  // namespace grpc

namespace holdfast::server {

// With a Problem in the details.
grpc::Status RpcStatusOf(const Error& error);

// Admits a call that has just arrived and finds out whose it is. `Loop::Leave` must follow unless
// this fails; a failed authentication is audited.
Result<std::shared_ptr<const Caller>> Welcome(Loop& loop, const grpc::ServerContext& context,
                                              const char* verb);

// Tells the client where the leader is, if this node is not it. Before the call is finished.
void NameLeader(Loop& loop, grpc::ServerContext& context);

}  // namespace holdfast::server
