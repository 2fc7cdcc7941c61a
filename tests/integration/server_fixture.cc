#include "tests/integration/server_fixture.h"

#include <chrono>
#include <filesystem>

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include "holdfast/v1/locks.grpc.pb.h"
#include "tests/support/wait_until.h"

namespace holdfast::server {

ServerFixture::ServerFixture()
    : folder_(testing::TempDir() + "holdfast." +
              testing::UnitTest::GetInstance()->current_test_info()->name() + "." +
              ToHex(RandomId())) {
  std::filesystem::create_directories(folder_);
  config_.data_dir = folder_ + "/data";
  config_.listen = "127.0.0.1:0";
  config_.log_level = "warning";
  config_.segment_bytes = std::uint64_t{1} << 20U;
}

ServerFixture::~ServerFixture() {
  channel_.reset();
  server_.reset();
  std::filesystem::remove_all(folder_);
}

void ServerFixture::Start() {
  auto started = Server::Start(config_);
  ASSERT_TRUE(started.ok()) << started.error().message;
  server_ = std::move(*started);
  channel_ = Connect();
}

std::shared_ptr<grpc::Channel> ServerFixture::Connect() {
  return ConnectTo(server_->address());
}

std::shared_ptr<grpc::Channel> ServerFixture::ConnectTo(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);  // windows that do not grow
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

v1::AcquireResponse ServerFixture::Acquire(const std::string& resource, const std::string& owner) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::AcquireResponse response;
  const grpc::Status status =
      v1::Locks::NewStub(channel_)->Acquire(&context, AcquireOf(resource, owner), &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}

bool ServerFixture::Release(const std::string& resource, const std::string& lease_id) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::ReleaseRequest request;
  request.set_resource(resource);
  request.set_lease_id(lease_id);
  v1::ReleaseResponse response;
  const grpc::Status status = v1::Locks::NewStub(channel_)->Release(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response.released();
}

v1::DescribeResponse ServerFixture::Describe(const std::string& resource) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::DescribeRequest request;
  request.set_resource(resource);
  v1::DescribeResponse response;
  const grpc::Status status = v1::Locks::NewStub(channel_)->Describe(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}

void ServerFixture::ExpectNothingOpen() {
  EXPECT_TRUE(testing_support::WaitUntil([this] {
    const FrontCounters open = server_->counters();
    return open.calls == 0 && open.streams == 0 && open.watches == 0 && open.requests == 0;
  })) << server_->counters().calls
      << " calls, " << server_->counters().streams << " streams, " << server_->counters().watches
      << " watches, " << server_->counters().requests << " requests";
  EXPECT_EQ(server_->runner().watches().watchers(), 0U);
}

v1::Problem ProblemOf(const grpc::Status& status) {
  v1::RpcStatus details;
  v1::Problem problem;
  if (details.ParseFromString(status.error_details()) && details.details_size() == 1) {
    details.details(0).UnpackTo(&problem);
  }
  return problem;
}

v1::AcquireRequest AcquireOf(const std::string& resource, const std::string& owner,
                             int wait_seconds) {
  v1::AcquireRequest request;
  request.set_resource(resource);
  request.set_owner(owner);
  if (wait_seconds > 0) {
    request.mutable_wait()->set_seconds(wait_seconds);
  }
  return request;
}

void SetDeadline(grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
}

}  // namespace holdfast::server
