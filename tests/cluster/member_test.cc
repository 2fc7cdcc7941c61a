#include "engine/member.h"

#include <gtest/gtest.h>

#include "sim/cluster.h"

namespace holdfast::engine {
namespace {

using sim::AcquireOf;
using sim::Nastiness;

void StartAll(sim::Cluster& cluster, int nodes) {
  for (int i = 0; i < nodes; ++i) {
    cluster.Start(i);
  }
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Leader() >= 0; }, Seconds(5)));
  ASSERT_TRUE(cluster.RunUntil(
      [&] {
        for (int i = 0; i < nodes; ++i) {
          const Role role = cluster.member(i).role();
          if (role != Role::kLeading && role != Role::kStandby) {
            return false;
          }
        }
        return true;
      },
      Seconds(5)));
}

core::Granted GrantOf(sim::Cluster& cluster, std::uint64_t tag, const std::string& resource,
                      const std::string& id, Duration ttl = Seconds(10)) {
  EXPECT_TRUE(cluster.Propose(tag, AcquireOf(resource, id, ttl)));
  std::optional<Reply> reply;
  EXPECT_TRUE(cluster.RunUntil(
      [&] {
        reply = cluster.TakeReply(tag);
        return reply.has_value();
      },
      Seconds(5)));
  const auto* outcome = reply ? std::get_if<core::Outcome>(&reply->answer) : nullptr;
  const auto* granted = outcome ? std::get_if<core::Granted>(outcome) : nullptr;
  EXPECT_NE(granted, nullptr);
  return granted != nullptr ? *granted : core::Granted{};
}

ErrorCode ErrorOf(const std::optional<Reply>& reply) {
  const auto* error = reply ? std::get_if<Error>(&reply->answer) : nullptr;
  return error != nullptr ? error->code : ErrorCode::kInternal;
}

// How long until another node than `before` leads and answers.
Duration GapAfter(sim::Cluster& cluster, int before) {
  const BootTime begun = cluster.now();
  EXPECT_TRUE(cluster.RunUntil([&] { return cluster.Leader() >= 0 && cluster.Leader() != before; },
                               Seconds(20)));
  return cluster.now() - begun;
}

TEST(Member, OneOfThreeLeadsAndAllApplyTheSame) {
  sim::Cluster cluster(1, 3);
  StartAll(cluster, 3);
  const core::Granted first = GrantOf(cluster, 1, "a", "r1");
  const core::Granted second = GrantOf(cluster, 2, "b", "r2");
  EXPECT_GT(second.token, first.token);
  cluster.RunFor(Seconds(2));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(cluster.member(i).Look().epoch, 1U);
    EXPECT_GE(cluster.member(i).machine().last_token(), second.token);
  }
  EXPECT_EQ(cluster.violation(), "");
}

TEST(Member, AStandbyTakesOverWithinASecondOfTheLeadersDeathAndLosesNothing) {
  sim::Cluster cluster(2, 3);
  StartAll(cluster, 3);
  const core::Granted before = GrantOf(cluster, 1, "a", "r1");
  cluster.RunFor(Seconds(3));
  const int dead = cluster.Leader();
  cluster.Kill(dead);
  EXPECT_LT(GapAfter(cluster, dead), Millis(1200));
  const core::Granted same = GrantOf(cluster, 2, "a", "r1");
  EXPECT_EQ(same.token, before.token);
  EXPECT_EQ(same.lease_id, before.lease_id);
  EXPECT_GT(GrantOf(cluster, 3, "b", "r2").token, before.token);
  EXPECT_EQ(cluster.violation(), "");
}

