// Operations.Stream: frames, packing, limits, and what becomes of streams that end in any way.
#include <algorithm>
#include <map>
#include <thread>
#include <utility>

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include "holdfast/v1/stream.grpc.pb.h"
#include "tests/integration/server_fixture.h"
#include "tests/support/wait_until.h"

namespace holdfast::server {
namespace {

using testing_support::WaitUntil;

class StreamTest : public ServerFixture {
 protected:
  void SetUp() override { Start(); }
};

// One stream, and the results that came back on it.
class Client {
 public:
  explicit Client(std::shared_ptr<grpc::Channel> channel) : channel_(std::move(channel)) {
    SetDeadline(context_);
    stream_ = v1::Operations::NewStub(channel_)->Stream(&context_);
  }

  bool Send(const v1::OperationFrame& frame) { return stream_->Write(frame); }
  bool Send(const v1::Operation& operation) {
    v1::OperationFrame frame;
    *frame.add_operations() = operation;
    return Send(frame);
  }
  // Reads frames until there are `count` results in all; false if the stream ended before.
  bool Await(std::size_t count) {
    v1::ResultFrame frame;
    while (results_.size() < count && stream_->Read(&frame)) {
      ++frames_;
      for (const v1::OperationResult& result : frame.results()) {
        EXPECT_TRUE(results_.emplace(result.tag(), result).second)
            << "two results for tag " << result.tag();
      }
    }
    return results_.size() == count;
  }
  const v1::OperationResult& result(std::uint64_t tag) { return results_[tag]; }
  int frames() const { return frames_; }
  void Cancel() { context_.TryCancel(); }
  void HalfClose() { stream_->WritesDone(); }
  grpc::Status Finish() {
    v1::ResultFrame frame;
    while (stream_->Read(&frame)) {
    }
    return stream_->Finish();
  }

