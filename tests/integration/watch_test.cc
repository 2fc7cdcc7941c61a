// Locks.Watch and Elections.Observe.
#include <utility>

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include "holdfast/v1/elections.grpc.pb.h"
#include "holdfast/v1/locks.grpc.pb.h"
#include "holdfast/v1/stream.grpc.pb.h"
#include "tests/integration/server_fixture.h"
#include "tests/support/wait_until.h"

namespace holdfast::server {
namespace {

class WatchTest : public ServerFixture {
 protected:
  void SetUp() override { Start(); }
};

class Watcher {
 public:
  Watcher(std::shared_ptr<grpc::Channel> channel, const v1::WatchRequest& request)
      : channel_(std::move(channel)) {
    SetDeadline(context_);
    reader_ = v1::Locks::NewStub(channel_)->Watch(&context_, request);
  }
  bool Read(v1::WatchResponse& response) { return reader_->Read(&response); }
  // The next message, which must be an event.
  v1::WatchEvent Event() {
    v1::WatchResponse response;
    EXPECT_TRUE(Read(response));
    EXPECT_TRUE(response.has_event());
    return response.event();
  }
  std::uint64_t StartedAt() {
    v1::WatchResponse response;
    EXPECT_TRUE(Read(response));
    EXPECT_TRUE(response.has_started_at());
    return response.started_at();
  }
  void Cancel() { context_.TryCancel(); }
  grpc::Status Finish() { return reader_->Finish(); }