TEST(Member, AFrozenLeaderIsDeposedAndSaysSoWhenItWakes) {
  sim::Cluster cluster(3, 3);
  StartAll(cluster, 3);
  const int frozen = cluster.Leader();
  ASSERT_TRUE(cluster.Propose(1, AcquireOf("a", "r1")));
  cluster.Pause(frozen, Seconds(20));
  EXPECT_LT(GapAfter(cluster, frozen), Millis(1500));
  const core::Granted granted = GrantOf(cluster, 2, "b", "r2");
  cluster.RunFor(Seconds(21));
  EXPECT_EQ(cluster.member(frozen).role(), Role::kStandby);
  // The append was on its way: the answer is unknown, and asking again tells.
  EXPECT_EQ(ErrorOf(cluster.TakeReply(1)), ErrorCode::kUnknownOutcome);
  EXPECT_NE(GrantOf(cluster, 3, "a", "r1").token, granted.token);
  EXPECT_EQ(cluster.violation(), "");
}

TEST(Member, ADeposedLeaderDoesNotAnswerReads) {
  sim::Cluster cluster(4, 2);
  StartAll(cluster, 2);
  const int old = cluster.Leader();
  cluster.CutOff(old, Seconds(10));
  ASSERT_TRUE(cluster.Ask(1, core::Describe{"default", "a"}));
  EXPECT_LT(GapAfter(cluster, old), Millis(1500));
  cluster.RunFor(Seconds(15));
  const ErrorCode code = ErrorOf(cluster.TakeReply(1));
  EXPECT_TRUE(code == ErrorCode::kUnavailable || code == ErrorCode::kUnknownOutcome);
  EXPECT_EQ(cluster.violation(), "");
}

TEST(Member, AReadIsAnsweredByABatchThatWasSealedAfterIt) {
  sim::Cluster cluster(5, 2);
  StartAll(cluster, 2);
  const std::uint64_t before = cluster.applied();
  ASSERT_TRUE(cluster.Ask(1, core::Describe{"default", "a"}));
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.TakeReply(1).has_value(); }, Millis(100)));
  EXPECT_GT(cluster.applied(), before);
}

TEST(Member, AHandOverLeavesAGapThatNobodyNotices) {
  sim::Cluster cluster(6, 3);
  StartAll(cluster, 3);
  cluster.RunFor(Seconds(2));
  const int before = cluster.Leader();
  ASSERT_TRUE(cluster.Propose(1, AcquireOf("a", "r1")));
  cluster.member(before).StepDown(StepDownFor::kGood);
  cluster.RunFor(Millis(1));
  EXPECT_LT(GapAfter(cluster, before), Millis(200));
  EXPECT_TRUE(cluster.TakeReply(1).has_value()) << "what was queued is committed first";
  EXPECT_TRUE(cluster.member(before).SteppedDown());
  EXPECT_EQ(cluster.violation(), "");
}

TEST(Member, WhoHasSteppedDownForNowStandsBackAndLeadsAgainWhenNobodyElseDoes) {
  sim::Cluster cluster(15, 2);
  StartAll(cluster, 2);
  cluster.RunFor(Seconds(1));
  const int first = cluster.Leader();
  cluster.member(first).StepDown(StepDownFor::kNow);
  cluster.RunFor(Millis(1));
  EXPECT_LT(GapAfter(cluster, first), Millis(200));
  cluster.RunFor(Seconds(5));
  EXPECT_EQ(cluster.Leader(), 1 - first);
  cluster.Kill(1 - first);
  EXPECT_LT(GapAfter(cluster, 1 - first), Millis(1500));
  EXPECT_EQ(cluster.Leader(), first);
  EXPECT_EQ(cluster.violation(), "");
}

TEST(Member, AFeatureLevelWaitsForTheOldestLiveNode) {
  sim::Cluster cluster(16, 3);
  cluster.Start(0);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Leader() == 0; }, Seconds(5)));
  cluster.options.feature_level_max = 0;
  cluster.Start(1);
  cluster.RunFor(Seconds(5));
  const auto set_level = [&](std::uint64_t tag) {
    EXPECT_TRUE(cluster.Propose(tag, core::Command{"p", "", core::SetFeatureLevel{1}}));
    cluster.RunFor(Millis(300));
    return cluster.TakeReply(tag);
  };
  EXPECT_EQ(ErrorOf(set_level(1)), ErrorCode::kUnsupported);
  cluster.Kill(1);
  cluster.RunFor(Seconds(15));
  const std::optional<Reply> accepted = set_level(2);
  ASSERT_TRUE(accepted.has_value());
  EXPECT_TRUE(std::holds_alternative<core::Outcome>(accepted->answer));
}

