// Each unary verb once through a real connection, what refusals look like, and what becomes of
// clients that vanish.
#include <future>
#include <utility>

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>

#include "grpc/health/v1/health.grpc.pb.h"
#include "holdfast/v1/admin.grpc.pb.h"
#include "holdfast/v1/elections.grpc.pb.h"
#include "holdfast/v1/locks.grpc.pb.h"
#include "holdfast/v1/sessions.grpc.pb.h"
#include "tests/integration/server_fixture.h"
#include "tests/support/wait_until.h"

namespace holdfast::server {
namespace {

using testing_support::WaitUntil;

class UnaryTest : public ServerFixture {
 protected:
  void SetUp() override {
    Start();
    locks_ = v1::Locks::NewStub(channel());
    sessions_ = v1::Sessions::NewStub(channel());
    elections_ = v1::Elections::NewStub(channel());
    admin_ = v1::Admin::NewStub(channel());
  }

  template <typename Stub, typename Base, typename Request, typename Response>
  static grpc::Status Call(Stub& stub,
                           grpc::Status (Base::*verb)(grpc::ClientContext*, const Request&,
                                                      Response*),
                           const Request& request, Response& response) {
    grpc::ClientContext context;
    SetDeadline(context);
    return (stub.*verb)(&context, request, &response);
  }

