#include "client/observe.h"

#include <gtest/gtest.h>

#include "client/test_stage.h"

namespace holdfast::client {
namespace {

LeaderInfo Leader(std::uint64_t index, std::uint64_t token, const std::string& value = "v") {
  LeaderInfo info;
  info.vacant = false;
  info.index = index;
  info.fencing_token = token;
  info.value = value;
  return info;
}
LeaderInfo Vacant(std::uint64_t index) {
  LeaderInfo info;
  info.index = index;
  return info;
}

TEST(LeaderObserver, LetsThroughRisingTokensNewValuesAndVacancyOnce) {
  struct Step {
    LeaderInfo info;
    bool news;
  };
  const Step steps[] = {
      {Vacant(1), true},          {Vacant(2), false},
      {Leader(3, 10), true},      {Leader(3, 10), false},       // the same after a reconnect
      {Leader(4, 10, "w"), true},                               // proclaimed anew
      {Leader(2, 9), false},                                    // from an endpoint that lags behind
      {Vacant(5), true},          {Leader(4, 10, "w"), false},  // old
      {Leader(6, 10), false},                                   // a token never leads twice
      {Leader(7, 12), true},                                    // leaders may be skipped
      {Leader(8, 11), false},     {Leader(9, 13), true},
  };
  LeaderObserver observer;
  for (std::size_t i = 0; i < std::size(steps); ++i) {
    EXPECT_EQ(observer.Accept(steps[i].info), steps[i].news) << "step " << i;
  }
}

WatchItem Event(std::uint64_t index) {
  WatchEvent event;
  event.index = index;
  return event;
}

TEST(WatchCursor, GoesOnInTheMiddleOfALogPosition) {
  WatchCursor cursor(0);
  EXPECT_EQ(cursor.after_index(), 0U);
  EXPECT_TRUE(cursor.Accept(WatchStarted{5}));
  EXPECT_EQ(cursor.after_index(), 5U);
  EXPECT_TRUE(cursor.Accept(Event(7)));
  EXPECT_TRUE(cursor.Accept(Event(8)));
  EXPECT_TRUE(cursor.Accept(Event(8)));
  // Position 8 had three events, and the stream broke after two of them.
  EXPECT_EQ(cursor.after_index(), 7U);
  cursor.Restart();
  EXPECT_FALSE(cursor.Accept(WatchStarted{7}));
  EXPECT_FALSE(cursor.Accept(Event(8)));
  EXPECT_FALSE(cursor.Accept(Event(8)));
  EXPECT_TRUE(cursor.Accept(Event(8)));
  EXPECT_TRUE(cursor.Accept(Event(9)));
  EXPECT_EQ(cursor.after_index(), 8U);
}

TEST(WatchCursor, AGapMovesItOn) {
  WatchCursor cursor(3);
  EXPECT_TRUE(cursor.Accept(Event(4)));
  EXPECT_TRUE(cursor.Accept(WatchGap{20}));
  EXPECT_EQ(cursor.after_index(), 20U);
  cursor.Restart();
  EXPECT_TRUE(cursor.Accept(Event(21)));
}

TEST(StreamRetry, PausesGrowEndWithAMessageAndChangeTheEndpoint) {
  SeededRandom random(1);
  CallShared shared(random, 2);
  StreamRetry retry(shared);
  const BootTime now{Seconds(1000)};
  Duration longest{};
  for (int i = 0; i < 10; ++i) {
    const std::size_t endpoint = retry.endpoint();
    const auto next = retry.OnEnd(endpoint, Unknown(), now);
    ASSERT_TRUE(next.has_value());
    longest = std::max(longest, *next - now);
    EXPECT_NE(retry.endpoint(), endpoint);
  }
  EXPECT_GE(longest, Millis(2500));
  EXPECT_LE(longest, Seconds(5));
  retry.OnMessage();
  EXPECT_LE(*retry.OnEnd(retry.endpoint(), Unknown(), now) - now, Millis(100));
  EXPECT_FALSE(retry.OnEnd(retry.endpoint(), Final(), now).has_value());
}

}  // namespace
}  // namespace holdfast::client
