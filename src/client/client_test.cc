// The shell against a gRPC server in this process whose answers each test decides.
#include "holdfast/client.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <random>

#include <arpa/inet.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/clock.h"
#include "holdfast/v1/admin.grpc.pb.h"
#include "holdfast/v1/elections.grpc.pb.h"
#include "holdfast/v1/locks.grpc.pb.h"
#include "holdfast/v1/sessions.grpc.pb.h"

namespace holdfast::client {
namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

// A TCP socket bound to a port of its own.
class BoundSocket {
 public:
  BoundSocket() {
    std::random_device seed;
    for (int tries = 0; tries < 1000; ++tries) {
      port_ = 20'000 + static_cast<int>(seed() % 12'000);
      fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      const sockaddr_in address = Loopback(port_);
      if (bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
        return;
      }
      close(fd_);
    }
    ADD_FAILURE() << "no free port";
  }
  ~BoundSocket() { Close(); }
  BoundSocket(const BoundSocket&) = delete;
  BoundSocket& operator=(const BoundSocket&) = delete;

  // Connections succeed and nobody ever answers.
  void ListenSilently() { EXPECT_EQ(listen(fd_, 16), 0); }
  void Close() {
    if (fd_ >= 0) {
      close(fd_);
      fd_ = -1;
    }
  }
  std::string endpoint() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  int fd_ = -1;
  int port_ = 0;
};

template <typename Request, typename Response>
using Handler = std::function<grpc::Status(grpc::ServerContext&, const Request&, Response&)>;

// Locks, sessions, elections and administration as far as the tests call them.
class Fake : public v1::Locks::Service {
 public:
  Handler<v1::AcquireRequest, v1::AcquireResponse> acquire;
  Handler<v1::RenewRequest, v1::RenewResponse> renew;
  Handler<v1::ReleaseRequest, v1::ReleaseResponse> release;
  Handler<v1::CancelRequest, v1::CancelResponse> cancel;
  Handler<v1::BreakRequest, v1::BreakResponse> break_lock;
  std::function<grpc::Status(const v1::WatchRequest&, grpc::ServerWriter<v1::WatchResponse>&)>
      watch;

  grpc::Status Acquire(grpc::ServerContext* c, const v1::AcquireRequest* q,
                       v1::AcquireResponse* a) override {
    return Call(acquire, *c, *q, *a);
  }
  grpc::Status Renew(grpc::ServerContext* c, const v1::RenewRequest* q,
                     v1::RenewResponse* a) override {
    return Call(renew, *c, *q, *a);
  }
  grpc::Status Release(grpc::ServerContext* c, const v1::ReleaseRequest* q,
                       v1::ReleaseResponse* a) override {
    return Call(release, *c, *q, *a);
  }
  grpc::Status Cancel(grpc::ServerContext* c, const v1::CancelRequest* q,
                      v1::CancelResponse* a) override {
    return Call(cancel, *c, *q, *a);
  }
  grpc::Status Break(grpc::ServerContext* c, const v1::BreakRequest* q,
                     v1::BreakResponse* a) override {
    return Call(break_lock, *c, *q, *a);
  }
  grpc::Status Watch(grpc::ServerContext*, const v1::WatchRequest* q,
                     grpc::ServerWriter<v1::WatchResponse>* a) override {
    return watch ? watch(*q, *a)
                 : grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "not in this test");
  }

  template <typename Request, typename Response>
  static grpc::Status Call(const Handler<Request, Response>& handler, grpc::ServerContext& context,
                           const Request& request, Response& response) {
    return handler ? handler(context, request, response)
                   : grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "not in this test");
  }
};

class FakeSessions : public v1::Sessions::Service {
 public:
  Handler<v1::OpenSessionRequest, v1::OpenSessionResponse> open;
  Handler<v1::KeepAliveRequest, v1::KeepAliveResponse> keep_alive;
  Handler<v1::CloseSessionRequest, v1::CloseSessionResponse> close_session;

