#include "bench/client_ids.h"

#include <gtest/gtest.h>

namespace holdfast::bench {
namespace {

TEST(ClientIds, WatermarkStopsAtTheFirstUnansweredRequest) {
  ClientIds ids;
  EXPECT_EQ(ids.Begin(), 1U);
  EXPECT_EQ(ids.Begin(), 2U);
  EXPECT_EQ(ids.Begin(), 3U);
  EXPECT_EQ(ids.answered_below(), 1U);
  ids.Answered(2);
  EXPECT_EQ(ids.answered_below(), 1U);
  ids.Answered(1);
  EXPECT_EQ(ids.answered_below(), 3U);
  EXPECT_EQ(ids.Begin(), 4U);
  ids.Answered(3);
  ids.Answered(4);
  EXPECT_EQ(ids.answered_below(), 5U);
}

TEST(ClientIds, RequestIdsAreDistinctAndFitTheApi) {
  ClientIds one;
  ClientIds other;
  EXPECT_NE(one.RequestId(1), one.RequestId(2));
  EXPECT_NE(one.RequestId(1), other.RequestId(1));
  EXPECT_LE(one.RequestId(~std::uint64_t{0}).size(), 64U);
  EXPECT_EQ(one.client_id().size(), 32U);
}

}  // namespace
}  // namespace holdfast::bench
