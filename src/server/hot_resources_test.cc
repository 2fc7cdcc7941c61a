#include "server/hot_resources.h"

#include <map>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace holdfast::server {
namespace {

constexpr auto kAnyNamespace = [](const std::string& /*name*/) { return true; };

Timestamp At(Duration time) {
  return Timestamp(time);
}

TEST(HotResourcesTest, CountsExactlyWhileThereIsRoom) {
  HotResources hot(4);
  hot.Advance(At(Seconds(100)));
  hot.Add("jobs", "a", true, true);
  hot.Add("jobs", "b", false, false);
  hot.Add("jobs", "b", false, false);
  hot.Add("other", "b", true, false);
  hot.Advance(At(Seconds(102)));
  const HotResourcesView view = hot.Top(2, kAnyNamespace);
  EXPECT_EQ(view.operations, 4U);
  EXPECT_EQ(view.window, Seconds(2));
  ASSERT_EQ(view.resources.size(), 2U);
  EXPECT_EQ(view.resources[0].resource, "b");
  EXPECT_EQ(view.resources[0].name_space, "jobs");
  EXPECT_EQ(view.resources[0].operations, 2U);
  EXPECT_EQ(view.resources[0].error, 0U);
  EXPECT_EQ(view.resources[1].resource, "a");
  EXPECT_EQ(view.resources[1].acquires, 1U);
  EXPECT_EQ(view.resources[1].waits, 1U);
}

// The documented bound, against exact counts of a skewed load with far more names than places, with
// the halvings in between.
TEST(HotResourcesTest, KeepsItsErrorBound) {
  constexpr std::size_t kPlaces = 64;
  for (const unsigned seed : {1U, 2U, 3U}) {
    HotResources hot(kPlaces);
    std::mt19937 random(seed);
    std::geometric_distribution<int> busy(0.02);
    std::uniform_int_distribution<int> rare(0, 5000);
    std::map<std::string, double> exact;
    double total = 0;
    for (int second = 0; second < 40; ++second) {
      hot.Advance(At(Seconds(second)));
      if (second > 0 && Seconds(second) % HotResources::kHalving == Duration{}) {
        for (auto& [name, count] : exact) {
          count /= 2;
        }
        total /= 2;
      }
      for (int i = 0; i < 2000; ++i) {
        const int number = i % 2 == 0 ? busy(random) : 1000 + rare(random);
        const std::string name = std::to_string(number);
        hot.Add("default", name, false, false);
        ++exact[name];
        ++total;
      }
    }
    const HotResourcesView view = hot.Top(kPlaces, kAnyNamespace);
    EXPECT_LE(view.error_max, total / kPlaces + 1);
    std::map<std::string, std::uint64_t> shown;
    for (const HotResource& resource : view.resources) {
      shown[resource.resource] = resource.operations;
      const double truth = exact[resource.resource];
      EXPECT_LE(static_cast<double>(resource.operations - resource.error), truth + 1);
      EXPECT_GE(static_cast<double>(resource.operations), truth - 3) << "rounding of two halvings";
      EXPECT_LE(resource.error, view.error_max + 2);
    }
    for (const auto& [name, count] : exact) {
      EXPECT_TRUE(count <= total / kPlaces + 3 || shown.contains(name)) << name;
    }
  }
}

TEST(HotResourcesTest, AResourceThatIsQuietFades) {
  HotResources hot(4);
  hot.Advance(At(Seconds(0)));
  for (int i = 0; i < 100; ++i) {
    hot.Add("default", "a", true, false);
  }
  hot.Advance(At(HotResources::kHalving));
  EXPECT_EQ(hot.Top(1, kAnyNamespace).resources.at(0).operations, 50U);
  EXPECT_EQ(hot.Top(1, kAnyNamespace).window, HotResources::kHalving / 2);
  hot.Advance(At(8 * HotResources::kHalving));
  EXPECT_TRUE(hot.Top(1, kAnyNamespace).resources.empty());
  EXPECT_EQ(hot.Top(1, kAnyNamespace).operations, 0U);
}

TEST(HotResourcesTest, ShowsOnlyWhatMayBeSeen) {
  HotResources hot(4);
  hot.Add("secret", "a", false, false);
  hot.Add("secret", "a", false, false);
  hot.Add("open", "b", false, false);
  const auto view = hot.Top(1, [](const std::string& name) { return name == "open"; });
  ASSERT_EQ(view.resources.size(), 1U);
  EXPECT_EQ(view.resources[0].resource, "b");
}

TEST(HotResourcesTest, WithoutPlacesItShowsNothing) {
  HotResources hot(0);
  hot.Add("default", "a", false, false);
  EXPECT_TRUE(hot.Top(1, kAnyNamespace).resources.empty());
}

}  // namespace
}  // namespace holdfast::server