  grpc::Status Open(grpc::ServerContext* c, const v1::OpenSessionRequest* q,
                    v1::OpenSessionResponse* a) override {
    return Fake::Call(open, *c, *q, *a);
  }
  grpc::Status KeepAlive(grpc::ServerContext* c, const v1::KeepAliveRequest* q,
                         v1::KeepAliveResponse* a) override {
    return Fake::Call(keep_alive, *c, *q, *a);
  }
  grpc::Status Close(grpc::ServerContext* c, const v1::CloseSessionRequest* q,
                     v1::CloseSessionResponse* a) override {
    return Fake::Call(close_session, *c, *q, *a);
  }
};

class FakeElections : public v1::Elections::Service {
 public:
  Handler<v1::CampaignRequest, v1::AcquireResponse> campaign;
  std::function<grpc::Status(const v1::LeaderRequest&, grpc::ServerWriter<v1::LeaderResponse>&)>
      observe;

  grpc::Status Campaign(grpc::ServerContext* c, const v1::CampaignRequest* q,
                        v1::AcquireResponse* a) override {
    return Fake::Call(campaign, *c, *q, *a);
  }
  grpc::Status Observe(grpc::ServerContext*, const v1::LeaderRequest* q,
                       grpc::ServerWriter<v1::LeaderResponse>* a) override {
    return observe ? observe(*q, *a)
                   : grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "not in this test");
  }
};

class FakeAdmin : public v1::Admin::Service {
 public:
  Handler<v1::GetStatusRequest, v1::GetStatusResponse> status;

  grpc::Status GetStatus(grpc::ServerContext* c, const v1::GetStatusRequest* q,
                         v1::GetStatusResponse* a) override {
    return Fake::Call(status, *c, *q, *a);
  }
};

grpc::Status ProblemStatus(grpc::StatusCode status, v1::Problem::Code code,
                           const std::string& field = {}, const std::string& limit = {}) {
  v1::Problem problem;
  problem.set_code(code);
  problem.set_message("words");
  problem.set_field(field);
  problem.set_limit(limit);
  v1::RpcStatus details;
  google::protobuf::Any& any = *details.add_details();
  any.set_type_url("type.googleapis.com/holdfast.v1.Problem");
  any.set_value(problem.SerializeAsString());
  return {status, "words", details.SerializeAsString()};
}

void FillGrant(v1::Grant& grant, std::int64_t ttl_ms = 30'000) {
  grant.set_lease_id("lease-1");
  grant.set_fencing_token(7);
  grant.mutable_ttl()->set_seconds(ttl_ms / 1000);
  grant.mutable_ttl()->set_nanos(static_cast<std::int32_t>(ttl_ms % 1000 * 1'000'000));
  *grant.mutable_remaining() = grant.ttl();
}

struct ClientTest : ::testing::Test {
  ~ClientTest() override {
    Unblock();
    if (server != nullptr) {
      server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(5));
    }
  }

  // Handlers are to be set before.
  void Serve() {
    BoundSocket socket;
    endpoint = socket.endpoint();
    socket.Close();
    grpc::ServerBuilder builder;
    builder.AddListeningPort(endpoint, grpc::InsecureServerCredentials());
    builder.RegisterService(&locks);
    builder.RegisterService(&sessions);
    builder.RegisterService(&elections);
    builder.RegisterService(&admin);
    server = builder.BuildAndStart();
    ASSERT_NE(server, nullptr);
  }
  std::unique_ptr<Client> Connect(ClientOptions options = {}) {
    if (options.endpoints.empty()) {
      options.endpoints = {endpoint};
    }
    options.namespace_name = "ns";
    auto client = Client::Create(options);
    EXPECT_TRUE(client.ok());
    return std::move(*client);
  }
  static ClientOptions Quick() {
    ClientOptions options;
    options.timeout = Seconds(2);
    options.attempt_timeout = Millis(300);
    return options;
  }

  // In a handler: the answer never comes, as far as the client is concerned.
  void Block() {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, std::chrono::seconds(30), [&] { return unblocked; });
  }
  void Unblock() {
    {
      const std::lock_guard lock(mutex);
      unblocked = true;
    }
    changed.notify_all();
  }
  // How many there are now.
  template <typename T>
  std::size_t Note(std::vector<T>& list, const T& item) {
    std::size_t count = 0;
    {
      const std::lock_guard lock(mutex);
      list.push_back(item);
      count = list.size();
    }
    changed.notify_all();
    return count;
  }
  template <typename T>
  std::vector<T> Copy(const std::vector<T>& list) {
    const std::lock_guard lock(mutex);
    return list;
  }
  template <typename Predicate>
  bool Eventually(Predicate predicate) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(20), predicate);
  }

  Fake locks;
  FakeSessions sessions;
  FakeElections elections;
  FakeAdmin admin;
  std::unique_ptr<grpc::Server> server;
  std::string endpoint;

  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by mutex. Handlers may run until the server is gone, so what they note lives here.
  bool unblocked = false;
  std::vector<v1::AcquireRequest> acquires;
  std::vector<std::string> notes;
  std::vector<std::uint64_t> asked;
  std::vector<LockState> states;
};

