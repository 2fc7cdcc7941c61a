#include "exec/supervision.h"

#include <cerrno>
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace holdfast::exec {
namespace {

using Kind = Step::Kind;
using testing::ElementsAre;
using testing::IsEmpty;

const Step kTerm{Kind::kSignalAll, SIGTERM};
const Step kCont{Kind::kSignalAll, SIGCONT};
const Step kKill{Kind::kSignalAll, SIGKILL};
const Step kStragglers{Kind::kStragglers, 0};
const Step kFinish{Kind::kFinish, 0};

constexpr BootTime At(std::int64_t millis) {
  return BootTime(Millis(millis));
}

// A command under a lease with the local deadline 10 s, 2 s of grace and 500 ms to be gone.
class SupervisionTest : public testing::Test {
 protected:
  std::vector<Step> StepsAt(std::int64_t millis) {
    supervision_.Advance(At(millis));
    return supervision_.TakeSteps();
  }

  Supervision supervision_{{.grace = Millis(2000), .kill = Millis(500)}, At(10'000), false};
};

TEST_F(SupervisionTest, RunsUntilTheDeadline) {
  EXPECT_EQ(supervision_.NextWake(), At(10'000));
  EXPECT_THAT(StepsAt(9'999), IsEmpty());
  EXPECT_EQ(supervision_.reason(), StopReason::kNone);
  EXPECT_THAT(StepsAt(10'000), ElementsAre(kTerm, kCont));
  EXPECT_EQ(supervision_.reason(), StopReason::kDeadline);
}

TEST_F(SupervisionTest, KillsWhenTheGraceAfterTheDeadlineIsOver) {
  StepsAt(10'000);
  EXPECT_EQ(supervision_.NextWake(), At(12'000));
  EXPECT_THAT(StepsAt(11'999), IsEmpty());
  EXPECT_THAT(StepsAt(12'000), ElementsAre(kKill));
}

TEST_F(SupervisionTest, ALateWakeUpTakesNothingFromTheBudget) {
  EXPECT_THAT(StepsAt(11'500), ElementsAre(kTerm, kCont));
  EXPECT_EQ(supervision_.NextWake(), At(12'000));
}

TEST_F(SupervisionTest, KillsAtOnceAfterASuspensionBeyondTheGrace) {
  EXPECT_THAT(StepsAt(60'000), ElementsAre(kKill));
  EXPECT_EQ(supervision_.reason(), StopReason::kDeadline);
}

TEST_F(SupervisionTest, ARenewalMovesTheDeadlineAndNeverBack) {
  supervision_.OnLease(At(20'000));
  supervision_.OnLease(At(15'000));
  EXPECT_THAT(StepsAt(19'999), IsEmpty());
  EXPECT_THAT(StepsAt(20'000), ElementsAre(kTerm, kCont));
}

TEST_F(SupervisionTest, ARenewalAfterStoppingBeganChangesNothing) {
  StepsAt(10'000);
  supervision_.OnLease(At(20'000));
  EXPECT_THAT(StepsAt(12'000), ElementsAre(kKill));
  EXPECT_EQ(supervision_.reason(), StopReason::kDeadline);
}

TEST_F(SupervisionTest, KillsAgainUntilNobodyIsLeftAndSaysSoOnce) {
  StepsAt(10'000);
  std::size_t kills = 0;
  std::size_t complaints = 0;
  for (BootTime now = At(12'000); now < At(14'000); now = supervision_.NextWake()) {
    supervision_.Advance(now);
    for (const Step& step : supervision_.TakeSteps()) {
      kills += step == kKill ? 1 : 0;
      complaints += step == kStragglers ? 1 : 0;
      EXPECT_EQ(step == kStragglers, step != kKill);
      EXPECT_TRUE(step != kStragglers || now == At(12'500));
    }
    ASSERT_GT(supervision_.NextWake(), now);
    EXPECT_LE(supervision_.NextWake() - now, Millis(100));
  }
  EXPECT_GT(kills, 10u);
  EXPECT_EQ(complaints, 1u);
  supervision_.OnNobodyLeft();
  EXPECT_THAT(StepsAt(14'100), ElementsAre(kFinish));
}

TEST_F(SupervisionTest, ALeaseThatIsOverEarlyLeavesNoGrace) {
  supervision_.OnLost(At(3'000));
  EXPECT_THAT(StepsAt(3'000), ElementsAre(kKill));
  EXPECT_EQ(supervision_.reason(), StopReason::kLost);
}

TEST_F(SupervisionTest, LostAtTheDeadlineIsTheDeadline) {
  supervision_.OnLost(At(10'000));
  EXPECT_THAT(StepsAt(10'000), ElementsAre(kTerm, kCont));
  EXPECT_EQ(supervision_.reason(), StopReason::kDeadline);
  EXPECT_EQ(supervision_.NextWake(), At(12'000));
}

TEST_F(SupervisionTest, StopsAtOnceWhenTheLeaseCannotBeRenewed) {
  supervision_.OnRevoked(At(1'000));
  EXPECT_THAT(StepsAt(1'000), ElementsAre(kTerm, kCont));
  EXPECT_EQ(supervision_.NextWake(), At(3'000));
  EXPECT_TRUE(MeansOwnershipLost(supervision_.reason()));
  supervision_.OnLost(At(2'000));
  EXPECT_THAT(StepsAt(2'000), ElementsAre(kKill));
}

TEST_F(SupervisionTest, EndsTheCommandWhenTheWrapperIsGone) {
  supervision_.OnWrapperGone(At(1'000));
  EXPECT_THAT(StepsAt(1'000), ElementsAre(kTerm, kCont));
  EXPECT_THAT(StepsAt(3'000), ElementsAre(kKill));
  EXPECT_FALSE(MeansOwnershipLost(supervision_.reason()));
}

TEST_F(SupervisionTest, StopsWhatACommandLeavesBehind) {
  supervision_.OnCommandEnded(At(1'000));
  EXPECT_THAT(StepsAt(1'000), IsEmpty());
  EXPECT_EQ(supervision_.NextWake(), At(3'000));
  EXPECT_THAT(StepsAt(3'000), ElementsAre(kTerm, kCont));
  supervision_.OnLease(At(20'000));
  EXPECT_THAT(StepsAt(5'000), ElementsAre(kKill));
  supervision_.OnNobodyLeft();
  EXPECT_THAT(StepsAt(5'005), ElementsAre(kFinish));
  EXPECT_EQ(supervision_.reason(), StopReason::kCommandEnded);
}

TEST_F(SupervisionTest, WhatIsLeftBehindMayEndByItself) {
  supervision_.OnCommandEnded(At(1'000));
  EXPECT_THAT(StepsAt(1'999), IsEmpty());
  supervision_.OnNobodyLeft();
  EXPECT_THAT(StepsAt(2'000), ElementsAre(kFinish));
}

TEST_F(SupervisionTest, WhatIsLeftBehindEndsWithTheLease) {
  supervision_.OnCommandEnded(At(9'000));
  EXPECT_EQ(supervision_.NextWake(), At(10'000));
  EXPECT_THAT(StepsAt(10'000), ElementsAre(kTerm, kCont));
  EXPECT_THAT(StepsAt(12'000), ElementsAre(kKill));
  EXPECT_FALSE(MeansOwnershipLost(supervision_.reason()));
}

TEST_F(SupervisionTest, ACommandThatLeavesNobodyBehindIsSimplyOver) {
  supervision_.OnCommandEnded(At(1'000));
  supervision_.OnNobodyLeft();
  EXPECT_THAT(StepsAt(1'000), ElementsAre(kFinish));
  EXPECT_EQ(supervision_.NextWake(), BootTime::max());
  EXPECT_THAT(StepsAt(60'000), IsEmpty());
}

TEST_F(SupervisionTest, ACommandThatEndsJustBeforeTheDeadlineWasCovered) {
  supervision_.OnCommandEnded(At(9'999));
  supervision_.OnLost(At(10'000));
  EXPECT_THAT(StepsAt(10'000), ElementsAre(kTerm, kCont));
  supervision_.OnNobodyLeft();
  EXPECT_FALSE(MeansOwnershipLost(supervision_.reason()));
}

TEST_F(SupervisionTest, ACommandThatEndsOnBeingStoppedLostItsLease) {
  StepsAt(10'000);
  supervision_.OnCommandEnded(At(10'100));
  supervision_.OnNobodyLeft();
  EXPECT_THAT(StepsAt(10'100), ElementsAre(kFinish));
  EXPECT_EQ(supervision_.reason(), StopReason::kDeadline);
}

TEST_F(SupervisionTest, LosingTheLeaseDuringTheCleanUpIsALoss) {
  supervision_.OnCommandEnded(At(1'000));
  StepsAt(1'000);
  supervision_.OnLost(At(1'500));
  EXPECT_THAT(StepsAt(1'500), ElementsAre(kKill));
  EXPECT_TRUE(MeansOwnershipLost(supervision_.reason()));
}

TEST_F(SupervisionTest, PassesSignalsOnWhileTheCommandRuns) {
  supervision_.OnSignal(SIGUSR1);
  supervision_.OnSignal(SIGTERM);
  EXPECT_THAT(StepsAt(1'000),
              ElementsAre(Step{Kind::kSignalGroup, SIGUSR1}, Step{Kind::kSignalGroup, SIGTERM}));
  StepsAt(10'000);
  supervision_.OnSignal(SIGINT);
  EXPECT_THAT(StepsAt(10'001), ElementsAre(Step{Kind::kSignalGroup, SIGINT}));
  EXPECT_EQ(supervision_.reason(), StopReason::kDeadline);
}

TEST_F(SupervisionTest, NeverSignalsAGroupWhoseLeaderWasReaped) {
  supervision_.OnSignal(SIGUSR1);
  supervision_.OnCommandEnded(At(1'000));
  supervision_.OnSignal(SIGUSR2);
  EXPECT_THAT(StepsAt(1'000), IsEmpty());
}

TEST_F(SupervisionTest, ASuspendedCommandSuspendsItsWrapperOnlyAtATerminal) {
  supervision_.OnCommandStopped();
  EXPECT_THAT(StepsAt(1'000), IsEmpty());
  Supervision job({.grace = Millis(2000), .kill = Millis(500)}, At(10'000), true);
  job.OnCommandStopped();
  EXPECT_THAT(job.TakeSteps(), ElementsAre(Step{Kind::kSuspend, 0}));
  job.Advance(At(10'000));
  EXPECT_THAT(job.TakeSteps(), ElementsAre(kTerm, kCont));
}

TEST(ExitCodes, AreThoseOfTimeout) {
  EXPECT_EQ(ExitCodeOfStatus(7 << 8), 7);
  EXPECT_EQ(ExitCodeOfStatus(SIGTERM), 143);
  EXPECT_EQ(ExitCodeOfStatus(SIGKILL), 137);
  EXPECT_EQ(ExitCodeOfExecError(ENOENT), 127);
  EXPECT_EQ(ExitCodeOfExecError(EACCES), 126);
  EXPECT_EQ(ExitCodeOfExecError(ENOEXEC), 126);
}

}  // namespace
}  // namespace holdfast::exec
