// A server in this process on a free loopback port, with a data directory of its own.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "server/server.h"

namespace grpc {
class Channel;
class ClientContext;
class Status;
}  // namespace grpc
namespace holdfast::v1 {
class AcquireRequest;
class AcquireResponse;
class DescribeResponse;
class Problem;
}  // namespace holdfast::v1

namespace holdfast::server {

class ServerFixture : public testing::Test {
 protected:
  ServerFixture();
  ~ServerFixture() override;

  // Changes what Start will use.
  Config& config() { return config_; }
  const std::string& folder() const { return folder_; }
  void Start();
  void Stop() { server_.reset(); }
  Server& server() { return *server_; }

  // A connection of its own to the server, or to another address.
  std::shared_ptr<grpc::Channel> Connect();
  std::shared_ptr<grpc::Channel> ConnectTo(const std::string& address);

  // On the connection of the fixture; they must succeed.
  v1::AcquireResponse Acquire(const std::string& resource, const std::string& owner = "owner");
  bool Release(const std::string& resource, const std::string& lease_id);
  v1::DescribeResponse Describe(const std::string& resource);
  const std::shared_ptr<grpc::Channel>& channel() { return channel_; }

  // Everything that clients had open is gone.
  void ExpectNothingOpen();

 private:
  const std::string folder_;
  Config config_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

// The Problem in the details of a status; empty if there is none.
v1::Problem ProblemOf(const grpc::Status& status);

v1::AcquireRequest AcquireOf(const std::string& resource, const std::string& owner = "owner",
                             int wait_seconds = 0);

// No call of a test takes longer.
void SetDeadline(grpc::ClientContext& context);

}  // namespace holdfast::server
