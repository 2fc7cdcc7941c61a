// Starting, refusing to start, stopping while clients wait, and connections that die without a
// word.
#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <utility>

#include <arpa/inet.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "holdfast/v1/locks.grpc.pb.h"
#include "holdfast/v1/stream.grpc.pb.h"
#include "tests/integration/server_fixture.h"
#include "tests/support/wait_until.h"

namespace holdfast::server {
namespace {

using testing_support::WaitUntil;

class LifecycleTest : public ServerFixture {};

Error Refusal(const Config& config) {
  const auto started = Server::Start(config);
  EXPECT_FALSE(started.ok());
  return started.ok() ? Error{} : started.error();
}

TEST_F(LifecycleTest, AReachableListenerIsRefusedWithoutTls) {
  config().listen = "0.0.0.0:0";
  EXPECT_EQ(Refusal(config()).field, "listen");
  config().insecure = true;
  Start();
}

TEST_F(LifecycleTest, NeedsADataDirectory) {
  config().data_dir.clear();
  EXPECT_EQ(Refusal(config()).field, "data_dir");
}

TEST_F(LifecycleTest, ASecondServerIsRefused) {
  Start();
  Config second = config();
  EXPECT_EQ(Refusal(second).code, ErrorCode::kBusy) << "the same directory";
  second.data_dir = folder() + "/other";
  second.listen = server().address();
  EXPECT_EQ(Refusal(second).code, ErrorCode::kUnavailable) << "the same port";
}

TEST_F(LifecycleTest, BadPemFilesAreNamed) {
  config().tls_cert = folder() + "/none.pem";
  config().tls_key = folder() + "/none.pem";
  EXPECT_EQ(Refusal(config()).field, "tls.cert");
}

TEST_F(LifecycleTest, AGracefulStopAnswersThoseThatWait) {
  Start();
  const v1::AcquireResponse held = Acquire("a");
  v1::AcquireRequest request = AcquireOf("a", "waiter", 50);
  request.set_request_id("kept");
  grpc::ClientContext unary_context;
  auto unary = std::async(std::launch::async, [&] {
    v1::AcquireResponse response;
    SetDeadline(unary_context);
    return v1::Locks::NewStub(channel())->Acquire(&unary_context, request, &response);
  });
  grpc::ClientContext stream_context;
  SetDeadline(stream_context);
  auto stream = v1::Operations::NewStub(channel())->Stream(&stream_context);
  v1::OperationFrame frame;
  frame.add_operations()->set_tag(5);
  *frame.mutable_operations(0)->mutable_acquire() = AcquireOf("a", "streamer", 50);
  ASSERT_TRUE(stream->Write(frame));
  grpc::ClientContext watch_context;
  SetDeadline(watch_context);
  auto watch = v1::Locks::NewStub(channel())->Watch(&watch_context, v1::WatchRequest());
  v1::WatchResponse started;
  ASSERT_TRUE(watch->Read(&started));
  ASSERT_TRUE(WaitUntil([this] { return Describe("a").queue_length() == 2; }));

  const auto begin = std::chrono::steady_clock::now();
  server().Stop();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4))
      << "nothing had to be cut off";
  const grpc::Status unary_status = unary.get();
  EXPECT_EQ(unary_status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ProblemOf(unary_status).code(), v1::Problem::UNAVAILABLE);
  v1::ResultFrame results;
  ASSERT_TRUE(stream->Read(&results));
  EXPECT_EQ(results.results(0).tag(), 5U);
  EXPECT_EQ(results.results(0).problem().code(), v1::Problem::UNAVAILABLE);
  EXPECT_FALSE(stream->Read(&results));
  EXPECT_EQ(ProblemOf(stream->Finish()).code(), v1::Problem::UNAVAILABLE);
  while (watch->Read(&started)) {
  }
  EXPECT_EQ(ProblemOf(watch->Finish()).code(), v1::Problem::UNAVAILABLE);

  Stop();
  Start();
  EXPECT_EQ(Describe("a").holder().fencing_token(), held.granted().fencing_token())
      << "the holder still holds";
  EXPECT_TRUE(Describe("a").queue(0).detached()) << "the waiters keep their places for a while";
}

TEST_F(LifecycleTest, StoppingTwiceIsStoppingOnce) {
  Start();
  server().Stop();
  server().Stop();
}

// Forwards one connection to the server, until it plays dead: then both sides stay open and nothing
// moves any more.
class Wire {
 public:
  explicit Wire(const std::string& address)
      : port_(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)))) {
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in local = Loopback(0);
    socklen_t size = sizeof(local);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&local), size), 0);
    EXPECT_EQ(listen(listener_, 1), 0);
    EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&local), &size), 0);
    address_ = "127.0.0.1:" + std::to_string(ntohs(local.sin_port));
    thread_ = std::thread([this] { Run(); });
  }
  ~Wire() {
    stop_ = true;
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  const std::string& address() const { return address_; }
  void PlayDead() { dead_ = true; }

 private:
  static sockaddr_in Loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }

  void Run() {
    const int client = accept(listener_, nullptr, nullptr);
    if (client < 0) {
      return;
    }
    const int upstream = socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in target = Loopback(port_);
    EXPECT_EQ(connect(upstream, reinterpret_cast<const sockaddr*>(&target), sizeof(target)), 0);
    std::array<pollfd, 2> ends{{{client, POLLIN, 0}, {upstream, POLLIN, 0}}};
    while (!stop_) {
      if (poll(ends.data(), ends.size(), 20) <= 0 || dead_) {
        if (dead_) {
          WaitUntil([this] { return stop_.load(); });
        }
        continue;
      }
      for (std::size_t i = 0; i < ends.size(); ++i) {
        std::array<char, 16'384> bytes{};
        const ssize_t size =
            (ends[i].revents & POLLIN) != 0 ? read(ends[i].fd, bytes.data(), bytes.size()) : 0;
        if (size > 0) {
          EXPECT_EQ(write(ends[1 - i].fd, bytes.data(), static_cast<std::size_t>(size)), size);
        }
      }
    }
    close(client);
    close(upstream);
  }

  const std::uint16_t port_;
  int listener_ = -1;
  std::string address_;
  std::atomic<bool> dead_{false};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

TEST_F(LifecycleTest, AHalfOpenConnectionLeavesNothingBehind) {
  config().keepalive_time = Seconds(1);
  config().keepalive_timeout = Millis(200);
  Start();
  Acquire("a");
  Wire wire(server().address());
  {
    const auto connection = ConnectTo(wire.address());
    grpc::ClientContext context;
    SetDeadline(context);
    auto stream = v1::Operations::NewStub(connection)->Stream(&context);
    v1::OperationFrame frame;
    *frame.add_operations()->mutable_acquire() = AcquireOf("a", "waiter", 50);
    ASSERT_TRUE(stream->Write(frame));
    ASSERT_TRUE(WaitUntil([this] { return Describe("a").queue_length() == 1; }));
    wire.PlayDead();
    EXPECT_TRUE(WaitUntil([this] { return Describe("a").queue(0).detached(); }));
    ExpectNothingOpen();
    context.TryCancel();
    stream->Finish();
  }
}

}  // namespace
}  // namespace holdfast::server