 private:
  std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::OperationFrame, v1::ResultFrame>> stream_;
  std::map<std::uint64_t, v1::OperationResult> results_;
  int frames_ = 0;
};

v1::Operation AcquireOperation(std::uint64_t tag, const std::string& resource,
                               int wait_seconds = 0) {
  v1::Operation operation;
  operation.set_tag(tag);
  *operation.mutable_acquire() = AcquireOf(resource, "owner-" + std::to_string(tag), wait_seconds);
  return operation;
}

TEST_F(StreamTest, EveryOperationHasItsResult) {
  Client client(Connect());
  ASSERT_TRUE(client.Send(AcquireOperation(1, "a")));
  ASSERT_TRUE(client.Await(1));
  const std::string lease = client.result(1).acquire().granted().lease_id();
  v1::OperationFrame frame;
  const auto add = [&frame](std::uint64_t tag) -> v1::Operation& {
    v1::Operation& operation = *frame.add_operations();
    operation.set_tag(tag);
    return operation;
  };
  v1::RenewRequest& renew = *add(2).mutable_renew();
  renew.set_resource("a");
  renew.set_lease_id(lease);
  add(3).mutable_describe()->set_resource("a");
  v1::CheckTokenRequest& check = *add(4).mutable_check_token();
  check.set_resource("a");
  check.set_fencing_token(client.result(1).acquire().granted().fencing_token());
  add(5).mutable_open_session()->set_owner("s");
  v1::CampaignRequest& campaign = *add(6).mutable_campaign();
  *campaign.mutable_acquire() = AcquireOf("leader");
  campaign.set_value("me");
  add(7).mutable_leader()->set_resource("vacant");
  v1::CancelRequest& cancel = *add(8).mutable_cancel();
  cancel.set_resource("a");
  cancel.set_request_id("not-yet");
  add(9);                                                 // nothing is set
  add(10).mutable_renew()->set_resource("NO");            // a bad name
  add(11).mutable_describe()->set_namespace_("nowhere");  // and a bad name
  frame.mutable_operations(9)->mutable_describe()->set_resource("a");
  ASSERT_TRUE(client.Send(frame));
  ASSERT_TRUE(client.Await(11));
  EXPECT_TRUE(client.result(2).renew().has_renewed());
  EXPECT_EQ(client.result(3).describe().holder().owner(), "owner-1");
  EXPECT_TRUE(client.result(4).check_token().current());
  EXPECT_TRUE(client.result(5).open_session().has_opened());
  EXPECT_TRUE(client.result(6).acquire().has_granted());
  EXPECT_TRUE(client.result(7).leader().vacant());
  EXPECT_EQ(client.result(8).cancel().outcome(), v1::CancelResponse::CANCELLED_BEFORE_ARRIVAL);
  EXPECT_EQ(client.result(9).problem().field(), "request");
  EXPECT_EQ(client.result(10).problem().code(), v1::Problem::INVALID_ARGUMENT);
  EXPECT_EQ(client.result(11).problem().code(), v1::Problem::NOT_FOUND);

  v1::OperationFrame more;
  v1::Operation* operation = more.add_operations();
  operation->set_tag(12);
  operation->mutable_keep_alive()->set_session_id(
      client.result(5).open_session().opened().session_id());
  operation = more.add_operations();
  operation->set_tag(13);
  operation->mutable_close_session()->set_session_id(
      client.result(5).open_session().opened().session_id());
  operation = more.add_operations();
  operation->set_tag(14);
  operation->mutable_proclaim()->set_resource("leader");
  operation->mutable_proclaim()->set_lease_id(client.result(6).acquire().granted().lease_id());
  operation = more.add_operations();
  operation->set_tag(15);
  operation->mutable_release()->set_resource("a");
  operation->mutable_release()->set_lease_id(lease);
  ASSERT_TRUE(client.Send(more));
  ASSERT_TRUE(client.Await(15));
  EXPECT_TRUE(client.result(12).keep_alive().alive());
  EXPECT_TRUE(client.result(13).close_session().closed());
  EXPECT_TRUE(client.result(14).proclaim().proclaimed());
  EXPECT_TRUE(client.result(15).release().released());
  client.HalfClose();
  EXPECT_TRUE(client.Finish().ok());
  ExpectNothingOpen();
}

TEST_F(StreamTest, ResultsOfATurnArePacked) {
  Client client(Connect());
  v1::OperationFrame frame;
  for (std::uint64_t tag = 0; tag < 1000; ++tag) {
    *frame.add_operations() = AcquireOperation(tag, "r/" + std::to_string(tag));
  }
  ASSERT_TRUE(client.Send(frame));
  ASSERT_TRUE(client.Await(1000));
  EXPECT_LE(client.frames(), 3) << "one batch, one frame";
  for (std::uint64_t tag = 0; tag < 1000; ++tag) {
    EXPECT_TRUE(client.result(tag).acquire().has_granted());
  }
}

TEST_F(StreamTest, AWaitDoesNotHoldUpWhatFollows) {
  Client client(Connect());
  ASSERT_TRUE(client.Send(AcquireOperation(1, "a")));
  ASSERT_TRUE(client.Await(1));
  ASSERT_TRUE(client.Send(AcquireOperation(2, "a", 50)));
  v1::Operation release;
  release.set_tag(3);
  release.mutable_release()->set_resource("a");
  release.mutable_release()->set_lease_id(client.result(1).acquire().granted().lease_id());
  ASSERT_TRUE(WaitUntil([this] { return Describe("a").queue_length() == 1; }));
  ASSERT_TRUE(client.Send(release));
  ASSERT_TRUE(client.Await(3));
  EXPECT_TRUE(client.result(3).release().released());
  EXPECT_TRUE(client.result(2).acquire().granted().provisional());
}

TEST_F(StreamTest, HalfCloseWaitsForTheWaiters) {
  const std::string lease = Acquire("a").granted().lease_id();
  Client client(Connect());
  ASSERT_TRUE(client.Send(AcquireOperation(1, "a", 50)));
  client.HalfClose();
  ASSERT_TRUE(WaitUntil([this] { return Describe("a").queue_length() == 1; }));
  EXPECT_TRUE(Release("a", lease));
  ASSERT_TRUE(client.Await(1));
  EXPECT_TRUE(client.result(1).acquire().has_granted());
  EXPECT_TRUE(client.Finish().ok());
}

TEST_F(StreamTest, ACancelledStreamDetachesItsWaiters) {
  Acquire("a");
  Client client(Connect());
  v1::OperationFrame frame;
  for (std::uint64_t tag = 0; tag < 10; ++tag) {
    *frame.add_operations() = AcquireOperation(tag, "a", 50);
  }
  ASSERT_TRUE(client.Send(frame));
  ASSERT_TRUE(WaitUntil([this] { return Describe("a").queue_length() == 10; }));
  EXPECT_EQ(server().counters().streams, 1U);
  client.Cancel();
  EXPECT_TRUE(WaitUntil([this] {
    const v1::DescribeResponse described = Describe("a");
    return std::all_of(described.queue().begin(), described.queue().end(),
                       [](const v1::Waiter& waiter) { return waiter.detached(); });
  }));
  EXPECT_EQ(client.Finish().error_code(), grpc::StatusCode::CANCELLED);
  ExpectNothingOpen();
}

TEST_F(StreamTest, AFrameThatIsTooLargeEndsTheStream) {
  Client client(Connect());
  v1::OperationFrame frame;
  for (std::uint64_t tag = 0; tag < 1025; ++tag) {
    frame.add_operations()->mutable_leader()->set_resource("a");
  }
  client.Send(frame);
  const grpc::Status status = client.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ProblemOf(status).field(), "operations");
  EXPECT_EQ(ProblemOf(status).limit(), "at most 1024 operations");
  ExpectNothingOpen();
}

TEST_F(StreamTest, AClientThatDoesNotReadIsNotReadEither) {
  Client holder(Connect());
  v1::Operation hold = AcquireOperation(1, "a");
  (*hold.mutable_acquire()->mutable_metadata())["large"] = std::string(1000, 'v');
  ASSERT_TRUE(holder.Send(hold));
  ASSERT_TRUE(holder.Await(1));

  Client client(ConnectTo(server().address()));
  constexpr std::size_t kFrames = 40;
  constexpr std::size_t kPerFrame = 1024;  // with answers of more than 1000 bytes: 40 MiB in all
  std::thread writer([&] {
    for (std::size_t i = 0; i < kFrames; ++i) {
      v1::OperationFrame frame;
      for (std::size_t j = 0; j < kPerFrame; ++j) {
        v1::Operation& operation = *frame.add_operations();
        operation.set_tag(i * kPerFrame + j);
        operation.mutable_describe()->set_resource("a");
      }
      if (!client.Send(frame)) {
        break;
      }
    }
    client.HalfClose();
  });
  // The limit of the stream is reached: the server keeps the results that it has, and takes no more
  // operations.
  const auto answered = [this] { return server().runner().Stats().engine.reads; };
  EXPECT_TRUE(WaitUntil([&] {
    const std::uint64_t now = answered();
    return now >= kPerFrame &&
           !WaitUntil([&] { return answered() != now; }, std::chrono::milliseconds(500));
  }));
  EXPECT_LT(answered(), kFrames * kPerFrame / 2);
  EXPECT_TRUE(client.Await(kFrames * kPerFrame)) << "nothing is lost when it reads again";
  writer.join();
  EXPECT_TRUE(client.Finish().ok());
  holder.HalfClose();
  EXPECT_TRUE(holder.Finish().ok());
  ExpectNothingOpen();
}

}  // namespace
}  // namespace holdfast::server