AcquireRequest Wanted() {
  AcquireRequest request;
  request.resource = "r";
  request.owner = "o";
  return request;
}

TEST_F(ClientTest, ALostReplyIsAskedForAgainWithTheSameRequestIdOnAFreshConnection) {
  locks.acquire = [&](grpc::ServerContext& context, const v1::AcquireRequest& request,
                      v1::AcquireResponse& answer) {
    Note(notes, std::string(context.peer()));
    if (Note(acquires, request) == 1) {
      Block();
    }
    FillGrant(*answer.mutable_granted());
    return grpc::Status::OK;
  };
  Serve();
  const auto client = Connect(Quick());
  SystemClock clock;
  const BootTime before = clock.Now();
  const auto result = client->Acquire(Wanted());
  ASSERT_TRUE(result.ok()) << result.error().message;
  ASSERT_NE(result->granted(), nullptr);
  EXPECT_EQ(result->granted()->fencing_token, 7U);
  const auto seen = Copy(acquires);
  const auto peers = Copy(notes);
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0].request_id().size(), 32U);
  EXPECT_EQ(seen[0].request_id(), seen[1].request_id());
  EXPECT_EQ(seen[0].namespace_(), "ns");
  EXPECT_EQ(seen[0].client().sequence(), 1U);
  EXPECT_NE(peers[0], peers[1]);
  EXPECT_GE(result->sent_at, before + Millis(250));  // of the second attempt
  Unblock();
  ASSERT_TRUE(client->Acquire(Wanted()).ok());
  EXPECT_EQ(Copy(acquires)[2].client().sequence(), 2U);
  EXPECT_EQ(Copy(acquires)[2].client().answered_below(), 2U);
}

