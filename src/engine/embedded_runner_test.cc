#include "engine/embedded_runner.h"

#include <condition_variable>
#include <filesystem>
#include <numeric>
#include <thread>

#include <gtest/gtest.h>
#include <stdlib.h>

#include "storage/posix_file_system.h"

namespace holdfast::engine {
namespace {

constexpr auto kPatience = std::chrono::seconds(30);

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = std::filesystem::temp_directory_path() / "holdfast-runner-XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  std::string Data() const { return path_ + "/data"; }

 private:
  std::string path_;
};

// A front whose caller blocks for each reply, as a test wants it.
class BlockingFront : public Front {
 public:
  void OnReplies(std::vector<Reply>&& replies) override {
    const std::lock_guard lock(mutex_);
    for (Reply& reply : replies) {
      replies_.emplace(reply.tag, std::move(reply));
    }
    changed_.notify_all();
  }
  Reply Await(std::uint64_t tag) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kPatience, [&] { return replies_.count(tag) > 0; }));
    Reply reply = std::move(replies_.at(tag));
    replies_.erase(tag);
    return reply;
  }
  bool Has(std::uint64_t tag) {
    const std::lock_guard lock(mutex_);
    return replies_.count(tag) > 0;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, Reply> replies_;
};

class Client {
 public:
  explicit Client(Runner& runner) : runner_(runner), id_(runner.Attach(front_)) {}
  ~Client() { runner_.Detach(id_); }

  std::uint64_t Send(core::CommandBody body) {
    std::vector<Proposal> proposals;
    proposals.push_back(Proposal{++tag_, core::Command{"p", "default", std::move(body)}});
    runner_.Submit(id_, std::move(proposals));
    return tag_;
  }
  template <typename T>
  T Call(core::CommandBody body) {
    return std::get<T>(std::get<core::Outcome>(front_.Await(Send(std::move(body))).answer));
  }
  template <typename T>
  T Ask(core::Query query) {
    std::vector<Proposal> proposals;
    proposals.push_back(Proposal{++tag_, std::move(query)});
    runner_.Submit(id_, std::move(proposals));
    return std::get<T>(std::get<core::View>(front_.Await(tag_).answer));
  }
  BlockingFront& front() { return front_; }
  FrontId id() const { return id_; }

 private:
  Runner& runner_;
  BlockingFront front_;
  FrontId id_;
  std::uint64_t tag_ = 0;
};

core::Acquire AcquireOf(std::string resource, std::string id, Duration ttl = Seconds(30),
                        Duration wait = {}) {
  core::Acquire acquire;
  acquire.resource = std::move(resource);
  acquire.request_id = std::move(id);
  acquire.ttl = ttl;
  acquire.wait = wait;
  return acquire;
}

class RunnerTest : public ::testing::Test {
 protected:
  RunnerOptions Options() {
    RunnerOptions options;
    options.data_directory = directory_.Data();
    options.journal.segment_bytes = std::uint64_t{1} << 20U;
    options.tick = Millis(20);
    return options;
  }
  std::unique_ptr<Runner> Start(const RunnerOptions& options) {
    Result<std::unique_ptr<EmbeddedRunner>> runner = EmbeddedRunner::Start(files_, clock_, options);
    EXPECT_TRUE(runner.ok()) << runner.error().message;
    return std::move(runner.value());
  }
  bool Eventually(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) {
        return false;
      }
      std::this_thread::yield();
    }
    return true;
  }

  TemporaryDirectory directory_;
  storage::PosixFileSystem files_;
  SystemClock clock_;
};

TEST_F(RunnerTest, WhatWasAnsweredIsThereAfterARestartAndTokensGoOnRising) {
  core::Granted granted;
  {
    const auto runner = Start(Options());
    Client client(*runner);
    granted = client.Call<core::Granted>(AcquireOf("a", "r1"));
  }
  const auto runner = Start(Options());
  Client client(*runner);
  const auto again =
      client.Call<core::Granted>(AcquireOf("a", "r1"));  // the same request: the same lease
  EXPECT_EQ(again.lease_id, granted.lease_id);
  EXPECT_EQ(again.token, granted.token);
  EXPECT_EQ(client.Call<core::Refused>(AcquireOf("a", "r2")).code, core::RefusalCode::kHeld);
  EXPECT_GT(client.Call<core::Granted>(AcquireOf("b", "r3")).token, granted.token);
}

TEST_F(RunnerTest, ASecondRunnerOnTheDirectoryIsRefused) {
  const auto runner = Start(Options());
  const Result<std::unique_ptr<EmbeddedRunner>> second =
      EmbeddedRunner::Start(files_, clock_, Options());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::kBusy);
}

TEST_F(RunnerTest, TimeMovesWithoutTraffic) {
  const auto runner = Start(Options());
  Client client(*runner);
  client.Call<core::Granted>(AcquireOf("a", "r1", Seconds(1)));
  const std::uint64_t waiting = client.Send(AcquireOf("a", "r2", Seconds(1), Seconds(60)));
  // Nobody releases: the ticker expires the lease; the lock-delay of an advisory namespace follows.
  const auto refused = client.Call<core::Refused>(AcquireOf("a", "r3"));
  EXPECT_EQ(refused.code, core::RefusalCode::kHeld);
  EXPECT_TRUE(Eventually([&] {
    return client.Ask<core::ResourceView>(core::Describe{"default", "a"}).state ==
           core::ResourceState::kDelayed;
  }));
  EXPECT_FALSE(client.front().Has(waiting));
}

