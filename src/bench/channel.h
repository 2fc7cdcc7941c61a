// A gRPC channel with one TCP connection of its own, and how to wait for it.
#pragma once

#include <memory>
#include <string>

#include "bench/recorder.h"
#include "holdfast/result.h"

namespace grpc {
class Channel;
}

namespace holdfast::bench {

// Starts to connect at once. `number` makes the channel's arguments, and so its connection,
// distinct.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& endpoint, int number);

// Blocks; kUnavailable, with the endpoint, after the deadline.
Status WaitConnected(grpc::Channel& channel, const std::string& endpoint, LoadTime deadline);

}  // namespace holdfast::bench
