#include "bench/channel.h"

#include <grpcpp/grpcpp.h>

namespace holdfast::bench {

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& endpoint, int number) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt("holdfast.bench.connection", number);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);  // as in our client, which retries by itself
  // A server that restarts during a run is found again quickly.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 3000);  // what one connection may take
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
  auto channel = grpc::CreateCustomChannel(endpoint, grpc::InsecureChannelCredentials(), arguments);
  channel->GetState(/*try_to_connect=*/true);
  return channel;
}

Status WaitConnected(grpc::Channel& channel, const std::string& endpoint, LoadTime deadline) {
  const auto left = deadline - LoadClock::now();
  if (!channel.WaitForConnected(std::chrono::system_clock::now() + left)) {
    return Error{ErrorCode::kUnavailable, "cannot connect to " + endpoint, {}, {}};
  }
  return {};
}

}  // namespace holdfast::bench