TEST(Member, ARollingUpgradeKeepsItsLeasesAndAnOlderNodeStopsAfterTheNewLevel) {
  sim::Cluster cluster(21, 3);
  cluster.options.feature_level_max = 0;
  StartAll(cluster, 3);
  const core::Granted held = GrantOf(cluster, 1, "a", "r1", Seconds(300));
  const auto set_level = [&](std::uint64_t tag) {
    EXPECT_TRUE(cluster.Propose(tag, core::Command{"p", "", core::SetFeatureLevel{1}}));
    cluster.RunFor(Millis(300));
    return cluster.TakeReply(tag);
  };
  cluster.options.feature_level_max = 1;
  for (int node = 0; node < 3; ++node) {
    cluster.RunFor(Seconds(3));
    EXPECT_EQ(ErrorOf(set_level(10 + static_cast<std::uint64_t>(node))), ErrorCode::kUnsupported);
    cluster.Kill(node);
    ASSERT_TRUE(cluster.RunUntil([&] { return cluster.Leader() >= 0; }, Seconds(5)));
    cluster.Start(node);
    ASSERT_TRUE(cluster.RunUntil(
        [&] { return cluster.Leader() >= 0 && cluster.member(node).role() == Role::kStandby; },
        Seconds(5)));
  }
  cluster.RunFor(Seconds(12));
  const std::optional<Reply> accepted = set_level(20);
  ASSERT_TRUE(accepted && std::holds_alternative<core::Outcome>(accepted->answer));
  EXPECT_EQ(GrantOf(cluster, 21, "a", "r1", Seconds(300)).lease_id, held.lease_id);
  cluster.options.feature_level_max = 0;
  const int older = (cluster.Leader() + 1) % 3;
  cluster.Kill(older);
  cluster.Start(older);
  cluster.RunFor(Seconds(3));
  EXPECT_EQ(cluster.member(older).role(), Role::kFailed);
  EXPECT_EQ(cluster.member(older).error().code, ErrorCode::kUnsupported);
  GrantOf(cluster, 22, "b", "r2");
  EXPECT_EQ(cluster.violation(), "");
}

TEST(Member, WhenEtcdIsDownNobodyIsConvictedAndRequestsAreRefused) {
  sim::Cluster cluster(7, 3);
  StartAll(cluster, 3);
  const int leader = cluster.Leader();
  cluster.RunFor(Seconds(3));
  cluster.StopEtcd(Seconds(5));
  cluster.RunFor(Millis(300));
  ASSERT_TRUE(cluster.Propose(1, AcquireOf("a", "r1")));
  cluster.RunFor(Seconds(3));
  EXPECT_EQ(ErrorOf(cluster.TakeReply(1)), ErrorCode::kUnavailable) << "it was only queued";
  EXPECT_FALSE(cluster.Propose(2, AcquireOf("a", "r1"))) << "refused at once";
  cluster.RunFor(Seconds(4));
  EXPECT_EQ(cluster.Leader(), leader);
  EXPECT_EQ(cluster.member(leader).Look().epoch, 1U);
  GrantOf(cluster, 3, "a", "r1");
  EXPECT_EQ(cluster.violation(), "");
}

TEST(Member, NobodySpinsWhileEtcdIsSilent) {
  sim::Cluster cluster(17, 2);
  StartAll(cluster, 2);
  cluster.StopEtcd(Seconds(10));
  for (int i = 0; i < 90; ++i) {
    cluster.RunFor(Millis(100));
    for (int node = 0; node < 2; ++node) {
      cluster.member(node).Advance();
      EXPECT_GT(cluster.member(node).NextWake(), cluster.now()) << "node " << node;
    }
  }
}

