// Locks.Watch and Elections.Observe: server streams that are fed by the watch hub. The hub's buffer
// is the only one: a client that does not read keeps one Write in flight, its buffer in the hub
// overflows, and it gets a gap.
#pragma once

#include <functional>

#include "server/loop.h"

namespace grpc {
class ServerContext;
template <class W>
class ServerAsyncWriter;
}  // namespace grpc

namespace holdfast::v1 {
class LeaderRequest;
class LeaderResponse;
class WatchRequest;
class WatchResponse;
}  // namespace holdfast::v1

namespace holdfast::server {

using AcceptWatch = std::function<void(grpc::ServerContext*, v1::WatchRequest*,
                                       grpc::ServerAsyncWriter<v1::WatchResponse>*, void* tag)>;
using AcceptObserver = std::function<void(grpc::ServerContext*, v1::LeaderRequest*,
                                          grpc::ServerAsyncWriter<v1::LeaderResponse>*, void* tag)>;

// Accept calls until the server shuts down.
void ListenForWatches(Loop& loop, AcceptWatch accept);
void ListenForObservers(Loop& loop, AcceptObserver accept);

}  // namespace holdfast::server
