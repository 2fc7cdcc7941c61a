// Operations.Stream: one call per client that carries everything it asks.
//
// Flow: each frame's operations go to the engine with the turn; all results that a turn brings go
// out in one frame (cut at about 1 MiB); one Write is in flight at a time. Bounds: operations that
// are answered at once and results that the client has not taken count against one limit, and
// reading stops at it, so that a client that does not read its results is no longer read either.
// Acquires that wait have a limit of their own and are refused beyond it, since stopping to read
// for them would also stop the renewals behind them.
#pragma once

#include <functional>

#include "server/loop.h"

namespace grpc {
class ServerContext;
template <class W, class R>
class ServerAsyncReaderWriter;
}  // namespace grpc

namespace holdfast::v1 {
class OperationFrame;
class ResultFrame;
}  // namespace holdfast::v1

namespace holdfast::server {

inline constexpr int kFrameOperationsMax = 1024;
inline constexpr std::size_t kStreamPromptMax = 4096;
inline constexpr std::size_t kStreamWaitsMax = 16'384;

// The generated RequestStream, with its queue.
using AcceptStream = std::function<void(
    grpc::ServerContext*, grpc::ServerAsyncReaderWriter<v1::ResultFrame, v1::OperationFrame>*,
    void* tag)>;

// Accepts streams until the server shuts down.
void ListenForStreams(Loop& loop, AcceptStream accept);

}  // namespace holdfast::server