TEST(Member, AnEtcdThatIsAlwaysSlowDoesNotKeepADeadLeaderInOffice) {
  sim::Cluster cluster(18, 3);
  StartAll(cluster, 3);
  cluster.SetNastiness({.delay_max = Millis(400)});
  cluster.RunFor(Seconds(20));
  const int dead = cluster.Leader();
  ASSERT_GE(dead, 0);
  cluster.Kill(dead);
  EXPECT_LT(GapAfter(cluster, dead), Seconds(15));
  EXPECT_EQ(cluster.violation(), "");
}

TEST(Member, WhoCannotReadTheLogItHasTakenOverRefusesWhatWaits) {
  sim::Cluster cluster(19, 2);
  StartAll(cluster, 2);
  cluster.RunFor(Seconds(2));
  const int dead = cluster.Leader();
  const int next = 1 - dead;
  cluster.Kill(dead);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.member(next).role() == Role::kTakingOver; },
                               Seconds(5)));
  cluster.StopEtcd(Seconds(8));
  ASSERT_TRUE(cluster.Propose(1, AcquireOf("a", "r1")));
  cluster.RunFor(Seconds(3));
  EXPECT_EQ(ErrorOf(cluster.TakeReply(1)), ErrorCode::kUnavailable);
  EXPECT_FALSE(cluster.Propose(2, AcquireOf("a", "r1")));
  cluster.RunFor(Seconds(8));
  GrantOf(cluster, 3, "a", "r1");
  EXPECT_EQ(cluster.violation(), "");
}

TEST(Member, AnAppendWithoutAnAnswerIsResolvedToOneEffect) {
  sim::Cluster cluster(8, 1);
  StartAll(cluster, 1);
  for (const Nastiness& nasty : {Nastiness{.lost_replies = 500}, Nastiness{.late_requests = 500},
                                 Nastiness{.no_space = 500}, Nastiness{.lost_requests = 500}}) {
    cluster.SetNastiness(nasty);
    for (int i = 0; i < 20; ++i) {
      const std::uint64_t tag = cluster.random().Next();
      ASSERT_TRUE(cluster.RunUntil(
          [&] { return cluster.Propose(tag, AcquireOf("x" + std::to_string(tag), "r")); },
          Seconds(60)));
      cluster.RunFor(Seconds(2));
    }
    cluster.SetNastiness({});
    cluster.RunFor(Seconds(5));
    EXPECT_EQ(cluster.member(0).role(), Role::kLeading);
  }
  EXPECT_GT(cluster.member(0).Look().unknown_appends, 10U);
  EXPECT_EQ(cluster.violation(), "");
}

TEST(Member, AStandbyBehindACompactionListsTheLogAgain) {
  sim::Cluster cluster(9, 2);
  StartAll(cluster, 2);
  const int standby = 1 - cluster.Leader();
  cluster.Pause(standby, Seconds(5));
  cluster.RunFor(Seconds(3));
  cluster.store().Compact(cluster.store().revision());
  cluster.RunFor(Seconds(4));
  EXPECT_EQ(cluster.member(standby).role(), Role::kStandby);
  EXPECT_GT(cluster.member(standby).Look().relists, 0U);
  EXPECT_GE(cluster.member(standby).machine().index() + 2, cluster.applied());
  EXPECT_EQ(cluster.violation(), "");
}

