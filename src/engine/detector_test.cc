#include "engine/detector.h"

#include <gtest/gtest.h>

namespace holdfast::engine {
namespace {

constexpr BootTime kStart{Seconds(100)};

// A log that goes on every `interval`, `count` times.
BootTime Feed(Detector& detector, BootTime from, Duration interval, int count) {
  detector.Restart(from);
  for (int i = 0; i < count; ++i) {
    from += interval;
    detector.Heard(from);
  }
  return from;
}

// After which silence it suspects the leader.
Duration PatienceOf(const Detector& detector, BootTime last) {
  Duration silence{};
  while (!detector.Suspects(last + silence) && silence < Seconds(30)) {
    silence += Millis(10);
  }
  return silence;
}

TEST(Detector, PhiRisesWithSilence) {
  Detector detector{DetectorOptions{}};
  const BootTime last = Feed(detector, kStart, Millis(200), 50);
  double before = detector.Phi(last);
  for (Duration silence = Millis(50); silence < Seconds(2); silence += Millis(50)) {
    const double now = detector.Phi(last + silence);
    EXPECT_GE(now, before);
    before = now;
  }
  EXPECT_LT(detector.Phi(last + Millis(300)), 2.0);
  EXPECT_GT(detector.Phi(last + Seconds(1)), 8.0);
}

TEST(Detector, SuspectsWithinASecondOfARegularLogAndNotBeforeThreeTicks) {
  Detector detector{DetectorOptions{}};
  const BootTime last = Feed(detector, kStart, Millis(200), 50);
  EXPECT_GE(PatienceOf(detector, last), Millis(550));
  EXPECT_LE(PatienceOf(detector, last), Millis(900));
}

TEST(Detector, ABusyLogDoesNotMakeItHasty) {
  Detector detector{DetectorOptions{}};
  const BootTime last = Feed(detector, kStart, Millis(4), 1000);
  EXPECT_GE(PatienceOf(detector, last), Millis(550));
}

TEST(Detector, AnIrregularLogMakesItPatientWithinABound) {
  Detector regular{DetectorOptions{}};
  Detector irregular{DetectorOptions{}};
  const BootTime last = Feed(regular, kStart, Millis(200), 50);
  BootTime at = kStart;
  irregular.Restart(at);
  for (int i = 0; i < 50; ++i) {
    at += i % 5 == 0 ? Seconds(60) : Millis(200);  // an outage counts as a second
    irregular.Heard(at);
  }
  const Duration patient = PatienceOf(irregular, at);
  EXPECT_GT(patient, PatienceOf(regular, last));
  EXPECT_LT(patient, Seconds(4));
}

TEST(Detector, ARestartForgetsTheSilence) {
  Detector detector{DetectorOptions{}};
  const BootTime last = Feed(detector, kStart, Millis(200), 50);
  ASSERT_TRUE(detector.Suspects(last + Seconds(5)));
  detector.Restart(last + Seconds(5));
  EXPECT_FALSE(detector.Suspects(last + Seconds(5) + Millis(300)));
  EXPECT_TRUE(detector.Suspects(last + Seconds(6)));
}

TEST(Detector, KnowsWhatToExpectBeforeItHasHeardMuch) {
  Detector detector{DetectorOptions{}};
  detector.Restart(kStart);
  EXPECT_FALSE(detector.Suspects(kStart + Millis(400)));
  EXPECT_TRUE(detector.Suspects(kStart + Seconds(1)));
}

}  // namespace
}  // namespace holdfast::engine
