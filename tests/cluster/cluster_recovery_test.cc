// `holdfast recover --etcd`: a new log after the loss of every disk, or of etcd.
#include "engine/cluster_recovery.h"

#include <gtest/gtest.h>

#include "engine/node_directory.h"
#include "journal/etcd_layout.h"
#include "sim/cluster.h"
#include "sim/node.h"
#include "storage/simulated_file_system.h"

namespace holdfast::engine {
namespace {

using sim::AcquireOf;

constexpr int kNodes = 2;

class ClusterRecoveryTest : public testing::Test {
 protected:
  ClusterRecoveryTest() {
    cluster_.options.snapshot_bytes = 2000;
    options_.prefix = "/t";
  }

  // A log that is trimmed, with tokens out.
  void RunAndStop() {
    StartAll();
    for (std::uint64_t i = 1; i < 200; ++i) {
      cluster_.Propose(i, AcquireOf("a" + std::to_string(i), "r", Seconds(300)));
      cluster_.RunFor(Millis(200));
    }
    ASSERT_TRUE(cluster_.RunUntil(
        [&] { return cluster_.member(cluster_.Leader()).Look().first_index > 50; }, Seconds(60)));
    token_ = cluster_.member(cluster_.Leader()).machine().last_token();
    held_ = HoldsAt(cluster_.Leader());
    for (int i = 0; i < kNodes; ++i) {
      cluster_.Kill(i);
    }
  }

  std::uint64_t HoldsAt(int node) {
    const core::Machine& machine = cluster_.member(node).machine();
    return std::get<core::CountsView>(machine.Answer(core::GetCounts{}, machine.now())).holds;
  }

  void StartAll() {
    for (int i = 0; i < kNodes; ++i) {
      cluster_.Start(i);
    }
    ASSERT_TRUE(cluster_.RunUntil([&] { return cluster_.Leader() >= 0; }, Seconds(5)));
  }

  Result<ClusterRecoveryReport> Recover() { return Recover(files_); }
  Result<ClusterRecoveryReport> Recover(storage::FileSystem& files) {
    return RecoverCluster(
        files, clock_,
        [&](const etcd::Txn& txn) { return etcd::Answer(cluster_.store().Run(txn)); },
        [&](Duration duration) { cluster_.RunFor(duration); }, options_);
  }

  void StartAnew() {
    cluster_.BeginAnotherLog(kept_ < 0);
    for (int i = 0; i < kNodes; ++i) {
      if (i != kept_) {
        cluster_.LoseDisk(i);
      }
    }
    StartAll();
  }

  // At the leader; nothing: it is refused.
  std::optional<core::Granted> Acquire(std::uint64_t tag, const std::string& resource) {
    EXPECT_TRUE(cluster_.Propose(tag, AcquireOf(resource, "n" + std::to_string(tag))));
    std::optional<Reply> reply;
    EXPECT_TRUE(cluster_.RunUntil(
        [&] {
          reply = cluster_.TakeReply(tag);
          return reply.has_value();
        },
        Seconds(5)));
    const auto* outcome = reply ? std::get_if<core::Outcome>(&reply->answer) : nullptr;
    const auto* granted = outcome ? std::get_if<core::Granted>(outcome) : nullptr;
    return granted != nullptr ? std::optional(*granted) : std::nullopt;
  }

