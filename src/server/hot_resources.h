// Which resources are busy: a space-saving sketch (Metwally, Agrawal, El Abbadi 2005) of at most
// 1024 resources, whose counts fade.
//
// Error bound: with K places and W operations counted (faded like the counts themselves), a shown
// count is too high by at most its `error`, which is at most W / K, and never too low; every
// resource with more than W / K operations is among the K. Counts are halved every kHalving, so
// what is shown are about the last one to two such periods.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/time.h"

namespace holdfast::server {

struct HotResource {
  std::string name_space;
  std::string resource;
  std::uint64_t operations = 0;
  std::uint64_t error = 0;     // `operations` may be too high by so much
  std::uint64_t acquires = 0;  // campaigns too; since it is in the sketch, so never too high
  std::uint64_t waits = 0;     // of those, the ones that went into the queue
};

struct HotResourcesView {
  std::vector<HotResource> resources;  // busiest first
  std::uint64_t operations = 0;        // of all resources
  std::uint64_t error_max = 0;         // no count is too high by more than this
  // Over how long the counts were gathered, in effect: count / window is a rate.
  Duration window{};
};

// Not thread-safe.
class HotResources {
 public:
  static constexpr std::size_t kPlacesMax = 1024;
  static constexpr Duration kHalving = Seconds(15);

  // `places`: 0 .. kPlacesMax; 0 counts nothing.
  explicit HotResources(std::size_t places);

  // Time never falls. What fades, fades here.
  void Advance(Timestamp now);
  void Add(std::string_view name_space, std::string_view resource, bool acquire, bool wait);
  // The first `limit` whose namespace `may_see`, a callable with a name.
  template <typename MaySee>
  HotResourcesView Top(std::size_t limit, const MaySee& may_see) const;

 private:
  struct Place {
    std::string key;  // namespace, NUL, resource
    std::uint64_t error = 0;
    std::uint64_t acquires = 0;
    std::uint64_t waits = 0;
  };
  std::size_t PlaceOf(std::string_view key);
  std::size_t Smallest();
  void Halve();
  Duration Window() const;
  std::vector<std::size_t> Order() const;
  HotResource Show(std::size_t place) const;

  const std::size_t places_max_;
  std::vector<Place> places_;          // never moves: its keys are those of the index
  std::vector<std::uint64_t> counts_;  // of the places; by itself, since it is searched
  absl::flat_hash_map<std::string_view, std::size_t> index_;
  std::string key_;  // kept, so that a look-up allocates nothing

  // Where to look for a place with the smallest count: all before `hand_` have more than `floor_`.
  std::size_t hand_ = 0;
  std::uint64_t floor_ = 0;

  std::uint64_t operations_ = 0;
  Timestamp began_{};      // when counting began
  Timestamp halved_at_{};  // or began
  Timestamp now_{};
  bool begun_ = false;
};

template <typename MaySee>
HotResourcesView HotResources::Top(std::size_t limit, const MaySee& may_see) const {
  HotResourcesView view;
  view.operations = operations_;
  view.error_max = places_max_ == 0 ? 0 : operations_ / places_max_;
  view.window = Window();
  for (const std::size_t place : Order()) {
    if (view.resources.size() == limit) {
      break;
    }
    HotResource shown = Show(place);
    if (may_see(shown.name_space)) {
      view.resources.push_back(std::move(shown));
    }
  }
  return view;
}

}  // namespace holdfast::server
