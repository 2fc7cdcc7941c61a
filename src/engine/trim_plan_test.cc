#include "engine/trim_plan.h"

#include <gtest/gtest.h>

namespace holdfast::engine {
namespace {

PeerState Node(std::string name, std::string zone, std::uint64_t applied, std::uint64_t snapshot,
               bool alive = true) {
  PeerState node;
  node.name = std::move(name);
  node.record.zone = std::move(zone);
  node.record.applied = applied;
  node.record.snapshot_index = snapshot;
  node.alive = alive;
  return node;
}

std::uint64_t FirstOf(const std::vector<PeerState>& nodes, bool too_large = false) {
  const auto plan = PlanTrim(nodes, 1, 1000, too_large);
  return plan.has_value() ? plan->first_index : 0;
}

TEST(TrimPlan, NeedsSnapshotsInTwoZones) {
  EXPECT_EQ(
      FirstOf({Node("a", "1", 1000, 900), Node("b", "1", 1000, 900), Node("c", "2", 1000, 0)}), 0U);
  EXPECT_EQ(
      FirstOf({Node("a", "1", 1000, 900), Node("b", "2", 1000, 800), Node("c", "3", 1000, 0)}),
      801U);
  EXPECT_EQ(
      FirstOf({Node("a", "1", 1000, 900), Node("b", "2", 1000, 800), Node("c", "3", 1000, 850)}),
      851U)
      << "the two newest";
}

TEST(TrimPlan, OneZoneIsEnoughWhereOnlyOneIsConfigured) {
  EXPECT_EQ(FirstOf({Node("a", "", 1000, 900), Node("b", "", 1000, 0)}), 901U);
  EXPECT_EQ(FirstOf({}), 0U);
}

TEST(TrimPlan, WaitsForLiveStandbysButNotForDeadOnes) {
  EXPECT_EQ(FirstOf({Node("a", "1", 1000, 900), Node("b", "2", 1000, 900), Node("c", "3", 500, 0)}),
            501U);
  EXPECT_EQ(FirstOf({Node("a", "1", 1000, 900), Node("b", "2", 1000, 900),
                     Node("c", "3", 500, 0, false)}),
            901U);
}

TEST(TrimPlan, ALogThatIsTooLargeDoesNotWaitForSlowStandbysButForSnapshots) {
  EXPECT_EQ(
      FirstOf({Node("a", "1", 1000, 900), Node("b", "2", 1000, 900), Node("c", "3", 500, 0)}, true),
      901U);
  EXPECT_EQ(FirstOf({Node("a", "1", 1000, 900), Node("c", "3", 500, 0)}, true), 0U);
}

TEST(TrimPlan, ANodeCanBeLeftOutButNotItsZone) {
  const std::vector<PeerState> nodes{Node("a", "1", 1000, 900), Node("b", "2", 1000, 900)};
  EXPECT_TRUE(PlanTrim(nodes, 1, 1000, false).has_value());
  EXPECT_FALSE(PlanTrim(nodes, 1, 1000, false, "a").has_value());
}

TEST(TrimPlan, TheLastEntryStays) {
  EXPECT_EQ(FirstOf({Node("a", "", 1000, 1000)}), 1000U);
}

TEST(TrimPlan, NothingToDoIsNoPlan) {
  EXPECT_FALSE(PlanTrim({Node("a", "", 1000, 100)}, 101, 1000, false).has_value());
}

}  // namespace
}  // namespace holdfast::engine