TEST(Member, TheLogIsTrimmedBehindSnapshotsInTwoZonesAndALateNodeGetsOne) {
  sim::Cluster cluster(10, 3);
  cluster.options.snapshot_bytes = 2000;
  cluster.options.alive_for = Seconds(3);
  StartAll(cluster, 3);
  const int late = cluster.Leader() == 0 ? 1 : 0;
  cluster.Kill(late);
  for (std::uint64_t i = 1; i < 200; ++i) {
    cluster.Propose(i, AcquireOf("a" + std::to_string(i), "r", Seconds(300)));
    cluster.RunFor(Millis(200));
  }
  ASSERT_TRUE(cluster.RunUntil(
      [&] { return cluster.member(cluster.Leader()).Look().first_index > 50; }, Seconds(60)));
  cluster.RunFor(Seconds(5));
  std::size_t slots = 0;
  for (const auto& [key, pair] : cluster.store().pairs()) {
    slots += key.starts_with("/t/log/") ? 1 : 0;
  }
  EXPECT_LT(slots, cluster.applied() / 2) << "trimmed entries are deleted";
  cluster.Start(late);
  ASSERT_TRUE(
      cluster.RunUntil([&] { return cluster.member(late).role() == Role::kStandby; }, Seconds(10)));
  cluster.RunFor(Seconds(1));
  EXPECT_GE(cluster.member(late).machine().index() + 2, cluster.applied());
  EXPECT_EQ(cluster.violation(), "");
}

TEST(Member, BeforeEtcdIsFullNothingNewIsGrantedAndTheRestGoesOn) {
  sim::Cluster cluster(20, 2);
  StartAll(cluster, 2);
  const core::Granted held = GrantOf(cluster, 1, "a", "r1");
  cluster.store_bytes = cluster.options.store_quota_bytes / 10 * 9;
  cluster.RunFor(Seconds(6));
  ASSERT_TRUE(cluster.Propose(2, AcquireOf("b", "r2")));
  core::Renew renew;
  renew.resource = "a";
  renew.lease_id = held.lease_id;
  ASSERT_TRUE(cluster.Propose(3, core::Command{"p", "default", renew}));
  cluster.RunFor(Seconds(1));
  EXPECT_EQ(ErrorOf(cluster.TakeReply(2)), ErrorCode::kOverloaded);
  const std::optional<Reply> renewed = cluster.TakeReply(3);
  ASSERT_TRUE(renewed.has_value());
  EXPECT_TRUE(std::holds_alternative<core::Outcome>(renewed->answer));
  EXPECT_TRUE(cluster.member(cluster.Leader()).Look().store_full);
  cluster.store_bytes = 0;
  cluster.RunFor(Seconds(6));
  GrantOf(cluster, 4, "b", "r2");
  EXPECT_EQ(cluster.violation(), "");
}

TEST(Member, AStandbyWhoseWatchLeftOutTheNewLeaderFindsIt) {
  sim::Cluster cluster(24, 3);
  StartAll(cluster, 3);
  cluster.RunFor(Seconds(2));
  cluster.loses = [](const etcd::Change& change) { return change.pair.key == "/t/epoch"; };
  const int before = cluster.Leader();
  cluster.Kill(before);
  EXPECT_LT(GapAfter(cluster, before), Millis(1500));
  cluster.RunFor(Seconds(2));
  const int leader = cluster.Leader();
  const int standby = 3 - before - leader;
  EXPECT_EQ(cluster.member(standby).Look().leader, cluster.member(leader).Look().name);
  EXPECT_EQ(cluster.violation(), "");
}

TEST(Member, AnotherEtcdIsRefused) {
  sim::Cluster cluster(11, 2);
  StartAll(cluster, 2);
  cluster.store().SetClusterId(99);
  cluster.RunFor(Seconds(3));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(cluster.member(i).role(), Role::kFailed);
    EXPECT_EQ(cluster.member(i).error().code, ErrorCode::kCorrupt);
    EXPECT_EQ(cluster.member(i).RouteOf(), Route::kNowhere);
  }
}