  void ExpectBlockedThenGrantedAbove(std::uint64_t floor) {
    EXPECT_FALSE(Acquire(10'001, "x").has_value());
    cluster_.RunFor(options_.block + Seconds(700));
    const std::optional<core::Granted> granted = Acquire(10'002, "x");
    ASSERT_TRUE(granted.has_value());
    EXPECT_GT(granted->token, floor);
    EXPECT_EQ(cluster_.violation(), "");
  }

  sim::Cluster cluster_{1, kNodes};
  storage::SimulatedFileSystem files_;
  SystemClock clock_;
  ClusterRecoveryOptions options_;
  std::uint64_t token_ = 0;
  std::uint64_t held_ = 0;
  int kept_ = -1;  // a node whose disk is left
};

TEST_F(ClusterRecoveryTest, WithEveryDiskLostTokensGoOnAboveTheFloorThatEtcdKept) {
  RunAndStop();
  options_.block = Seconds(400);
  const Result<ClusterRecoveryReport> report = Recover();
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->state_index, 0U);
  EXPECT_GT(report->token_floor, token_);
  StartAnew();
  ExpectBlockedThenGrantedAbove(token_);
}

TEST_F(ClusterRecoveryTest, HowLongLostPromisesLastMustBeSaid) {
  RunAndStop();
  const Result<ClusterRecoveryReport> report = Recover();
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().field, "block");
}

TEST_F(ClusterRecoveryTest, TheStateOfANodeThatIsLeftGoesOn) {
  RunAndStop();
  kept_ = 1;
  options_.directory = sim::kDataDirectory;
  journal::SnapshotStore store(cluster_.disk(kept_), sim::kDataDirectory);
  const std::uint64_t left = store.LoadNewest()->header.index;
  ASSERT_GT(left, 0U);
  const Result<ClusterRecoveryReport> report = Recover(cluster_.disk(kept_));
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_GT(report->state_index, left) << "the log behind the snapshot is read too";
  EXPECT_EQ(report->entries_dropped, 0U);
  EXPECT_EQ((*NodeDirectory::Open(cluster_.disk(kept_), sim::kDataDirectory))->log_id(),
            report->log_id);
  StartAnew();
  EXPECT_EQ(HoldsAt(kept_), held_);
  ExpectBlockedThenGrantedAbove(token_);
}

TEST_F(ClusterRecoveryTest, ARestoredEtcdNeedsATokenFloor) {
  StartAll();
  ASSERT_TRUE(Acquire(1, "a").has_value());
  for (int i = 0; i < kNodes; ++i) {
    cluster_.Kill(i);
  }
  cluster_.store().SetClusterId(99);
  const Result<ClusterRecoveryReport> refused = Recover();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().field, "token_floor");
  options_.token_floor = 1'000'000'000;
  const Result<ClusterRecoveryReport> report = Recover();
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_GT(report->state_index, 0U) << "the log is there from its beginning";
  StartAnew();
  EXPECT_EQ(HoldsAt(cluster_.Leader()), 1U);
  ExpectBlockedThenGrantedAbove(1'000'000'000);
}

TEST_F(ClusterRecoveryTest, ADamagedEntryEndsTheLogThere) {
  StartAll();
  cluster_.RunFor(Seconds(2));
  for (int i = 0; i < kNodes; ++i) {
    cluster_.Kill(i);
  }
  const etcd::Layout layout("/t");
  etcd::Txn txn;
  txn.then = {etcd::Put{layout.Slot(3), "damaged"}};
  cluster_.store().Run(txn);
  const Result<ClusterRecoveryReport> report = Recover();
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->state_index, 2U);
  EXPECT_GT(report->entries_dropped, 5U);
  StartAnew();
  EXPECT_EQ(cluster_.violation(), "");
}

TEST_F(ClusterRecoveryTest, WhileANodeRunsItIsRefused) {
  StartAll();
  cluster_.RunFor(Seconds(3));
  const Result<ClusterRecoveryReport> report = Recover();
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, ErrorCode::kBusy);
  cluster_.RunFor(Seconds(1));
  EXPECT_EQ(cluster_.member(cluster_.Leader()).Look().epoch, 1U) << "nothing was done";
}

TEST_F(ClusterRecoveryTest, WhatIsLeftOfAnAttemptThatBrokeOffIsFinishedByTheNext) {
  RunAndStop();
  options_.block = Seconds(400);
  // Broken off after each of its transactions in turn.
  for (int done = 0;; ++done) {
    int left = done;
    const Result<ClusterRecoveryReport> report = RecoverCluster(
        files_, clock_,
        [&](const etcd::Txn& txn) {
          if (left-- <= 0) {
            return etcd::Answer(etcd::Failure{etcd::Certainty::kFatal,
                                              Error{ErrorCode::kUnavailable, "gone", {}, {}}});
          }
          return etcd::Answer(cluster_.store().Run(txn));
        },
        [&](Duration duration) { cluster_.RunFor(duration); }, options_);
    if (report.ok()) {
      EXPECT_GT(done, 5);
      break;
    }
  }
  StartAnew();
  ExpectBlockedThenGrantedAbove(token_);
}

}  // namespace
}  // namespace holdfast::engine
