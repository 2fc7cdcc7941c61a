// What the replicated journal takes for granted of etcd, asked of the fake that most tests run on
// and of a real etcd, so that the fake stays honest.
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include <gtest/gtest.h>

#include "bench/peer_servers.h"
#include "etcd/client.h"
#include "journal/etcd_append.h"
#include "journal/fake_etcd.h"

namespace holdfast::journal::etcd {
namespace {

constexpr std::chrono::seconds kPatience{30};

class Store {
 public:
  virtual ~Store() = default;
  virtual TxnResult Run(const Txn& txn) = 0;
  // The next `count` changes below /t/ from `revision` on.
  virtual std::vector<Change> Changes(Revision revision, std::size_t count) = 0;
};

class Fake : public Store {
 public:
  TxnResult Run(const Txn& txn) override { return store_.Run(txn); }
  std::vector<Change> Changes(Revision revision, std::size_t count) override {
    WatchChanges changes;
    EXPECT_TRUE(store_.ChangesSince(revision, "/t/", changes));
    EXPECT_GE(changes.changes.size(), count);
    changes.changes.resize(count);
    return changes.changes;
  }

 private:
  FakeEtcd store_;
};

// A member of its own, and the client that the server uses.
class Real : public Store {
 public:
  Real() {
    bench::PeersBenchOptions bench;
    bench.work_dir = testing::TempDir();
    bench::PeerPrograms programs;
    programs.etcd = "etcd";
    auto server = bench::StartServer(bench, programs, "etcd");
    EXPECT_TRUE(server.ok()) << server.error().message;
    server_ = std::move(*server);
    holdfast::etcd::Client::Handlers handlers;
    handlers.on_answer = [this](std::uint64_t id, Answer&& answer) {
      const std::lock_guard lock(mutex_);
      answers_.emplace_back(id, std::move(answer));
      changed_.notify_all();
    };
    handlers.on_news = [this](std::uint64_t id, WatchNews&& news) {
      const std::lock_guard lock(mutex_);
      const auto* changes = std::get_if<WatchChanges>(&news);
      if (id == watch_ && changes != nullptr) {
        changes_.insert(changes_.end(), changes->changes.begin(), changes->changes.end());
      }
      changed_.notify_all();
    };
    holdfast::etcd::ClientOptions options;
    options.endpoints = {bench::Listen(server_->port)};
    options.prefix = "/t/";
    client_ = std::move(*holdfast::etcd::Client::Create(options, std::move(handlers)));
    client_->Health(Seconds(30));  // waits until it is connected
  }

  TxnResult Run(const Txn& txn) override {
    std::unique_lock lock(mutex_);
    const std::uint64_t id = ++last_call_;
    lock.unlock();
    client_->Send(id, txn, Seconds(10));
    lock.lock();
    EXPECT_TRUE(changed_.wait_for(lock, kPatience, [&] { return !answers_.empty(); }));
    const Answer answer = std::move(answers_.front().second);
    answers_.pop_front();
    const auto* failure = std::get_if<Failure>(&answer);
    EXPECT_EQ(failure, nullptr) << failure->error.message;
    return failure == nullptr ? std::get<TxnResult>(answer) : TxnResult{};
  }

  std::vector<Change> Changes(Revision revision, std::size_t count) override {
    std::unique_lock lock(mutex_);
    changes_.clear();
    ++watch_;
    lock.unlock();
    client_->Watch(watch_, revision);
    lock.lock();
    EXPECT_TRUE(changed_.wait_for(lock, kPatience, [&] { return changes_.size() >= count; }));
    std::vector<Change> changes = changes_;
    changes.resize(count);
    return changes;
  }

 private:
  std::unique_ptr<bench::Running> server_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<std::uint64_t, Answer>> answers_;
  std::vector<Change> changes_;
  std::uint64_t last_call_ = 0;
  std::uint64_t watch_ = 0;
  std::unique_ptr<holdfast::etcd::Client> client_;
};

class EtcdContract : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam()) {
      store_ = std::make_unique<Real>();
    } else {
      store_ = std::make_unique<Fake>();
    }
  }
  TxnResult PutOf(const std::string& key, const std::string& value) {
    return store_->Run({{}, {Put{key, value}}, {}});
  }
  KeyValue GetOf(const std::string& key) {
    const TxnResult result = store_->Run({{}, {Get{key, {}}}, {}});
    return result.gets.at(0).empty() ? KeyValue{} : result.gets[0][0];
  }

  std::unique_ptr<Store> store_;
};

TEST_P(EtcdContract, OnlyWritesRaiseTheRevision) {
  const Revision first = PutOf("/t/a", "1").revision;
  EXPECT_EQ(PutOf("/t/a", "2").revision, first + 1);
  EXPECT_EQ(store_->Run({{}, {Get{"/t/a", {}}}, {}}).revision, first + 1);
  EXPECT_EQ(store_->Run({{}, {Delete{"/t/none", {}}}, {}}).revision, first + 1);
  const KeyValue pair = GetOf("/t/a");
  EXPECT_EQ(pair.create_revision, first);
  EXPECT_EQ(pair.mod_revision, first + 1);
  EXPECT_EQ(pair.value, "2");
}