TEST_F(ClientTest, ErrorsSayFieldAndLimit) {
  locks.acquire = [&](grpc::ServerContext&, const v1::AcquireRequest&, v1::AcquireResponse&) {
    return ProblemStatus(grpc::StatusCode::INVALID_ARGUMENT, v1::Problem::INVALID_ARGUMENT, "ttl",
                         "1 s to 5 min");
  };
  admin.status = [&](grpc::ServerContext& context, const v1::GetStatusRequest&,
                     v1::GetStatusResponse& answer) {
    const auto found = context.client_metadata().find("authorization");
    if (found == context.client_metadata().end() || found->second != "Bearer secret") {
      return ProblemStatus(grpc::StatusCode::UNAUTHENTICATED, v1::Problem::UNAUTHENTICATED);
    }
    answer.set_role("leader");
    return grpc::Status::OK;
  };
  Serve();
  const auto client = Connect(Quick());
  const auto acquired = client->Acquire(Wanted());
  ASSERT_FALSE(acquired.ok());
  EXPECT_EQ(acquired.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(acquired.error().field, "ttl");
  EXPECT_EQ(acquired.error().limit, "1 s to 5 min");
  EXPECT_EQ(client->GetStatus().error().code, ErrorCode::kUnauthenticated);
  ClientOptions with_token = Quick();
  with_token.token = "secret";
  EXPECT_EQ(Connect(with_token)->GetStatus()->role, "leader");
}

TEST_F(ClientTest, OverloadIsRetriedAndThenReportedAsNothingDone) {
  locks.acquire = [&](grpc::ServerContext&, const v1::AcquireRequest&, v1::AcquireResponse&) {
    Note(notes, std::string("called"));
    return ProblemStatus(grpc::StatusCode::RESOURCE_EXHAUSTED, v1::Problem::OVERLOADED);
  };
  Serve();
  const auto result = Connect(Quick())->Acquire(Wanted());
  EXPECT_EQ(result.error().code, ErrorCode::kOverloaded);
  EXPECT_GT(Copy(notes).size(), 2U);
}

TEST_F(ClientTest, WithoutAnyAnswerTheOutcomeIsUnknownAndMayBeAskedForAgain) {
  locks.acquire = [&](grpc::ServerContext&, const v1::AcquireRequest& request,
                      v1::AcquireResponse& answer) {
    Note(acquires, request);
    Block();
    FillGrant(*answer.mutable_granted());
    return grpc::Status::OK;
  };
  Serve();
  ClientOptions options = Quick();
  options.timeout = Millis(700);
  const auto client = Connect(options);
  AcquireRequest request = Wanted();
  const auto result = client->Acquire(request);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kUnknownOutcome);
  const auto seen = Copy(acquires);
  ASSERT_GE(seen.size(), 2U);
  EXPECT_NE(result.error().message.find(seen[0].request_id()), std::string::npos);
  Unblock();
  request.request_id = seen[0].request_id();
  ASSERT_TRUE(client->Acquire(request).ok());
  EXPECT_EQ(Copy(acquires).back().client().sequence(), 1U);  // its old number
  ASSERT_TRUE(client->Acquire(Wanted()).ok());
  EXPECT_EQ(Copy(acquires).back().client().answered_below(), 2U);
}

TEST_F(ClientTest, ABreakThatMayHaveHappenedIsNotRepeated) {
  locks.break_lock = [&](grpc::ServerContext&, const v1::BreakRequest&, v1::BreakResponse&) {
    Note(notes, std::string("called"));
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the connection broke");
  };
  Serve();
  BreakRequest request;
  request.resource = "r";
  request.reason = "test";
  EXPECT_EQ(Connect(Quick())->Break(request).error().code, ErrorCode::kUnknownOutcome);
  EXPECT_EQ(Copy(notes).size(), 1U);
}

TEST_F(ClientTest, IfNobodyListensNothingWasDone) {
  BoundSocket nobody;
  ClientOptions options = Quick();
  options.timeout = Millis(500);
  options.endpoints = {nobody.endpoint()};
  const auto result = Connect(options)->Acquire(Wanted());
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(result.error().message.find("cannot connect to " + nobody.endpoint()),
            std::string::npos);
  EXPECT_NE(result.error().message.find("refused"), std::string::npos) << result.error().message;
}

TEST_F(ClientTest, ChangesTheEndpointWhenOneRefusesOrIsSilent) {
  locks.acquire = [&](grpc::ServerContext&, const v1::AcquireRequest&,
                      v1::AcquireResponse& answer) {
    FillGrant(*answer.mutable_granted());
    return grpc::Status::OK;
  };
  Serve();
  BoundSocket nobody;
  BoundSocket silent;
  silent.ListenSilently();
  for (const std::string& bad : {nobody.endpoint(), silent.endpoint()}) {
    ClientOptions options = Quick();
    options.endpoints = {bad, endpoint};
    const auto client = Connect(options);
    ASSERT_TRUE(client->Acquire(Wanted()).ok()) << bad;
    ASSERT_TRUE(client->Acquire(Wanted()).ok()) << bad;
  }
}