TEST(Member, OlderFilesInThePlaceOfEtcdsAreNoticedByEveryNode) {
  for (const bool other_leader_meanwhile : {false, true}) {
    sim::Cluster cluster(22, 3);
    StartAll(cluster, 3);
    cluster.RunFor(Seconds(2));
    const journal::etcd::FakeEtcd old = cluster.store();
    if (other_leader_meanwhile) {
      const int leader = cluster.Leader();
      cluster.member(leader).StepDown(StepDownFor::kNow);
      cluster.RunFor(Millis(1));
      EXPECT_LT(GapAfter(cluster, leader), Seconds(1));
    }
    cluster.RunFor(Seconds(3));
    for (int i = 0; i < 3; ++i) {
      cluster.Pause(i, Seconds(1));
    }
    cluster.StopEtcd(Seconds(1));
    cluster.store() = old;
    cluster.RunFor(Seconds(30));
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(cluster.member(i).role(), Role::kFailed) << "node " << i;
      EXPECT_EQ(cluster.member(i).error().code, ErrorCode::kCorrupt);
    }
  }
}

TEST(Member, AStandbyThatIsToldThatEtcdIsDamagedStopsToo) {
  sim::Cluster cluster(23, 2);
  StartAll(cluster, 2);
  cluster.RunFor(Seconds(1));
  cluster.DamageEtcd();
  cluster.RunFor(Seconds(5));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(cluster.member(i).role(), Role::kFailed) << "node " << i;
  }
}

TEST(Member, ALogThatWentBackIsRefused) {
  sim::Cluster cluster(12, 2);
  cluster.options.snapshot_bytes = 1000;
  StartAll(cluster, 2);
  cluster.RunFor(Seconds(30));
  const int standby = 1 - cluster.Leader();
  ASSERT_GT(cluster.member(standby).Look().snapshot_index, 0U);
  const std::uint64_t snapshot = cluster.member(standby).Look().snapshot_index;
  cluster.Kill(0);
  cluster.Kill(1);
  const etcd::Layout layout("/t");
  etcd::Txn txn;
  txn.then = {etcd::Delete{layout.Slot(snapshot - 1), etcd::PrefixEnd(layout.Slots())}};
  cluster.store().Run(txn);
  cluster.Start(standby);
  cluster.RunFor(Seconds(3));
  EXPECT_EQ(cluster.member(standby).role(), Role::kFailed);
}

TEST(Member, ADamagedEntryStopsTheNodeThatReadsIt) {
  sim::Cluster cluster(13, 2);
  StartAll(cluster, 2);
  cluster.RunFor(Seconds(2));
  cluster.Kill(0);
  const etcd::Layout layout("/t");
  std::string value = cluster.store().pairs().at(layout.Slot(3)).value;
  value[value.size() / 2] = static_cast<char>(value[value.size() / 2] ^ 1);
  etcd::Txn txn;
  txn.then = {etcd::Put{layout.Slot(3), value}};
  cluster.store().Run(txn);
  cluster.Start(0);
  cluster.RunFor(Seconds(3));
  EXPECT_EQ(cluster.member(0).role(), Role::kFailed);
  EXPECT_NE(cluster.member(0).error().message.find("log/0000000000000003"), std::string::npos);
}

TEST(Member, NodesThatCannotSeeEachOthersWritesDoNotDuelForEver) {
  sim::Cluster cluster(14, 3);
  StartAll(cluster, 3);
  // Each node in turn is cut off from etcd for a while, again and again.
  for (int round = 0; round < 30; ++round) {
    const int leader = cluster.Leader();
    if (leader >= 0) {
      cluster.CutOff(leader, Millis(900));
    }
    cluster.RunFor(Seconds(1));
  }
  std::uint64_t takeovers = 0;
  for (int i = 0; i < 3; ++i) {
    takeovers += cluster.member(i).Look().takeovers;
  }
  EXPECT_LE(takeovers, 20U) << "takeovers slow down when they follow each other";
  EXPECT_EQ(cluster.violation(), "");
}

}  // namespace
}  // namespace holdfast::engine