TEST_P(EtcdContract, AGuardOnCreationHoldsOnlyWhileTheKeyIsAbsent) {
  const Txn once{{{"/t/s", Guard::Of::kCreated, 0}}, {Put{"/t/s", "mine"}}, {Get{"/t/s", {}}}};
  const TxnResult first = store_->Run(once);
  EXPECT_TRUE(first.succeeded);
  const TxnResult again = store_->Run(once);
  EXPECT_FALSE(again.succeeded);
  ASSERT_EQ(again.gets.at(0).size(), 1U);
  EXPECT_EQ(again.gets[0][0].value, "mine");
  EXPECT_EQ(again.gets[0][0].mod_revision, first.revision);
}

TEST_P(EtcdContract, AGuardOnModificationTellsAnyWriteApart) {
  const Revision revision = PutOf("/t/e", "1").revision;
  const Txn swap{{{"/t/e", Guard::Of::kModified, revision}}, {Put{"/t/e", "2"}}, {}};
  EXPECT_TRUE(store_->Run(swap).succeeded);
  EXPECT_FALSE(store_->Run(swap).succeeded);
  EXPECT_TRUE(store_->Run({{{"/t/none", Guard::Of::kModified, 0}}, {}, {}}).succeeded);
}

TEST_P(EtcdContract, AllGuardsMustHold) {
  const Revision revision = PutOf("/t/e", "1").revision;
  const TxnResult result =
      store_->Run({{{"/t/e", Guard::Of::kModified, revision}, {"/t/e", Guard::Of::kCreated, 0}},
                   {Put{"/t/x", "1"}},
                   {}});
  EXPECT_FALSE(result.succeeded);
  EXPECT_EQ(GetOf("/t/x").mod_revision, 0);
}

TEST_P(EtcdContract, ARangeIsInOrderAndKeepsItsLimit) {
  for (const char* key : {"/t/log/3", "/t/log/1", "/t/log/2", "/t/lot"}) {
    PutOf(key, "v");
  }
  const TxnResult result = store_->Run(
      {{}, {Get{"/t/log/", PrefixEnd("/t/log/"), 2}, Get{"/t/log/2", "/t/log/9", 0, true}}, {}});
  ASSERT_EQ(result.gets.at(0).size(), 2U);
  EXPECT_EQ(result.gets[0][0].key, "/t/log/1");
  EXPECT_EQ(result.gets[0][1].key, "/t/log/2");
  ASSERT_EQ(result.gets.at(1).size(), 2U);
  EXPECT_EQ(result.gets[1][1].key, "/t/log/3");
  EXPECT_EQ(result.gets[1][1].value, "") << "keys only";
}

TEST_P(EtcdContract, AWatchBringsEveryChangeInOrder) {
  const Revision from = PutOf("/t/a", "1").revision;
  PutOf("/u/b", "elsewhere");
  PutOf("/t/a", std::string("\0\xff", 2));
  store_->Run({{}, {Delete{"/t/a", {}}}, {}});
  const std::vector<Change> changes = store_->Changes(from, 3);
  ASSERT_EQ(changes.size(), 3U);
  EXPECT_EQ(changes[0].pair.value, "1");
  EXPECT_EQ(changes[0].pair.mod_revision, from);
  EXPECT_EQ(changes[1].pair.value, std::string("\0\xff", 2));
  EXPECT_TRUE(changes[2].deleted);
  EXPECT_EQ(changes[2].pair.key, "/t/a");
}

TEST_P(EtcdContract, TheMovesOfTheLogWorkOnIt) {
  const Layout layout("/t");
  store_->Run({{}, {Put{layout.Epoch(), EncodeRecord(EpochRecord{})}}, {}});
  const Revision begun = GetOf(layout.Epoch()).mod_revision;
  EpochRecord mine{1, "a", "", Hash128("a"), false};
  Takeover takeover(layout, mine, begun);
  ASSERT_EQ(takeover.OnAnswer(store_->Run(takeover.txn())), Takeover::Verdict::kWon);
  Appender appender(layout, takeover.epoch_revision(), 0, 0);
  Entry entry;
  entry.index = 1;
  entry.epoch = 1;
  entry.payload = std::string(1000, 'x');
  appender.Begin(entry);
  const Txn append = appender.txn();
  store_->Run(append);  // done, and nobody hears of it
  EXPECT_EQ(appender.OnAnswer(store_->Run(append)), Appender::Verdict::kCommitted);
  Takeover other(layout, EpochRecord{2, "b", "", Hash128("b"), false}, takeover.epoch_revision());
  ASSERT_EQ(other.OnAnswer(store_->Run(other.txn())), Takeover::Verdict::kWon);
  EXPECT_EQ(takeover.OnAnswer(store_->Run(takeover.txn())), Takeover::Verdict::kLost);
  Entry next = entry;
  next.index = 2;
  appender.Begin(next);
  EXPECT_EQ(appender.OnAnswer(store_->Run(appender.txn())), Appender::Verdict::kDeposed);
  EXPECT_EQ(GetOf(layout.Slot(2)).mod_revision, 0);
}

INSTANTIATE_TEST_SUITE_P(FakeAndReal, EtcdContract, testing::Values(false, true),
                         [](const auto& which) { return which.param ? "Real" : "Fake"; });

}  // namespace
}  // namespace holdfast::journal::etcd
