// What needs more than a scenario file: bounds of tables, and batches that no leader may make.
#include "core/machine.h"

#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "core/limits.h"

namespace holdfast::core {
namespace {

class MachineTest : public testing::Test {
 protected:
  Command Of(CommandBody body, const std::string& principal = "p") {
    return Command{principal, "default", std::move(body)};
  }

  Acquire AcquireOf(const std::string& resource, const std::string& request_id) {
    Acquire acquire;
    acquire.resource = resource;
    acquire.request_id = request_id;
    acquire.lease_id = NextId();
    return acquire;
  }

  Id128 NextId() {
    ++ids_;
    Id128 id{};
    for (std::size_t i = 0; i < 8; ++i) {
      id[i] = static_cast<std::uint8_t>(ids_ >> (8 * i));
    }
    return id;
  }

  const Applied& Apply(std::vector<Command> commands, Duration step = {}) {
    Batch batch;
    batch.index = machine_.index() + 1;
    batch.epoch = 1;
    batch.time = machine_.now() + step;
    batch.commands = std::move(commands);
    machine_.Apply(batch, applied_);
    return applied_;
  }

  CountsView Counts() const {
    return std::get<CountsView>(machine_.Answer(GetCounts{}, machine_.now()));
  }

  Machine machine_;
  Applied applied_;
  std::uint64_t ids_ = 0;
};

TEST_F(MachineTest, RefusesToApplyWhatNoLeaderMayMake) {
  Apply({}, Millis(200));
  Batch batch;
  batch.index = machine_.index();
  batch.epoch = 1;
  batch.time = machine_.now();
  EXPECT_DEATH(machine_.Apply(batch, applied_), "batches follow each other");
  batch.index = machine_.index() + 1;
  batch.epoch = 0;
  EXPECT_DEATH(machine_.Apply(batch, applied_), "batches follow each other");
  batch.epoch = 1;
  batch.time = machine_.now() - Duration(1);
  EXPECT_DEATH(machine_.Apply(batch, applied_), "state time");
  batch.time = machine_.now() + kTimeStepMax + Duration(1);
  EXPECT_DEATH(machine_.Apply(batch, applied_), "state time");
}

// For metrics: from what its holder was last told, so the grace of a restart is in it.
TEST_F(MachineTest, AnEndSaysHowLateItIs) {
  Acquire acquire = AcquireOf("a", "r1");
  acquire.ttl = Seconds(1);
  Apply({Of(std::move(acquire))});
  Batch restart;
  restart.index = machine_.index() + 1;
  restart.epoch = 2;
  restart.time = machine_.now() + Millis(900);
  restart.commands.push_back(Command{{}, {}, EpochStart{2, Seconds(10)}});
  machine_.Apply(restart, applied_);
  const auto end_at = [this](std::uint64_t epoch, Duration step) {
    Batch batch;
    batch.index = machine_.index() + 1;
    batch.epoch = epoch;
    batch.time = machine_.now() + step;
    machine_.Apply(batch, applied_);
    return applied_.events.empty() ? std::optional<Duration>() : applied_.events.at(0).late;
  };
  EXPECT_FALSE(end_at(2, Millis(600)).has_value());
  EXPECT_EQ(end_at(2, Millis(600)), Millis(1100));
}

TEST_F(MachineTest, TheWallClockNeverFalls) {
  Batch batch;
  batch.index = 1;
  batch.wall = WallTime(Seconds(100));
  machine_.Apply(batch, applied_);
  batch.index = 2;
  batch.wall = WallTime(Seconds(50));
  machine_.Apply(batch, applied_);
  EXPECT_EQ(machine_.wall(), WallTime(Seconds(100)));
}

// Many names, each used once: what is remembered of them stays bounded, and the newest are
// remembered.
TEST_F(MachineTest, HistoryIsBoundedOverAllResources) {
  const std::size_t pairs = kTransitionsMax / 2 + 5000;
  Id128 first_lease{};
  Id128 last_lease{};
  for (std::size_t done = 0; done < pairs; done += 1000) {
    std::vector<Command> commands;
    for (std::size_t i = done; i < std::min(done + 1000, pairs); ++i) {
      const std::string name = "n" + std::to_string(i);
      Acquire acquire = AcquireOf(name, name);
      acquire.client = {"c", i + 1, i + 1};
      last_lease = acquire.lease_id;
      first_lease = i == 0 ? last_lease : first_lease;
      commands.push_back(Of(std::move(acquire)));
      commands.push_back(Of(Release{name, last_lease}));
    }
    Apply(std::move(commands));
  }
  EXPECT_EQ(Counts().resources, kTransitionsMax / 2);
  EXPECT_EQ(machine_.FindInconsistency(), "");
  const Released first = std::get<Released>(Apply({Of(Release{"n0", first_lease})}).outcomes[0]);
  EXPECT_EQ(first.cause, Cause::kNeverHeld);
  const std::string last = "n" + std::to_string(pairs - 1);
  EXPECT_TRUE(std::get<Released>(Apply({Of(Release{last, last_lease})}).outcomes[0]).released);
}

TEST_F(MachineTest, HowALeaseEndedIsKnownForTheLastTransitionsOfItsResource) {
  std::vector<Id128> leases;
  for (std::size_t i = 0; i <= kTransitionsSearched / 2; ++i) {
    Acquire acquire = AcquireOf("a", "r" + std::to_string(i));
    leases.push_back(acquire.lease_id);
    Apply({Of(std::move(acquire)), Of(Release{"a", leases.back()})});
  }
  EXPECT_FALSE(std::get<Released>(Apply({Of(Release{"a", leases[0]})}).outcomes[0]).released);
  EXPECT_TRUE(std::get<Released>(Apply({Of(Release{"a", leases[1]})}).outcomes[0]).released);
}

TEST_F(MachineTest, EndedSessionsAreRememberedUpToALimit) {
  Id128 first{};
  for (std::size_t done = 0; done <= kEndedSessionsMax; ++done) {
    OpenSession open;
    open.request_id = "s" + std::to_string(done);
    open.client = {"c", done + 1, done + 1};
    open.session_id = NextId();
    first = done == 0 ? open.session_id : first;
    const Id128 id = open.session_id;
    Apply({Of(std::move(open)), Of(CloseSession{id})});
    if (done == 0 || done == kEndedSessionsMax - 1) {
      EXPECT_EQ(std::get<SessionClosed>(Apply({Of(CloseSession{first})}).outcomes[0]).cause,
                Cause::kSessionClosed);
    }
  }
  EXPECT_EQ(std::get<SessionClosed>(Apply({Of(CloseSession{first})}).outcomes[0]).cause,
            Cause::kNeverHeld);
  EXPECT_EQ(machine_.FindInconsistency(), "");
}

TEST_F(MachineTest, NamespacesAreLimited) {
  std::vector<Command> commands;
  for (std::size_t i = 1; i < kNamespacesMax; ++i) {
    commands.push_back(Of(ChangeNamespace{NamespaceVerb::kCreate, "n" + std::to_string(i), {}}));
  }
  for (const Outcome& outcome : Apply(std::move(commands)).outcomes) {
    ASSERT_EQ(std::get<NamespaceChanged>(outcome).result, NamespaceResult::kOk);
  }
  const auto create = [&] {
    return std::get<NamespaceChanged>(
               Apply({Of(ChangeNamespace{NamespaceVerb::kCreate, "one-more", {}})}).outcomes[0])
        .result;
  };
  EXPECT_EQ(create(), NamespaceResult::kLimit);
  Apply({Of(ChangeNamespace{NamespaceVerb::kDelete, "n1", {}})});
  EXPECT_EQ(create(), NamespaceResult::kOk);
}

TEST_F(MachineTest, TenantsAreLimitedAndForgottenWithTheirLastRecord) {
  PolicyPatch patch;
  patch.request_memory = Seconds(1);
  Apply({Of(ChangeNamespace{NamespaceVerb::kSet, "default", patch})});
  for (std::size_t done = 0; done < kTenantsMax;) {
    std::vector<Command> commands;
    for (; done < kTenantsMax && commands.size() < 1024; ++done) {
      commands.push_back(Of(AcquireOf("a", "r"), "p" + std::to_string(done)));
    }
    Apply(std::move(commands));
  }
  const auto one_more = [&] {
    return Apply({Of(AcquireOf("b", "r"), "one-more")}).outcomes[0].index();
  };
  const Outcome& refused = Apply({Of(AcquireOf("b", "r"), "one-more")}).outcomes[0];
  EXPECT_EQ(std::get<Refused>(refused).code, RefusalCode::kStateFull);
  EXPECT_EQ(std::get<Refused>(refused).limit, "tenants=" + std::to_string(kTenantsMax));
  for (int i = 0; i < 60; ++i) {
    Apply({}, Seconds(1));
  }
  EXPECT_EQ(one_more(), Outcome(Granted{}).index());
  EXPECT_EQ(Counts().request_ids, 1U);
}

// Admit answers for the state as it is; a batch may hold several changes that were admitted one by
// one.
TEST_F(MachineTest, AdmitKnowsThePolicyOfTheNamespace) {
  Acquire acquire = AcquireOf("a", "r");
  acquire.ttl = Seconds(601);
  const Status too_long = machine_.Admit(Of(acquire));
  ASSERT_FALSE(too_long.ok());
  EXPECT_EQ(too_long.error().field, "ttl");
  Command elsewhere = Of(acquire);
  elsewhere.name_space = "elsewhere";
  EXPECT_EQ(machine_.Admit(elsewhere).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(machine_.Admit(Command{"", "", Detach{1, 1}}).ok());
}

// An acquire that was admitted before the policy became narrower is applied within the new one.
TEST_F(MachineTest, WhatWasAdmittedIsAppliedWithinThePolicy) {
  PolicyPatch patch;
  patch.ttl_max = Seconds(40);
  Acquire acquire = AcquireOf("a", "r");
  acquire.ttl = Seconds(600);
  Apply({Of(ChangeNamespace{NamespaceVerb::kSet, "default", patch}), Of(acquire)});
  EXPECT_EQ(std::get<Granted>(applied_.outcomes[1]).ttl, Seconds(40));
}

// What a recovery with lost state must wait for: also leases and sessions with a ttl that the
// policy would not give any more, since they may have been renewed in what was lost.
TEST_F(MachineTest, TheLongestPromiseCountsWhatIsHeldUnderAnOlderPolicy) {
  EXPECT_EQ(machine_.LongestPromise(), Policy{}.ttl_max + Policy{}.lock_delay);
  Acquire acquire = AcquireOf("a", "r");
  acquire.ttl = Seconds(500);
  OpenSession open;
  open.request_id = "s";
  open.ttl = Seconds(600);
  open.session_id = NextId();
  const Id128 session = open.session_id;
  PolicyPatch patch;
  patch.ttl_max = Seconds(40);
  patch.lock_delay = Seconds(3);
  Apply({Of(std::move(acquire)), Of(std::move(open)),
         Of(ChangeNamespace{NamespaceVerb::kSet, "default", patch})});
  EXPECT_EQ(machine_.LongestPromise(), Seconds(603));
  Apply({Of(CloseSession{session})});
  EXPECT_EQ(machine_.LongestPromise(), Seconds(503));
}

TEST_F(MachineTest, TimeLeftOrdersRenewals) {
  Acquire acquire = AcquireOf("a", "r");
  acquire.ttl = Seconds(10);
  const Id128 lease = acquire.lease_id;
  OpenSession open;
  open.request_id = "s";
  open.session_id = NextId();
  const Id128 session = open.session_id;
  Apply({Of(std::move(acquire)), Of(std::move(open))});
  Apply({}, Seconds(1));
  EXPECT_EQ(machine_.TimeLeft(Of(Renew{"a", lease})), Seconds(9));
  EXPECT_EQ(machine_.TimeLeft(Of(Renew{"a", session})), Duration{});
  EXPECT_EQ(machine_.TimeLeft(Of(KeepAlive{session})), Seconds(29));
  EXPECT_EQ(machine_.TimeLeft(Of(KeepAlive{lease})), Duration{});
}

}  // namespace
}  // namespace holdfast::core
