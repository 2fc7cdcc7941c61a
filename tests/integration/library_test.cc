// The client library against a real server: work under a hold, several locks, elections, metrics.
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "holdfast/client.h"
#include "holdfast/v1/locks.pb.h"
#include "tests/integration/server_fixture.h"
#include "tests/support/wait_until.h"

namespace holdfast::client {
namespace {

using testing_support::WaitUntil;

LockGoal GoalOf(const std::string& resource, Duration wait = {}) {
  LockGoal goal;
  goal.acquire.resource = resource;
  goal.acquire.owner = "test";
  goal.acquire.ttl = Seconds(2);
  goal.acquire.wait = wait;
  return goal;
}

class CountingMetrics : public Metrics {
 public:
  void OnAttempt(const Attempt& attempt) override {
    const std::lock_guard lock(mutex_);
    ++counts_[std::string(attempt.verb) + " " + Name(attempt.end)];
    endpoints_.insert(std::string(attempt.endpoint));
  }
  void OnUnknownOutcome(std::string_view verb) override {
    const std::lock_guard lock(mutex_);
    ++counts_[std::string(verb) + " unknown outcome"];
  }
  void OnHold(const LockUpdate& update) override {
    const std::lock_guard lock(mutex_);
    ++counts_[update.resource + " " + Name(update.state)];
  }
  void OnSession(const SessionUpdate& update) override {
    const std::lock_guard lock(mutex_);
    ++counts_[std::string("session ") + Name(update.state)];
  }
  int Count(const std::string& what) {
    const std::lock_guard lock(mutex_);
    return counts_[what];
  }
  std::set<std::string> Endpoints() {
    const std::lock_guard lock(mutex_);
    return endpoints_;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, int> counts_;
  std::set<std::string> endpoints_;
};

class LibraryTest : public server::ServerFixture {
 protected:
  std::unique_ptr<Client> MakeClient() {
    ClientOptions options;
    options.endpoints = {server().address()};
    options.timeout = Seconds(5);
    options.attempt_timeout = Millis(500);
    options.metrics = metrics;
    auto client = Client::Create(options);
    EXPECT_TRUE(client.ok());
    return std::move(*client);
  }
  std::shared_ptr<CountingMetrics> metrics = std::make_shared<CountingMetrics>();
};

TEST_F(LibraryTest, TheLeaseIsNotGivenBackWhileWorkIsDone) {
  Start();
  const auto client = MakeClient();
  const auto hold = client->Lock(GoalOf("r"));
  ASSERT_EQ(hold->WaitUntilAcquired().state, LockState::kHeld);
  auto work = hold->BeginWork();
  ASSERT_TRUE(work.has_value());
  auto second = hold->BeginWork();
  EXPECT_EQ(work->fencing_token(), hold->fencing_token());
  EXPECT_FALSE(work->stop_token().stop_requested());

  hold->Release();
  EXPECT_TRUE(work->stop_token().stop_requested());
  EXPECT_FALSE(hold->EnsureHeld());
  EXPECT_FALSE(hold->BeginWork().has_value());
  EXPECT_TRUE(work->EnsureHeld());
  second.reset();
  // It goes on being renewed: more than the ttl of 2 s passes in renewals at a third of it.
  const int renewed = metrics->Count("Renew ANSWERED");
  EXPECT_TRUE(WaitUntil([&] { return metrics->Count("Renew ANSWERED") >= renewed + 4; }));
  EXPECT_TRUE(work->EnsureHeld());
  EXPECT_TRUE(Describe("r").has_holder());

  work.reset();
  EXPECT_EQ(hold->WaitUntilOver().state, LockState::kReleased);
  EXPECT_FALSE(Describe("r").has_holder());
  EXPECT_EQ(metrics->Count("r HELD"), 1);
  EXPECT_EQ(metrics->Count("r RELEASED"), 1);
}

TEST_F(LibraryTest, WorkOutlivesItsHold) {
  Start();
  const auto client = MakeClient();
  auto hold = client->Lock(GoalOf("r"));
  ASSERT_EQ(hold->WaitUntilAcquired().state, LockState::kHeld);
  auto work = hold->BeginWork();
  hold.reset();
  EXPECT_TRUE(work->EnsureHeld());
  EXPECT_TRUE(Describe("r").has_holder());
  work.reset();
  EXPECT_TRUE(WaitUntil([&] { return !Describe("r").has_holder(); }));
}

TEST_F(LibraryTest, RunWhileHeldRunsOnceItIsHeldAndReleases) {
  Start();
  const auto client = MakeClient();
  std::uint64_t token = 0;
  const LockUpdate end = client->RunWhileHeld(GoalOf("job"), [&](Work& work) {
    token = work.fencing_token();
    EXPECT_TRUE(Describe("job").has_holder());
    const LockUpdate other = client->RunWhileHeld(GoalOf("job"), [](Work&) { FAIL(); });
    EXPECT_EQ(other.state, LockState::kNotAcquired);
    EXPECT_EQ(other.refusal.value().code, RefusalCode::kHeld);
  });
  EXPECT_EQ(end.state, LockState::kReleased);
  EXPECT_EQ(token, 1U);
  EXPECT_FALSE(Describe("job").has_holder());
}

TEST_F(LibraryTest, RunWhileHeldTellsALoss) {
  Start();
  const auto client = MakeClient();
  const LockUpdate end = client->RunWhileHeld(GoalOf("job"), [&](Work& work) {
    Stop();  // nobody renews any more
    EXPECT_TRUE(WaitUntil([&] { return work.stop_token().stop_requested(); }));
    EXPECT_FALSE(work.EnsureHeld());
  });
  EXPECT_EQ(end.state, LockState::kLost);
  EXPECT_EQ(metrics->Count("job LOST"), 1);
  EXPECT_GT(metrics->Count("Renew NOTHING_DONE") + metrics->Count("Renew UNKNOWN"), 0);
}

TEST_F(LibraryTest, AcquireAllTakesThemInOrderAndAllOrNone) {
  Start();
  const auto client = MakeClient();
  AcquireAllGoal goal{.resources = {"b", "a", "c", "a"}, .acquire = GoalOf("").acquire};
  auto all = client->AcquireAll(goal);
  ASSERT_NE(all.held, nullptr) << Name(all.failed.state);
  ASSERT_EQ(all.held->holds().size(), 3U);
  EXPECT_EQ(all.held->holds()[0]->Current().resource, "a");
  EXPECT_EQ(all.held->holds()[0]->fencing_token() + 2, all.held->holds()[2]->fencing_token());
  EXPECT_TRUE(all.held->EnsureHeld());

  goal.resources = {"d", "c", "0"};
  goal.acquire.wait = Millis(300);
  const auto none = client->AcquireAll(goal);
  EXPECT_EQ(none.held, nullptr);
  EXPECT_EQ(none.failed.resource, "c");
  EXPECT_EQ(none.failed.refusal.value().code, RefusalCode::kWaitTimeout);
  EXPECT_FALSE(Describe("0").has_holder());
  EXPECT_FALSE(Describe("d").has_holder());

  all.held->Release();
  EXPECT_FALSE(all.held->EnsureHeld());
  EXPECT_TRUE(WaitUntil([&] {
    return !Describe("a").has_holder() && !Describe("b").has_holder() &&
           !Describe("c").has_holder();
  }));
  EXPECT_EQ(client->AcquireAll({}).failed.error.value().field, "resources");
}

TEST_F(LibraryTest, TwoWhoWantTheSameLocksDoNotBlockEachOther) {
  Start();
  const auto client = MakeClient();
  std::atomic<int> done{0};
  const auto worker = [&](std::vector<std::string> names) {
    for (int round = 0; round < 5; ++round) {
      AcquireAllGoal goal{.resources = names, .acquire = GoalOf("", Seconds(20)).acquire};
      auto all = client->AcquireAll(goal);
      ASSERT_NE(all.held, nullptr) << all.failed.resource << " " << Name(all.failed.state);
      ++done;
    }
  };
  std::thread other([&] { worker({"x", "y", "z"}); });
  worker({"z", "y", "x"});
  other.join();
  EXPECT_EQ(done, 10);
}

TEST_F(LibraryTest, AcquireAllOnASession) {
  Start();
  const auto client = MakeClient();
  SessionGoal goal;
  goal.open.ttl = Seconds(5);
  const auto session = client->KeepSession(goal);
  ASSERT_EQ(session->WaitUntilOpen().state, SessionState::kSafe);
  AcquireAllGoal wanted;
  wanted.resources = {"a", "b"};
  const auto all = session->AcquireAll(wanted);
  ASSERT_NE(all.held, nullptr);
  EXPECT_FALSE(Describe("a").holder().on_session_fp().empty());
  session->Close();
  EXPECT_EQ(session->WaitUntilOver().state, SessionState::kClosed);
  EXPECT_FALSE(all.held->EnsureHeld());
  EXPECT_EQ(metrics->Count("session CLOSED"), 1);
}

ElectionGoal CampaignOf(const std::string& value) {
  ElectionGoal goal;
  goal.campaign.acquire = GoalOf("leader").acquire;
  goal.campaign.acquire.owner = value;
  goal.campaign.value = value;
  goal.pause = Millis(20);
  goal.stop_time = Millis(200);
  return goal;
}

TEST_F(LibraryTest, LeadersFollowEachOtherWithRisingTokens) {
  Start();
  const auto client = MakeClient();
  std::mutex mutex;
  std::vector<std::uint64_t> tokens;
  std::atomic<int> leading{0};
  const auto work = [&](Leadership& term) {
    EXPECT_EQ(++leading, 1);
    EXPECT_TRUE(term.EnsureHeld());
    {
      const std::lock_guard lock(mutex);
      tokens.push_back(term.fencing_token());
    }
    EXPECT_TRUE(term.Proclaim("term " + std::to_string(term.fencing_token())).value().proclaimed);
    --leading;
  };
  const auto terms = [&] {
    const std::lock_guard lock(mutex);
    return tokens;
  };
  {
    const auto a = client->Lead(CampaignOf("a"), work);
    const auto b = client->Lead(CampaignOf("b"), work);
    EXPECT_TRUE(WaitUntil([&] { return terms().size() >= 6; }));
    EXPECT_FALSE(a->GivenUp());
  }
  const auto seen = terms();
  for (std::size_t i = 1; i < seen.size(); ++i) {
    EXPECT_LT(seen[i - 1], seen[i]);
  }
  EXPECT_TRUE(WaitUntil([&] { return client->Leader("leader")->vacant; }));
}

TEST_F(LibraryTest, ALeaderIsToldToStopBeforeAnotherCanBeElected) {
  Start();
  const auto client = MakeClient();
  std::atomic<bool> stopped{false};
  std::atomic<bool> held_after_stop{true};
  ElectionGoal goal = CampaignOf("a");
  goal.pause = Seconds(60);
  const auto candidate = client->Lead(goal, [&](Leadership& term) {
    WaitUntil([&] { return term.stop_token().stop_requested(); });
    held_after_stop = term.EnsureHeld();
    stopped = true;
  });
  EXPECT_TRUE(WaitUntil([&] { return candidate->IsLeader(); }));
  BreakRequest broken;
  broken.resource = "leader";
  broken.reason = "test";
  // A break: no more renewals, and the next one may come only at the promised end.
  ASSERT_TRUE(client->Break(broken).ok());
  const auto next = client->Lock([&] {
    LockGoal after = GoalOf("leader", Seconds(20));
    after.value = "b";
    return after;
  }());
  EXPECT_EQ(next->WaitUntilAcquired().state, LockState::kHeld);
  EXPECT_TRUE(stopped);
  EXPECT_FALSE(held_after_stop);
  EXPECT_FALSE(candidate->IsLeader());
}

TEST_F(LibraryTest, ACandidateThatIsRefusedForGoodGivesUp) {
  Start();
  const auto client = MakeClient();
  ElectionGoal goal = CampaignOf("a");
  goal.campaign.acquire.namespace_name = "nowhere";
  const auto candidate = client->Lead(goal, [](Leadership&) { FAIL(); });
  EXPECT_TRUE(WaitUntil([&] { return candidate->GivenUp(); }));
  EXPECT_EQ(candidate->Current().error.value().code, ErrorCode::kNotFound);
}

TEST_F(LibraryTest, ACandidateThatWaitsCanBeStopped) {
  Start();
  const auto client = MakeClient();
  const auto holder = client->Lock([&] {
    LockGoal goal = GoalOf("leader");
    goal.value = "first";
    return goal;
  }());
  ASSERT_EQ(holder->WaitUntilAcquired().state, LockState::kHeld);
  auto candidate = client->Lead(CampaignOf("b"), [](Leadership&) { FAIL(); });
  EXPECT_TRUE(WaitUntil([&] { return Describe("leader").queue_length() == 1; }));
  candidate->Stop();
  candidate.reset();
  EXPECT_EQ(Describe("leader").queue_length(), 0U);
}

TEST_F(LibraryTest, AnUnknownOutcomeIsCounted) {
  Start();
  const auto client = MakeClient();
  ASSERT_TRUE(client->GetStatus().ok());
  EXPECT_EQ(metrics->Count("GetStatus ANSWERED"), 1);
  EXPECT_EQ(metrics->Endpoints(), std::set<std::string>{server().address()});
  EXPECT_EQ(client->Renew({.namespace_name = {}, .resource = "BAD", .lease_id = "1"}).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(metrics->Count("Renew FAILED"), 1);
  Stop();
  EXPECT_FALSE(client->GetStatus().ok());
  EXPECT_GT(metrics->Count("GetStatus NOTHING_DONE") + metrics->Count("GetStatus UNKNOWN"), 0);
}

}  // namespace
}  // namespace holdfast::client
