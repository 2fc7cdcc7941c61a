#include "core/timers.h"

#include <vector>

#include <gtest/gtest.h>

namespace holdfast::core {
namespace {

Timestamp At(std::int64_t seconds) {
  return Timestamp(Seconds(seconds));
}

TEST(Timers, PopsByDeadlineThenKindThenNumberWhateverTheOrderOfSetting) {
  Timers timers;
  timers.Set(Timer{At(2), TimerKind::kLease, 1, 10});
  timers.Set(Timer{At(1), TimerKind::kWait, 1, 11});
  timers.Set(Timer{At(1), TimerKind::kLease, 7, 12});
  timers.Set(Timer{At(1), TimerKind::kLease, 3, 13});
  timers.Set(Timer{At(1), TimerKind::kSession, 2, 14});
  std::vector<Slot> order;
  while (timers.HasDue(At(3))) {
    order.push_back(timers.PopFirst().slot);
  }
  EXPECT_EQ(order, (std::vector<Slot>{13, 12, 14, 11, 10}));
  EXPECT_EQ(timers.size(), 0U);
}

TEST(Timers, IsDueOnlyAfterItsDeadline) {
  Timers timers;
  EXPECT_FALSE(timers.HasDue(At(100)));
  timers.Set(Timer{At(5), TimerKind::kDelay, 1, 1});
  EXPECT_FALSE(timers.HasDue(At(5)));
  EXPECT_TRUE(timers.HasDue(At(5) + Duration(1)));
}

TEST(Timers, CancelNeedsNoSlotAndTakesOnlyItsOwn) {
  Timers timers;
  timers.Set(Timer{At(5), TimerKind::kWait, 1, 1});
  timers.Set(Timer{At(5), TimerKind::kDetach, 1, 1});
  timers.Set(Timer{At(5), TimerKind::kWait, 2, 2});
  timers.Cancel(At(5), TimerKind::kWait, 1);
  timers.Cancel(At(4), TimerKind::kDetach, 1);
  EXPECT_FALSE(timers.Has(At(5), TimerKind::kWait, 1));
  EXPECT_TRUE(timers.Has(At(5), TimerKind::kDetach, 1));
  EXPECT_TRUE(timers.Has(At(5), TimerKind::kWait, 2));
}

TEST(Timers, FirstIsTheOldestOrTheGivenOne) {
  Timers timers;
  EXPECT_EQ(timers.First(At(9)), At(9));
  timers.Set(Timer{At(5), TimerKind::kWait, 1, 1});
  EXPECT_EQ(timers.First(At(9)), At(5));
}

}  // namespace
}  // namespace holdfast::core