TEST_F(ClientTest, AWatchGoesOnWhereItBroke) {
  locks.watch = [&](const v1::WatchRequest& request,
                    grpc::ServerWriter<v1::WatchResponse>& writer) {
    const bool first = Note(asked, std::uint64_t{request.after_index()}) == 1;
    v1::WatchResponse item;
    item.set_started_at(request.after_index() == 0 ? 10 : request.after_index());
    writer.Write(item);
    for (std::uint64_t index = first ? 11 : 12; index < 15; ++index) {
      item.mutable_event()->set_index(index);
      writer.Write(item);
      if (first && index == 12) {
        return grpc::Status(grpc::StatusCode::UNAVAILABLE, "broken");
      }
    }
    Block();
    return grpc::Status::OK;
  };
  Serve();
  const auto client = Connect(Quick());
  std::vector<std::uint64_t> got;
  const Status status = client->Watch({}, [&](const WatchItem& item) {
    got.push_back(std::visit([](const auto& part) { return part.index; }, item));
    return got.back() < 14;
  });
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(got, (std::vector<std::uint64_t>{10, 11, 12, 13, 14}));
  EXPECT_EQ(Copy(asked), (std::vector<std::uint64_t>{0, 11}));
}

TEST_F(ClientTest, AWatchStopsOnRequestAndReportsARefusal) {
  locks.watch = [&](const v1::WatchRequest& request,
                    grpc::ServerWriter<v1::WatchResponse>& writer) {
    if (request.prefix() == "Bad") {
      return ProblemStatus(grpc::StatusCode::INVALID_ARGUMENT, v1::Problem::INVALID_ARGUMENT,
                           "prefix", "[a-z]");
    }
    v1::WatchResponse item;
    item.set_started_at(1);
    writer.Write(item);
    Block();
    return grpc::Status::OK;
  };
  Serve();
  const auto client = Connect(Quick());
  WatchRequest bad;
  bad.prefix = "Bad";
  const Status refused = client->Watch(bad, [](const WatchItem&) { return true; });
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().field, "prefix");
  std::stop_source stop;
  const Status stopped = client->Watch(
      {},
      [&](const WatchItem&) {
        stop.request_stop();
        return true;
      },
      stop.get_token());
  EXPECT_TRUE(stopped.ok());
}

TEST_F(ClientTest, AnObserverSeesRisingTokens) {
  elections.observe = [&](const v1::LeaderRequest&,
                          grpc::ServerWriter<v1::LeaderResponse>& writer) {
    for (const std::uint64_t token : {5U, 5U, 4U, 6U, 9U}) {
      v1::LeaderResponse item;
      item.set_fencing_token(token);
      writer.Write(item);
    }
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "broken");
  };
  Serve();
  std::vector<std::uint64_t> tokens;
  const auto client = Connect(Quick());
  EXPECT_TRUE(client
                  ->Observe("e", {},
                            [&](const LeaderInfo& leader) {
                              tokens.push_back(leader.fencing_token);
                              return leader.fencing_token < 9;
                            })
                  .ok());
  EXPECT_EQ(tokens, (std::vector<std::uint64_t>{5, 6, 9}));
}

TEST_F(ClientTest, AHoldIsConfirmedRenewedAndReleased) {
  elections.campaign = [&](grpc::ServerContext&, const v1::CampaignRequest& request,
                           v1::AcquireResponse& answer) {
    EXPECT_EQ(request.value(), "host:1");
    EXPECT_EQ(request.acquire().namespace_(), "ns");
    FillGrant(*answer.mutable_granted(), 600);
    answer.mutable_granted()->set_provisional(true);
    Note(notes, std::string("campaign"));
    return grpc::Status::OK;
  };
  locks.renew = [&](grpc::ServerContext&, const v1::RenewRequest& request,
                    v1::RenewResponse& answer) {
    EXPECT_EQ(request.lease_id(), "lease-1");
    answer.mutable_renewed()->mutable_ttl()->set_nanos(600'000'000);
    answer.mutable_renewed()->mutable_remaining()->set_nanos(600'000'000);
    Note(notes, std::string("renew"));
    return grpc::Status::OK;
  };
  locks.release = [&](grpc::ServerContext&, const v1::ReleaseRequest&,
                      v1::ReleaseResponse& answer) {
    answer.set_released(true);
    Note(notes, std::string("release"));
    return grpc::Status::OK;
  };
  Serve();
  const auto client = Connect(Quick());
  LockGoal goal;
  goal.acquire = Wanted();
  goal.value = "host:1";
  const auto lock =
      client->Lock(goal, [&](const LockUpdate& update) { Note(states, update.state); });
  const LockUpdate acquired = lock->WaitUntilAcquired();
  ASSERT_EQ(acquired.state, LockState::kHeld);
  EXPECT_EQ(acquired.grant->fencing_token, 7U);
  EXPECT_TRUE(lock->EnsureHeld());
  EXPECT_TRUE(
      Eventually([&] { return notes.size() >= 6; }));  // five renewals, well past the first lease
  EXPECT_TRUE(lock->EnsureHeld());
  lock->Release();
  EXPECT_FALSE(lock->EnsureHeld());
  EXPECT_EQ(lock->WaitUntilOver().state, LockState::kReleased);
  EXPECT_EQ(Copy(notes).back(), "release");
  EXPECT_EQ(Copy(states),
            (std::vector<LockState>{LockState::kAcquiring, LockState::kConfirming, LockState::kHeld,
                                    LockState::kReleasing, LockState::kReleased}));
}