 private:
  std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::WatchResponse>> reader_;
};

v1::WatchRequest WatchOf(const std::string& prefix, std::uint64_t after = 0) {
  v1::WatchRequest request;
  request.set_prefix(prefix);
  request.set_after_index(after);
  return request;
}

TEST_F(WatchTest, SeesWhatHappensBelowItsPrefix) {
  Watcher watcher(channel(), WatchOf("jobs/"));
  const std::uint64_t start = watcher.StartedAt();
  const v1::AcquireResponse acquired = Acquire("jobs/1");
  Acquire("other");
  EXPECT_TRUE(Release("jobs/1", acquired.granted().lease_id()));
  Acquire("jobs/2");
  const v1::WatchEvent granted = watcher.Event();
  EXPECT_EQ(granted.kind(), v1::WatchEvent::GRANTED);
  EXPECT_EQ(granted.cause(), v1::ACQUIRED);
  EXPECT_EQ(granted.resource(), "jobs/1");
  EXPECT_EQ(granted.fencing_token(), acquired.granted().fencing_token());
  EXPECT_GT(granted.index(), start);
  const v1::WatchEvent ended = watcher.Event();
  EXPECT_EQ(ended.kind(), v1::WatchEvent::ENDED);
  EXPECT_EQ(ended.cause(), v1::RELEASED);
  EXPECT_EQ(watcher.Event().resource(), "jobs/2");

  // Another watch that has seen up to the grant goes on from there.
  Watcher later(channel(), WatchOf("jobs/", granted.index()));
  later.StartedAt();
  EXPECT_EQ(later.Event().kind(), v1::WatchEvent::ENDED);
  watcher.Cancel();
  later.Cancel();
  EXPECT_EQ(watcher.Finish().error_code(), grpc::StatusCode::CANCELLED);
  later.Finish();
  ExpectNothingOpen();
}

TEST_F(WatchTest, AnExactWatchSeesOneResource) {
  v1::WatchRequest request = WatchOf("jobs/1");
  request.set_exact(true);
  Watcher watcher(channel(), request);
  watcher.StartedAt();
  Acquire("jobs/12");
  Acquire("jobs/1");
  EXPECT_EQ(watcher.Event().resource(), "jobs/1");
}

TEST_F(WatchTest, BadWatchesAreRefused) {
  v1::WatchRequest request = WatchOf("a");
  request.set_namespace_("nowhere");
  Watcher unknown(channel(), request);
  const grpc::Status status = unknown.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ProblemOf(status).field(), "namespace");
  request = WatchOf("NOT A NAME");
  request.set_exact(true);
  Watcher bad(channel(), request);
  EXPECT_EQ(ProblemOf(bad.Finish()).field(), "prefix");
  ExpectNothingOpen();
}

TEST_F(WatchTest, ASlowWatcherGetsAGapAndGoesOn) {
  Watcher watcher(Connect(), WatchOf("slow/"));
  watcher.StartedAt();
  grpc::ClientContext context;
  SetDeadline(context);
  auto stream = v1::Operations::NewStub(channel())->Stream(&context);
  const std::string name = "slow/" + std::string(200, 'n');
  for (int i = 0; i < 4; ++i) {
    v1::OperationFrame frame;
    for (int j = 0; j < 1000; ++j) {
      *frame.add_operations()->mutable_acquire() = AcquireOf(name + std::to_string(i * 1000 + j));
    }
    ASSERT_TRUE(stream->Write(frame));
    v1::ResultFrame results;
    for (int answered = 0; answered < 1000 && stream->Read(&results);) {
      answered += results.results_size();
    }
  }
  const std::uint64_t last = Acquire("slow/last").granted().fencing_token();
  std::uint64_t seen = 0;
  std::uint64_t gap = 0;
  for (v1::WatchResponse response; seen != last && watcher.Read(response);) {
    if (response.has_gap()) {
      gap = response.gap().index();
    } else {
      EXPECT_GT(response.event().index(), gap) << "what a gap covers does not come after it";
      seen = response.event().kind() == v1::WatchEvent::GRANTED ? response.event().fencing_token()
                                                                : seen;
    }
  }
  EXPECT_EQ(seen, last);
  EXPECT_GT(gap, 0U);
}

class Observer {
 public:
  Observer(const std::shared_ptr<grpc::Channel>& channel, const std::string& resource) {
    SetDeadline(context_);
    v1::LeaderRequest request;
    request.set_resource(resource);
    reader_ = v1::Elections::NewStub(channel)->Observe(&context_, request);
  }
  v1::LeaderResponse Next() {
    v1::LeaderResponse response;
    EXPECT_TRUE(reader_->Read(&response));
    return response;
  }
  void Cancel() { context_.TryCancel(); }
  grpc::Status Finish() { return reader_->Finish(); }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::LeaderResponse>> reader_;
};

TEST_F(WatchTest, AnObserverSeesLeadersAndVacancy) {
  const auto elections = v1::Elections::NewStub(channel());
  const auto campaign = [&](const std::string& value) {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::CampaignRequest request;
    *request.mutable_acquire() = AcquireOf("leader", value);
    request.set_value(value);
    v1::AcquireResponse response;
    EXPECT_TRUE(elections->Campaign(&context, request, &response).ok());
    return response.granted();
  };
  Observer observer(channel(), "leader");
  EXPECT_TRUE(observer.Next().vacant());
  const v1::Grant first = campaign("first");
  v1::LeaderResponse leader = observer.Next();
  EXPECT_EQ(leader.value(), "first");
  EXPECT_EQ(leader.fencing_token(), first.fencing_token());

  grpc::ClientContext context;
  SetDeadline(context);
  v1::ProclaimRequest proclaim;
  proclaim.set_resource("leader");
  proclaim.set_lease_id(first.lease_id());
  proclaim.set_value("first, moved");
  v1::ProclaimResponse proclaimed;
  ASSERT_TRUE(elections->Proclaim(&context, proclaim, &proclaimed).ok());
  EXPECT_EQ(observer.Next().value(), "first, moved");

  EXPECT_TRUE(Release("leader", first.lease_id()));
  EXPECT_TRUE(observer.Next().vacant());
  const v1::Grant second = campaign("second");
  leader = observer.Next();
  EXPECT_EQ(leader.owner(), "second");
  EXPECT_GT(leader.fencing_token(), first.fencing_token());
  EXPECT_EQ(leader.fencing_token(), second.fencing_token());

  Observer late(channel(), "leader");
  EXPECT_EQ(late.Next().value(), "second") << "the current leader first";
  observer.Cancel();
  late.Cancel();
  observer.Finish();
  late.Finish();
  ExpectNothingOpen();
}

}  // namespace
}  // namespace holdfast::server