TEST_F(RunnerTest, MeasuresBatchesWithCommands) {
  const auto runner = Start(Options());
  Client client(*runner);
  client.Call<core::Granted>(AcquireOf("a", "r1"));
  const auto refused = client.Call<core::Refused>(AcquireOf("a", "r2"));
  EXPECT_EQ(refused.code, core::RefusalCode::kHeld);
  EXPECT_TRUE(Eventually([&] { return runner->Stats().engine.batches > 10; })) << "ticks";
  const RunnerStats stats = runner->Stats();
  EXPECT_EQ(stats.batch_commands.sum, 3) << "and the EpochStart, but no ticks";
  for (const HistogramData& data :
       {stats.batch_commands, stats.batch_bytes, stats.commit_seconds}) {
    EXPECT_EQ(std::accumulate(data.counts.begin(), data.counts.end(), std::uint64_t{0}), 3U);
    EXPECT_GT(data.sum, 0);
  }
  const HistogramData& syncs = stats.journal.sync_seconds;
  EXPECT_GE(std::accumulate(syncs.counts.begin(), syncs.counts.end(), std::uint64_t{0}),
            stats.engine.batches);
  EXPECT_GE(stats.state_time_lag, Duration{});
  EXPECT_LT(stats.state_time_lag, kPatience);
}

TEST_F(RunnerTest, AnAnswerSaysWhetherItsRequestWaited) {
  const auto runner = Start(Options());
  Client client(*runner);
  const auto granted = client.Call<core::Granted>(AcquireOf("a", "r1"));
  const std::uint64_t waiting = client.Send(AcquireOf("a", "r2", Seconds(30), Seconds(60)));
  EXPECT_FALSE(client.front().Await(client.Send(core::Release{"a", granted.lease_id})).waited);
  EXPECT_TRUE(client.front().Await(waiting).waited);
}

TEST_F(RunnerTest, ManyFrontsShareTheEngineAndNoReplyIsLost) {
  const auto runner = Start(Options());
  std::vector<std::thread> threads;
  std::atomic<int> pairs{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Client client(*runner);
      for (int i = 0; i < 200; ++i) {
        const std::string name = "r" + std::to_string(t) + "-" + std::to_string(i % 7);
        const auto granted = client.Call<core::Granted>(
            AcquireOf(name, std::to_string(t) + "." + std::to_string(i)));
        EXPECT_TRUE(client.Call<core::Released>(core::Release{name, granted.lease_id}).released);
        ++pairs;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(pairs, 800);
  Client client(*runner);
  EXPECT_EQ(client.Ask<core::CountsView>(core::GetCounts{}).last_token, 800U);
}

TEST_F(RunnerTest, AFrontThatGoesDetachesItsWaiters) {
  const auto runner = Start(Options());
  Client holder(*runner);
  const auto granted = holder.Call<core::Granted>(AcquireOf("a", "r1"));
  {
    Client waiter(*runner);
    waiter.Send(AcquireOf("a", "r2", Seconds(30), Seconds(60)));
    EXPECT_TRUE(Eventually([&] {
      return holder.Ask<core::ResourceView>(core::Describe{"default", "a"}).queue_length == 1;
    }));
  }
  const auto view = holder.Ask<core::ResourceView>(core::Describe{"default", "a"});
  ASSERT_EQ(view.queue.size(), 1U);
  EXPECT_TRUE(view.queue.front().detached);
  EXPECT_TRUE(holder.Call<core::Released>(core::Release{"a", granted.lease_id}).released);
  EXPECT_EQ(holder.Ask<core::ResourceView>(core::Describe{"default", "a"}).state,
            core::ResourceState::kFree);
}

TEST_F(RunnerTest, TheShadowWritesSnapshotsTheLogIsTrimmedAndARestartStartsFromThem) {
  RunnerOptions options = Options();
  options.snapshot_bytes = 16 << 10;
  options.journal.segment_bytes = 64 << 10;
  core::Token last = 0;
  {
    const auto runner = Start(options);
    Client client(*runner);
    ASSERT_TRUE(Eventually([&] {
      const std::string id = std::to_string(++last);
      client.Call<core::Granted>(AcquireOf("r" + id, id));
      return runner->Stats().shadow.snapshots >= 3 && runner->Stats().journal_first_index > 1;
    }));
  }
  const auto runner = Start(options);
  EXPECT_GT(runner->Stats().shadow.snapshot_index, 0U);
  Client client(*runner);
  const auto counts = client.Ask<core::CountsView>(core::GetCounts{});
  EXPECT_EQ(counts.last_token, last);
  EXPECT_EQ(counts.holds, last);
  const auto same = client.Call<core::Granted>(AcquireOf("r1", "1"));  // from the first snapshot on
  EXPECT_EQ(same.token, 1U);
}

TEST_F(RunnerTest, AStoppingRunnerAnswersWhatItTookAndRefusesTheRest) {
  const auto runner = Start(Options());
  Client client(*runner);
  client.Call<core::Granted>(AcquireOf("a", "r1"));
  runner->Stop();
  const Reply reply = client.front().Await(client.Send(AcquireOf("b", "r2")));
  EXPECT_EQ(std::get<Error>(reply.answer).code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace holdfast::engine