TEST_F(ClientTest, ALockWhoseRenewalsAreNotAnsweredIsLostAtItsDeadline) {
  locks.acquire = [&](grpc::ServerContext&, const v1::AcquireRequest&,
                      v1::AcquireResponse& answer) {
    FillGrant(*answer.mutable_granted(), 500);
    return grpc::Status::OK;
  };
  locks.renew = [&](grpc::ServerContext&, const v1::RenewRequest&, v1::RenewResponse&) {
    Block();
    return grpc::Status::OK;
  };
  Serve();
  const auto client = Connect(Quick());
  LockGoal goal;
  goal.acquire = Wanted();
  const auto lock = client->Lock(goal);
  const LockUpdate acquired = lock->WaitUntilAcquired();
  ASSERT_EQ(acquired.state, LockState::kHeld);
  const LockUpdate over = lock->WaitUntilOver();
  SystemClock clock;
  EXPECT_GE(clock.Now(), acquired.deadline);
  EXPECT_EQ(over.state, LockState::kLost);
  EXPECT_EQ(over.cause, Cause::kExpired);
  EXPECT_TRUE(over.error.has_value());
  EXPECT_FALSE(lock->EnsureHeld());
}

TEST_F(ClientTest, AHandleThatGoesAwayWithdrawsItsAcquire) {
  locks.acquire = [&](grpc::ServerContext&, const v1::AcquireRequest& request,
                      v1::AcquireResponse& answer) {
    Note(acquires, request);
    Block();
    answer.mutable_refused()->set_code(v1::ACQUIRE_CANCELLED);
    return grpc::Status::OK;
  };
  locks.cancel = [&](grpc::ServerContext&, const v1::CancelRequest& request,
                     v1::CancelResponse& answer) {
    answer.set_outcome(v1::CancelResponse::WAITER_REMOVED);
    Note(notes, std::string(request.request_id()));
    return grpc::Status::OK;
  };
  Serve();
  const auto client = Connect(Quick());
  LockGoal goal;
  goal.acquire = Wanted();
  goal.acquire.wait = Seconds(30);
  auto lock = client->Lock(goal);
  ASSERT_TRUE(Eventually([&] { return !acquires.empty(); }));
  lock.reset();
  ASSERT_TRUE(Eventually([&] { return !notes.empty(); }));
  EXPECT_EQ(Copy(notes).front(), Copy(acquires).front().request_id());
}

