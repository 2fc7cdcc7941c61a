#include "engine/watch_hub.h"

#include <gtest/gtest.h>

namespace holdfast::engine {
namespace {

std::vector<core::Event> EventOn(const std::string& resource) {
  core::Event event;
  event.kind = core::EventKind::kGranted;
  event.name_space = "default";
  event.resource = resource;
  return {event};
}

void Publish(WatchHub& hub, std::uint64_t index, const std::string& resource) {
  std::vector<core::Event> events = EventOn(resource);
  hub.Publish(index, {}, events);
}

std::string ResourceOf(const WatchItem& item) {
  return std::get<WatchedEvent>(item).event->resource;
}

TEST(WatchHub, ExactAndPrefixWatchersSeeOnlyTheirs) {
  WatchHub hub;
  int woken = 0;
  const auto exact = hub.Subscribe(WatchFilter{"default", "a/b", true}, 0, [&] { ++woken; });
  const auto prefix = hub.Subscribe(WatchFilter{"default", "a/", false}, 0, [] {});
  const auto elsewhere = hub.Subscribe(WatchFilter{"other", "a/", false}, 0, [] {});
  Publish(hub, 1, "a/b");
  Publish(hub, 2, "a/bc");
  Publish(hub, 3, "b");
  EXPECT_EQ(hub.Take(exact.id, 10).size(), 1U);
  EXPECT_EQ(hub.Take(prefix.id, 10).size(), 2U);
  EXPECT_TRUE(hub.Take(elsewhere.id, 10).empty());
  EXPECT_EQ(woken, 1);
  hub.Unsubscribe(exact.id);
  Publish(hub, 4, "a/b");
  EXPECT_EQ(woken, 1);
  EXPECT_EQ(hub.watchers(), 2U);
}

TEST(WatchHub, ASlowWatcherGetsOneGapAndThenEverythingAfterIt) {
  WatchHub hub;
  const auto slow = hub.Subscribe(WatchFilter{"default", "", false}, 0, [] {});
  const std::uint64_t many = WatchHub::kBufferMax + 100;
  for (std::uint64_t index = 1; index <= many; ++index) {
    Publish(hub, index, "r" + std::to_string(index));
  }
  const std::vector<WatchItem> items = hub.Take(slow.id, 10'000);
  ASSERT_FALSE(items.empty());
  const std::uint64_t gap = std::get<WatchGap>(items.front()).index;
  EXPECT_EQ(items.size() - 1, many - gap);
  for (std::size_t i = 1; i < items.size(); ++i) {
    EXPECT_EQ(std::get<WatchedEvent>(items[i]).index, gap + i);
  }
}

TEST(WatchHub, AWatcherThatComesBackContinuesWhereItWasOrStartsWithAGap) {
  WatchHub hub;
  hub.StartAt(100);
  Publish(hub, 101, "a");
  Publish(hub, 102, "b");
  const auto back = hub.Subscribe(WatchFilter{"default", "", false}, 101, [] {});
  const std::vector<WatchItem> items = hub.Take(back.id, 10);
  ASSERT_EQ(items.size(), 1U);
  EXPECT_EQ(ResourceOf(items.front()), "b");
  const auto old = hub.Subscribe(WatchFilter{"default", "", false}, 50, [] {});
  const std::vector<WatchItem> with_gap = hub.Take(old.id, 10);
  ASSERT_EQ(with_gap.size(), 3U);
  EXPECT_EQ(std::get<WatchGap>(with_gap.front()).index, 100U);
}

TEST(WatchHub, TheNumberOfWatchersIsBounded) {
  WatchHub hub;
  for (std::size_t i = 0; i < WatchHub::kWatchersMax; ++i) {
    ASSERT_NE(hub.Subscribe(WatchFilter{"default", "x", true}, 0, [] {}).id, 0U);
  }
  EXPECT_EQ(hub.Subscribe(WatchFilter{"default", "x", true}, 0, [] {}).id, 0U);
}

}  // namespace
}  // namespace holdfast::engine
