// Planted bugs of the core against the history checker: each must go red on the shortest history
// that shows it, without any look into the state. Random histories against the same bugs:
// tests/model.
#include "base/planted.h"

#include <string>

#include <gtest/gtest.h>

#include "check/history_checker.h"
#include "core/limits.h"
#include "core/machine.h"

#ifdef HOLDFAST_PLANTED_BUGS

namespace holdfast::check {
namespace {

Id128 IdOf(std::uint32_t number) {
  Id128 id{};
  for (std::size_t i = 0; i < 4; ++i) {
    id[i] = static_cast<std::uint8_t>(number >> (8 * i));
  }
  return id;
}

core::Acquire AcquireOf(const std::string& resource, std::uint32_t lease, Duration wait = {}) {
  core::Acquire acquire;
  acquire.resource = resource;
  acquire.request_id = "r" + std::to_string(lease);
  acquire.owner = "o";
  acquire.ttl = Seconds(10);
  acquire.wait = wait;
  acquire.lease_id = IdOf(lease);
  return acquire;
}

class PlantedTest : public testing::Test {
 protected:
  void Run(std::vector<core::CommandBody> bodies, Duration step = {}) {
    core::Batch batch;
    batch.index = ++index_;
    batch.time = machine_->now() + step;
    for (core::CommandBody& body : bodies) {
      batch.commands.push_back(core::Command{"p", "default", std::move(body)});
    }
    machine_->Apply(batch, applied_);
    violation_ = history_.Observe(batch, applied_, machine_->HasBacklog());
  }

  void Advance(int seconds) {
    for (int i = 0; i < 5 * seconds; ++i) {
      Run({}, Millis(200));
    }
  }

  // The history is right without the bug, and wrong with it.
  template <typename History>
  void ExpectCaught(Bug bug, const std::string& rule, const History& history) {
    history();
    EXPECT_EQ(violation_, "");
    index_ = 0;
    machine_ = std::make_unique<core::Machine>();
    history_ = HistoryChecker();
    const PlantBug plant(bug);
    history();
    EXPECT_EQ(violation_.substr(0, rule.size()), rule) << violation_;
  }

  std::uint64_t index_ = 0;
  std::unique_ptr<core::Machine> machine_ = std::make_unique<core::Machine>();
  core::Applied applied_;
  HistoryChecker history_;
  std::string violation_;
};

TEST_F(PlantedTest, OldLeaseReleases) {
  ExpectCaught(Bug::kOldLeaseReleases, "I4", [&] {
    Run({AcquireOf("a", 1), AcquireOf("a", 2, Seconds(60)), core::Release{"a", IdOf(1)}});
    Run({core::Release{"a", IdOf(1)}});
  });
}

TEST_F(PlantedTest, TokenPerResource) {
  ExpectCaught(Bug::kTokenPerResource, "I2", [&] { Run({AcquireOf("a", 1), AcquireOf("b", 2)}); });
}

// Only a backlog shows it: without one, what is over has ended before the next renewal comes.
TEST_F(PlantedTest, ExpiredRenews) {
  ExpectCaught(Bug::kExpiredRenews, "I4", [&] {
    const auto many = static_cast<std::uint32_t>(core::kDuePerBatchMax) + 1;
    std::vector<core::CommandBody> acquires;
    for (std::uint32_t i = 1; i <= many; ++i) {
      acquires.push_back(AcquireOf("a" + std::to_string(i), i));
    }
    Run(std::move(acquires));
    Advance(10);
    Run({}, Millis(200));
    Run({core::Renew{"a" + std::to_string(many), IdOf(many)}});
  });
}

TEST_F(PlantedTest, WakesDetached) {
  ExpectCaught(Bug::kWakesDetached, "I9", [&] {
    Run({AcquireOf("a", 1), AcquireOf("a", 2, Seconds(60))});
    Run({core::Detach{1, 1}});
    Run({core::Release{"a", IdOf(1)}});
  });
}

TEST_F(PlantedTest, ForgetsRefusals) {
  ExpectCaught(Bug::kForgetsRefusals, "I6", [&] {
    Run({AcquireOf("a", 1), AcquireOf("a", 2)});
    Run({core::Release{"a", IdOf(1)}});
    Run({AcquireOf("a", 2)});
  });
}

TEST_F(PlantedTest, GraceUnbounded) {
  ExpectCaught(Bug::kGraceUnbounded, "I7", [&] {
    Run({AcquireOf("a", 1)});
    for (int i = 0; i < 10; ++i) {
      Advance(5);
      Run({core::EpochStart{static_cast<std::uint64_t>(i), Seconds(10)}});
    }
  });
}

TEST_F(PlantedTest, LateCancelEndsLease) {
  ExpectCaught(Bug::kLateCancelEndsLease, "I7", [&] {
    Run({AcquireOf("a", 1)});
    Run({core::Cancel{"a", "r1", "o", {}}});
  });
}

TEST_F(PlantedTest, SnapshotForgetsRequests) {
  ExpectCaught(Bug::kSnapshotForgetsRequests, "I6", [&] {
    Run({AcquireOf("a", 1), core::Release{"a", IdOf(1)}});
    std::string bytes;
    machine_->Save([&](std::string_view piece) { bytes.append(piece); });
    machine_ = std::move(core::Machine::Load(bytes).value());
    core::Acquire again = AcquireOf("a", 1);
    again.lease_id = IdOf(2);
    Run({again});
  });
}

}  // namespace
}  // namespace holdfast::check

#endif