TEST_F(ClientTest, ASessionIsKeptAliveWithItsHoldsAndClosed) {
  sessions.open = [&](grpc::ServerContext&, const v1::OpenSessionRequest&,
                      v1::OpenSessionResponse& answer) {
    answer.mutable_opened()->set_session_id("session-1");
    answer.mutable_opened()->mutable_ttl()->set_nanos(600'000'000);
    answer.mutable_opened()->mutable_remaining()->set_nanos(600'000'000);
    return grpc::Status::OK;
  };
  sessions.keep_alive = [&](grpc::ServerContext&, const v1::KeepAliveRequest& request,
                            v1::KeepAliveResponse& answer) {
    EXPECT_EQ(request.session_id(), "session-1");
    answer.set_alive(true);
    answer.mutable_remaining()->set_nanos(600'000'000);
    Note(notes, std::string("keepalive"));
    return grpc::Status::OK;
  };
  sessions.close_session = [&](grpc::ServerContext&, const v1::CloseSessionRequest&,
                               v1::CloseSessionResponse& answer) {
    answer.set_closed(true);
    return grpc::Status::OK;
  };
  locks.acquire = [&](grpc::ServerContext&, const v1::AcquireRequest& request,
                      v1::AcquireResponse& answer) {
    EXPECT_EQ(request.session_id(), "session-1");
    FillGrant(*answer.mutable_granted(), 600);
    return grpc::Status::OK;
  };
  locks.renew = [&](grpc::ServerContext&, const v1::RenewRequest&, v1::RenewResponse& answer) {
    answer.mutable_renewed()->mutable_ttl()->set_nanos(600'000'000);
    answer.mutable_renewed()->mutable_remaining()->set_nanos(600'000'000);
    return grpc::Status::OK;
  };
  Serve();
  const auto client = Connect(Quick());
  const auto session = client->KeepSession({});
  ASSERT_EQ(session->WaitUntilOpen().state, SessionState::kSafe);
  LockGoal goal;
  goal.acquire = Wanted();
  const auto lock = session->Lock(goal);
  ASSERT_EQ(lock->WaitUntilAcquired().state, LockState::kHeld);
  EXPECT_TRUE(Eventually([&] { return notes.size() >= 5; }));
  EXPECT_TRUE(lock->EnsureHeld());
  session->Close();
  EXPECT_EQ(session->WaitUntilOver().state, SessionState::kClosed);
  EXPECT_EQ(lock->WaitUntilOver().state, LockState::kReleased);
  const auto late = session->Lock(goal);
  EXPECT_EQ(late->WaitUntilOver().refusal->code, RefusalCode::kSessionEnded);
}

TEST_F(ClientTest, TheClientEndsAtOnceWhileThingsAreOnTheirWay) {
  locks.acquire = [&](grpc::ServerContext&, const v1::AcquireRequest&, v1::AcquireResponse&) {
    Note(notes, std::string("called"));
    Block();
    return grpc::Status::OK;
  };
  Serve();
  BoundSocket silent;
  silent.ListenSilently();
  LockGoal goal;
  goal.acquire = Wanted();
  for (const std::string& where : {endpoint, silent.endpoint()}) {
    ClientOptions options;
    options.attempt_timeout = Seconds(20);
    options.timeout = Seconds(20);
    options.endpoints = {where};
    auto client = Connect(options);
    auto lock = client->Lock(goal);
    ASSERT_TRUE(Eventually([&] { return !notes.empty(); }));
    lock.reset();
    SystemClock clock;
    const BootTime before = clock.Now();
    client.reset();
    EXPECT_LT(clock.Now() - before, Seconds(5));
  }
}

TEST(ClientOptions, AreChecked) {
  struct Case {
    ClientOptions options;
    std::string field;
  };
  ClientOptions good;
  good.endpoints = {"127.0.0.1:1"};
  std::vector<Case> cases(6, Case{good, ""});
  cases[0] = {ClientOptions{}, "endpoints"};
  cases[1].options.endpoints = {"no-port"};
  cases[1].field = "endpoints";
  cases[2].options.token = "with space";
  cases[2].field = "token";
  cases[3].options.tls_cert_file = "only-one";
  cases[3].field = "tls_cert_file";
  cases[4].options.tls = true;
  cases[4].options.tls_ca_file = "/nonexistent/ca.pem";
  cases[4].field = "tls_ca_file";
  cases[5].options.timeout = Duration::zero();
  cases[5].field = "timeout";
  for (const Case& test : cases) {
    const auto client = Client::Create(test.options);
    ASSERT_FALSE(client.ok()) << test.field;
    EXPECT_EQ(client.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(client.error().field, test.field);
  }
}

}  // namespace
}  // namespace holdfast::client
