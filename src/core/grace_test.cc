#include "core/grace.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace holdfast::core {
namespace {

Timestamp At(Duration time) {
  return Timestamp(time);
}

// Everything that was due before has been processed.
void Add(EpochFloors& floors, Timestamp at, Duration grace) {
  floors.Add(at, grace, at);
}

TEST(EpochFloors, WithoutEpochsTheDeadlineStands) {
  EXPECT_EQ(EpochFloors().Effective(At(Seconds(30)), At(Seconds(0)), Seconds(30)), At(Seconds(30)));
}

TEST(EpochFloors, OneStartGivesAtMostItsGraceAndThePromise) {
  EpochFloors floors;
  Add(floors, At(Seconds(25)), Seconds(10));
  EXPECT_EQ(floors.Effective(At(Seconds(30)), At(Seconds(0)), Seconds(30)), At(Seconds(35)));
  EXPECT_EQ(floors.Effective(At(Seconds(60)), At(Seconds(0)), Seconds(60)), At(Seconds(60)))
      << "reaches further by itself";
  EXPECT_EQ(floors.Effective(At(Seconds(26)), At(Seconds(24)), Seconds(2)), At(Seconds(27)))
      << "a promise of 2 s";
  EXPECT_EQ(floors.Effective(At(Seconds(24)), At(Seconds(0)), Seconds(24)), At(Seconds(24)))
      << "was over";
  EXPECT_EQ(floors.Effective(At(Seconds(25)), At(Seconds(0)), Seconds(25)), At(Seconds(35)))
      << "its last moment";
  EXPECT_EQ(floors.Effective(At(Seconds(31)), At(Seconds(26)), Seconds(5)), At(Seconds(31)))
      << "renewed since";
}

TEST(EpochFloors, ManyStartsGiveNoMoreThanOneGraceInTotal) {
  EpochFloors floors;
  for (int i = 0; i < 16; ++i) {
    Add(floors, At(Seconds(25) + Seconds(i)), Seconds(10));
  }
  EXPECT_EQ(floors.Effective(At(Seconds(30)), At(Seconds(0)), Seconds(30)), At(Seconds(40)));
}

TEST(EpochFloors, StartsAtOneInstantAreOne) {
  EpochFloors floors;
  Add(floors, At(Seconds(5)), Seconds(1));
  Add(floors, At(Seconds(5)), Seconds(3));
  Add(floors, At(Seconds(5)), Seconds(2));
  ASSERT_EQ(floors.starts().size(), 1U);
  EXPECT_EQ(floors.starts().front().grace, Seconds(3));
}

// The same rule over all starts that ever were, without forgetting any.
Timestamp Naive(const std::vector<EpochFloors::Start>& starts, Timestamp deadline,
                Timestamp renewed_at, Duration promise) {
  Timestamp end = deadline;
  for (const EpochFloors::Start& start : starts) {
    if (renewed_at <= start.at && start.at <= end) {
      const Duration grace = std::min(promise, start.grace);
      end = std::max(end, std::min(start.at, deadline) + grace);
    }
  }
  return end;
}

struct Promise {
  Timestamp deadline;
  Timestamp renewed_at;
  Duration length;
};

// Draws starts and promises, and calls `judge(naive end, end, promise, now)` for each promise that
// is alive.
template <typename Judge>
void Compare(std::uint32_t seed, Duration longest_gap, const Judge& judge) {
  std::mt19937 random(seed);
  const auto below = [&](Duration limit) {
    return Duration(
        static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(limit.count())));
  };
  EpochFloors floors;
  std::vector<EpochFloors::Start> all;
  std::vector<Promise> promises;
  Timestamp now{};
  for (int step = 0; step < 200; ++step) {
    now += below(longest_gap);
    const Duration length = Millis(100) + below(Seconds(60));
    promises.push_back(Promise{now + length, now, length});
    now += below(longest_gap);
    const Duration grace = below(Seconds(30));
    all.push_back(EpochFloors::Start{now, now, grace});
    Add(floors, now, grace);
    for (const Promise& promise : promises) {
      const Timestamp naive = Naive(all, promise.deadline, promise.renewed_at, promise.length);
      if (naive >= now) {
        judge(naive, floors.Effective(promise.deadline, promise.renewed_at, promise.length),
              promise);
      }
    }
  }
}

TEST(EpochFloors, ForgettingOldStartsChangesNoLivingPromise) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    Compare(seed, Seconds(4), [&](Timestamp naive, Timestamp end, const Promise&) {
      ASSERT_EQ(end, naive) << "seed " << seed;
    });
  }
}

// I7: whoever was promised something keeps it, also when the service restarts every few
// milliseconds.
TEST(EpochFloors, ACrashLoopShortensNoPromiseAndStaysBounded) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    Compare(seed, Millis(100), [&](Timestamp naive, Timestamp end, const Promise& promise) {
      ASSERT_GE(end, naive) << "seed " << seed;
      ASSERT_LE(end, promise.deadline + std::min(promise.length, Seconds(30))) << "seed " << seed;
    });
  }
}

TEST(EpochFloors, KeepsNoMoreThanItsLimit) {
  EpochFloors floors;
  for (int i = 0; i < 1000; ++i) {
    Add(floors, At(Millis(i)), Seconds(60));
  }
  EXPECT_EQ(floors.starts().size(), kEpochStartsKept);
}

}  // namespace
}  // namespace holdfast::core