  std::unique_ptr<v1::Locks::Stub> locks_;
  std::unique_ptr<v1::Sessions::Stub> sessions_;
  std::unique_ptr<v1::Elections::Stub> elections_;
  std::unique_ptr<v1::Admin::Stub> admin_;
};

TEST_F(UnaryTest, ALockFromAcquireToRelease) {
  const v1::AcquireResponse acquired = Acquire("jobs/1");
  ASSERT_TRUE(acquired.has_granted());
  EXPECT_EQ(acquired.granted().ttl().seconds(), 30);
  EXPECT_EQ(acquired.granted().guarantee(), v1::ADVISORY);
  const std::string lease = acquired.granted().lease_id();

  const v1::AcquireResponse refused = Acquire("jobs/1", "another");
  EXPECT_EQ(refused.refused().code(), v1::HELD);
  EXPECT_EQ(refused.refused().holder().owner(), "owner");
  EXPECT_EQ(refused.refused().holder().principal(), "anonymous");

  v1::RenewRequest renew;
  renew.set_resource("jobs/1");
  renew.set_lease_id(lease);
  v1::RenewResponse renewed;
  ASSERT_TRUE(Call(*locks_, &v1::Locks::Stub::Renew, renew, renewed).ok());
  EXPECT_EQ(renewed.renewed().ttl().seconds(), 30);

  v1::CheckTokenRequest check;
  check.set_resource("jobs/1");
  check.set_fencing_token(acquired.granted().fencing_token());
  v1::CheckTokenResponse checked;
  ASSERT_TRUE(Call(*locks_, &v1::Locks::Stub::CheckToken, check, checked).ok());
  EXPECT_TRUE(checked.current());

  v1::ListRequest list;
  list.set_prefix("jobs/");
  v1::ListResponse listed;
  ASSERT_TRUE(Call(*locks_, &v1::Locks::Stub::List, list, listed).ok());
  ASSERT_EQ(listed.items_size(), 1);
  EXPECT_EQ(listed.items(0).resource(), "jobs/1");

  v1::CancelRequest cancel;
  cancel.set_resource("jobs/1");
  cancel.set_request_id(acquired.request_id());
  cancel.set_owner("owner");
  v1::CancelResponse cancelled;
  ASSERT_TRUE(Call(*locks_, &v1::Locks::Stub::Cancel, cancel, cancelled).ok());
  EXPECT_EQ(cancelled.outcome(), v1::CancelResponse::STILL_GRANTED);

  v1::BreakRequest breaking;
  breaking.set_resource("jobs/1");
  breaking.set_reason("stuck");
  breaking.set_dry_run(true);
  v1::BreakResponse broken;
  ASSERT_TRUE(Call(*locks_, &v1::Locks::Stub::Break, breaking, broken).ok());
  EXPECT_EQ(broken.outcome(), v1::BreakResponse::WOULD_BREAK);

  EXPECT_TRUE(Release("jobs/1", lease));
  EXPECT_TRUE(Release("jobs/1", lease)) << "the second time as well";
  const v1::DescribeResponse described = Describe("jobs/1");
  EXPECT_EQ(described.state(), v1::DescribeResponse::FREE);
  EXPECT_EQ(described.transitions(0).cause(), v1::RELEASED);
  ExpectNothingOpen();
}

TEST_F(UnaryTest, ASessionFromOpenToClose) {
  v1::OpenSessionRequest open;
  open.set_owner("s");
  v1::OpenSessionResponse opened;
  ASSERT_TRUE(Call(*sessions_, &v1::Sessions::Stub::Open, open, opened).ok());
  const std::string id = opened.opened().session_id();

  v1::AcquireRequest acquire = AcquireOf("on-session");
  acquire.set_session_id(id);
  v1::AcquireResponse acquired;
  ASSERT_TRUE(Call(*locks_, &v1::Locks::Stub::Acquire, acquire, acquired).ok());
  EXPECT_TRUE(acquired.has_granted());
  EXPECT_EQ(Describe("on-session").holder().on_session_fp(), opened.opened().session_fp());

  v1::KeepAliveRequest keep;
  keep.set_session_id(id);
  v1::KeepAliveResponse kept;
  ASSERT_TRUE(Call(*sessions_, &v1::Sessions::Stub::KeepAlive, keep, kept).ok());
  EXPECT_TRUE(kept.alive());

  v1::DescribeSessionRequest describe;
  describe.set_session_id(id);
  v1::DescribeSessionResponse described;
  ASSERT_TRUE(Call(*sessions_, &v1::Sessions::Stub::DescribeSession, describe, described).ok());
  EXPECT_EQ(described.holds(), 1U);

  v1::CloseSessionRequest close;
  close.set_session_id(id);
  v1::CloseSessionResponse closed;
  ASSERT_TRUE(Call(*sessions_, &v1::Sessions::Stub::Close, close, closed).ok());
  EXPECT_TRUE(closed.closed());
  EXPECT_EQ(Describe("on-session").state(), v1::DescribeResponse::FREE);
}

TEST_F(UnaryTest, AnElectionFromCampaignToResign) {
  v1::CampaignRequest campaign;
  *campaign.mutable_acquire() = AcquireOf("leader");
  campaign.set_value("10.0.0.1:80");
  v1::AcquireResponse won;
  ASSERT_TRUE(Call(*elections_, &v1::Elections::Stub::Campaign, campaign, won).ok());
  ASSERT_TRUE(won.has_granted());

  v1::ProclaimRequest proclaim;
  proclaim.set_resource("leader");
  proclaim.set_lease_id(won.granted().lease_id());
  proclaim.set_value("10.0.0.1:81");
  v1::ProclaimResponse proclaimed;
  ASSERT_TRUE(Call(*elections_, &v1::Elections::Stub::Proclaim, proclaim, proclaimed).ok());
  EXPECT_TRUE(proclaimed.proclaimed());

  v1::LeaderRequest ask;
  ask.set_resource("leader");
  v1::LeaderResponse leader;
  ASSERT_TRUE(Call(*elections_, &v1::Elections::Stub::Leader, ask, leader).ok());
  EXPECT_EQ(leader.value(), "10.0.0.1:81");
  EXPECT_EQ(leader.fencing_token(), won.granted().fencing_token());

  v1::ReleaseRequest resign;
  resign.set_resource("leader");
  resign.set_lease_id(won.granted().lease_id());
  v1::ReleaseResponse resigned;
  ASSERT_TRUE(Call(*elections_, &v1::Elections::Stub::Resign, resign, resigned).ok());
  EXPECT_TRUE(resigned.released());
  ASSERT_TRUE(Call(*elections_, &v1::Elections::Stub::Leader, ask, leader).ok());
  EXPECT_TRUE(leader.vacant());
}

TEST_F(UnaryTest, ANamespaceFromCreateToDelete) {
  v1::SetNamespaceRequest create;
  create.set_name("billing");
  create.mutable_policy()->set_protection(v1::FENCED);
  v1::NamespaceResponse made;
  ASSERT_TRUE(Call(*admin_, &v1::Admin::Stub::CreateNamespace, create, made).ok());
  EXPECT_EQ(made.outcome(), v1::NamespaceResponse::OK);
  EXPECT_EQ(made.policy().protection(), v1::FENCED);
  ASSERT_TRUE(Call(*admin_, &v1::Admin::Stub::CreateNamespace, create, made).ok());
  EXPECT_EQ(made.outcome(), v1::NamespaceResponse::NAMESPACE_EXISTS);

  v1::SetNamespaceRequest set;
  set.set_name("billing");
  set.mutable_policy()->mutable_ttl_max()->set_seconds(60);
  ASSERT_TRUE(Call(*admin_, &v1::Admin::Stub::SetNamespace, set, made).ok());
  EXPECT_EQ(made.policy().ttl_max().seconds(), 60);
  EXPECT_EQ(made.policy().protection(), v1::FENCED);
  set.mutable_policy()->mutable_ttl_max()->set_seconds(1'000'000);
  const grpc::Status too_long = Call(*admin_, &v1::Admin::Stub::SetNamespace, set, made);
  EXPECT_EQ(ProblemOf(too_long).field(), "ttl_max");

  v1::ListNamespacesResponse listed;
  ASSERT_TRUE(
      Call(*admin_, &v1::Admin::Stub::ListNamespaces, v1::ListNamespacesRequest(), listed).ok());
  EXPECT_EQ(listed.namespaces_size(), 2);

  v1::GetNamespaceRequest name;
  name.set_name("billing");
  ASSERT_TRUE(Call(*admin_, &v1::Admin::Stub::DeleteNamespace, name, made).ok());
  EXPECT_EQ(made.outcome(), v1::NamespaceResponse::OK);
  ASSERT_TRUE(Call(*admin_, &v1::Admin::Stub::GetNamespace, name, made).ok());
  EXPECT_EQ(made.outcome(), v1::NamespaceResponse::NAMESPACE_NOT_FOUND);
}

TEST_F(UnaryTest, StatusAndFeatureLevel) {
  Acquire("a");
  v1::GetStatusResponse status;
  ASSERT_TRUE(Call(*admin_, &v1::Admin::Stub::GetStatus, v1::GetStatusRequest(), status).ok());
  EXPECT_EQ(status.version(), "0.1.0");
  EXPECT_EQ(status.role(), "leader");
  EXPECT_EQ(status.holds(), 1U);
  EXPECT_GE(status.fencing_token(), 1U);
  EXPECT_GE(status.operations(), 1U);
  EXPECT_GE(status.batches(), 1U);
  EXPECT_TRUE(status.accepting_writes());
  EXPECT_GE(status.index(), 2U);
  v1::SetFeatureLevelRequest level;
  level.set_level(status.feature_level());
  v1::SetFeatureLevelResponse set;
  ASSERT_TRUE(Call(*admin_, &v1::Admin::Stub::SetFeatureLevel, level, set).ok());
  EXPECT_TRUE(set.accepted());
}

TEST_F(UnaryTest, HealthIsAnswered) {
  const auto health = grpc::health::v1::Health::NewStub(channel());
  grpc::health::v1::HealthCheckRequest request;
  grpc::health::v1::HealthCheckResponse response;
  using Stub = grpc::health::v1::Health::Stub;
  ASSERT_TRUE(Call(*health, &Stub::Check, request, response).ok());
  EXPECT_EQ(response.status(), grpc::health::v1::HealthCheckResponse::SERVING);
  request.set_service("holdfast.v1.Locks");
  EXPECT_TRUE(Call(*health, &Stub::Check, request, response).ok());
  request.set_service("other.Service");
  EXPECT_EQ(Call(*health, &Stub::Check, request, response).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(UnaryTest, ReflectionListsTheServices) {
  grpc::GenericStub stub(channel());
  grpc::ClientContext context;
  SetDeadline(context);
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareCall(
      &context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  void* tag = nullptr;
  bool ok = false;
  call->StartCall(nullptr);
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  const grpc::Slice list_services("\x3a\x01*");  // field 7, a string
  call->Write(grpc::ByteBuffer(&list_services, 1), nullptr);
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  grpc::ByteBuffer answer;
  call->Read(&answer, nullptr);
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  grpc::Slice text;
  ASSERT_TRUE(answer.DumpToSingleSlice(&text).ok());
  const std::string services(reinterpret_cast<const char*>(text.begin()), text.size());
  for (const char* service : {"Locks", "Sessions", "Elections", "Admin", "Operations"}) {
    EXPECT_NE(services.find(std::string("holdfast.v1.") + service), std::string::npos) << service;
  }
  EXPECT_NE(services.find("grpc.health.v1.Health"), std::string::npos);
}

TEST_F(UnaryTest, ErrorsNameFieldAndLimit) {
  v1::AcquireRequest request = AcquireOf("a");
  v1::AcquireResponse response;
  const auto problem_of = [&](grpc::StatusCode code) {
    const grpc::Status status = Call(*locks_, &v1::Locks::Stub::Acquire, request, response);
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    return ProblemOf(status);
  };
  request.mutable_ttl()->set_seconds(100'000);
  v1::Problem problem = problem_of(grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(problem.field(), "ttl");
  EXPECT_EQ(problem.limit(), "1s to 600s");
  request.mutable_ttl()->set_seconds(std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(problem_of(grpc::StatusCode::INVALID_ARGUMENT).field(), "ttl");
  request.clear_ttl();
  request.mutable_wait()->set_seconds(100'000);
  EXPECT_EQ(problem_of(grpc::StatusCode::INVALID_ARGUMENT).field(), "wait");
  request.clear_wait();
  request.set_session_id("00112233445566778899aabbccddeeff");
  ASSERT_TRUE(Call(*locks_, &v1::Locks::Stub::Acquire, request, response).ok());
  EXPECT_EQ(response.refused().code(), v1::SESSION_ENDED);
  request.clear_session_id();
  request.set_namespace_("nowhere");
  problem = problem_of(grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(problem.code(), v1::Problem::NOT_FOUND);
  EXPECT_EQ(problem.field(), "namespace");
  request.set_namespace_("");
  request.set_resource("NOT A NAME");
  EXPECT_EQ(problem_of(grpc::StatusCode::INVALID_ARGUMENT).field(), "resource");
  ExpectNothingOpen();
}

TEST_F(UnaryTest, AnOversizedMessageIsRefused) {
  v1::AcquireRequest request = AcquireOf("a");
  request.set_owner(std::string(kRequestBytesMax + 1, 'x'));
  v1::AcquireResponse response;
  const grpc::Status status = Call(*locks_, &v1::Locks::Stub::Acquire, request, response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(status.error_message().find(std::to_string(kRequestBytesMax)), std::string::npos)
      << "the limit is named";
  EXPECT_TRUE(Acquire("a").has_granted()) << "the connection lives on";
}

// An acquire that waits, in the background.
class Waiter {
 public:
  Waiter(std::shared_ptr<grpc::Channel> channel, const v1::AcquireRequest& request)
      : channel_(std::move(channel)), result_(std::async(std::launch::async, [this, request] {
          SetDeadline(context_);
          return v1::Locks::NewStub(channel_)->Acquire(&context_, request, &response_);
        })) {}
  void Cancel() { context_.TryCancel(); }
  grpc::Status Join() { return result_.get(); }
  const v1::AcquireResponse& response() const { return response_; }

 private:
  std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  v1::AcquireResponse response_;
  std::future<grpc::Status> result_;
};

TEST_F(UnaryTest, AWaiterGetsTheLockWhenItIsReleased) {
  const std::string lease = Acquire("a").granted().lease_id();
  Waiter waiter(channel(), AcquireOf("a", "waiter", 50));
  ASSERT_TRUE(WaitUntil([this] { return Describe("a").queue_length() == 1; }));
  EXPECT_TRUE(Release("a", lease));
  ASSERT_TRUE(waiter.Join().ok());
  EXPECT_TRUE(waiter.response().granted().provisional());
}

TEST_F(UnaryTest, ACancelledCallDetachesItsWaiter) {
  Acquire("a");
  Waiter waiter(channel(), AcquireOf("a", "waiter", 50));
  ASSERT_TRUE(WaitUntil([this] { return Describe("a").queue_length() == 1; }));
  EXPECT_FALSE(Describe("a").queue(0).detached());
  waiter.Cancel();
  EXPECT_EQ(waiter.Join().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(WaitUntil([this] { return Describe("a").queue(0).detached(); }));
  ExpectNothingOpen();
}

TEST_F(UnaryTest, AVanishedConnectionDetachesItsWaiter) {
  Acquire("a");
  v1::AcquireRequest request = AcquireOf("a", "waiter", 50);
  request.set_request_id("the-same");
  {
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    v1::AcquireResponse response;
    grpc::Status status;
    const auto connection = Connect();
    const auto call = v1::Locks::NewStub(connection)->AsyncAcquire(&context, request, &queue);
    call->Finish(&response, &status, nullptr);
    ASSERT_TRUE(WaitUntil([this] { return Describe("a").queue_length() == 1; }));
    context.TryCancel();  // all that a client library can do when its process is shot
    void* tag = nullptr;
    bool ok = false;
    ASSERT_TRUE(queue.Next(&tag, &ok));
  }
  EXPECT_TRUE(WaitUntil([this] { return Describe("a").queue(0).detached(); }));
  // The same request on a new connection goes on where it was.
  Waiter again(channel(), request);
  EXPECT_TRUE(WaitUntil(
      [this] { return Describe("a").queue_length() == 1 && !Describe("a").queue(0).detached(); }));
  again.Cancel();
  again.Join();
  ExpectNothingOpen();
}

class FewCallsTest : public UnaryTest {
 protected:
  void SetUp() override {
    config().max_calls = 2;
    UnaryTest::SetUp();
  }
};

TEST_F(FewCallsTest, TooManyOpenCallsAreRefused) {
  Acquire("a");
  Waiter first(channel(), AcquireOf("a", "first", 50));
  Waiter second(channel(), AcquireOf("a", "second", 50));
  ASSERT_TRUE(WaitUntil([this] { return server().counters().requests == 2; }));
  v1::AcquireResponse response;
  const grpc::Status status = Call(*locks_, &v1::Locks::Stub::Acquire, AcquireOf("b"), response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ProblemOf(status).code(), v1::Problem::OVERLOADED);
  EXPECT_TRUE(ProblemOf(status).has_retry_after());
  first.Cancel();
  second.Cancel();
  first.Join();
  second.Join();
  ExpectNothingOpen();
  EXPECT_TRUE(Acquire("b").has_granted());
}

}  // namespace
}  // namespace holdfast::server
