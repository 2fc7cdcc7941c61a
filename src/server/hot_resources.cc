#include "server/hot_resources.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace holdfast::server {

HotResources::HotResources(std::size_t places) : places_max_(std::min(places, kPlacesMax)) {
  places_.reserve(places_max_);
  counts_.reserve(places_max_);
  index_.reserve(4 * places_max_);  // what is erased leaves marks; with room they are swept rarely
}

void HotResources::Advance(Timestamp now) {
  if (!begun_) {
    began_ = halved_at_ = now;
    begun_ = true;
  }
  now_ = now;
  // State time moves by at most a second with a batch.
  while (now_ - halved_at_ >= kHalving) {
    Halve();
    halved_at_ += kHalving;
  }
}

// Halving rounds down, errors up: a count stays within its error of the truth.
void HotResources::Halve() {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    counts_[i] /= 2;
    places_[i].error = std::min(counts_[i], (places_[i].error + 1) / 2);
    places_[i].acquires /= 2;
    places_[i].waits /= 2;
  }
  operations_ /= 2;
  hand_ = 0;
  floor_ = 0;
}

void HotResources::Add(std::string_view name_space, std::string_view resource, bool acquire,
                       bool wait) {
  if (places_max_ == 0) {
    return;
  }
  key_.assign(name_space);
  key_.push_back('\0');
  key_.append(resource);
  const std::size_t place = PlaceOf(key_);
  ++operations_;
  ++counts_[place];
  places_[place].acquires += acquire ? 1 : 0;
  places_[place].waits += wait ? 1 : 0;
}

std::size_t HotResources::PlaceOf(std::string_view key) {
  if (const auto found = index_.find(key); found != index_.end()) {
    return found->second;
  }
  if (places_.size() < places_max_) {
    places_.push_back(Place{std::string(key), 0, 0, 0});
    counts_.push_back(0);
    index_.emplace(places_.back().key, places_.size() - 1);
    return places_.size() - 1;
  }
  // Whoever is new inherits the smallest count, as the most that it may have had before.
  const std::size_t place = Smallest();
  index_.erase(places_[place].key);
  places_[place].key.assign(key);
  places_[place].error = counts_[place];
  places_[place].acquires = 0;
  places_[place].waits = 0;
  index_.emplace(places_[place].key, place);
  return place;
}

// Counts only rise between two halvings, so what the hand has passed stays above the floor, and a
// round that begins with the true minimum serves all places that have it.
std::size_t HotResources::Smallest() {
  while (hand_ < counts_.size() && counts_[hand_] > floor_) {
    ++hand_;
  }
  if (hand_ == counts_.size()) {
    const auto smallest = std::min_element(counts_.begin(), counts_.end());
    floor_ = *smallest;
    hand_ = static_cast<std::size_t>(smallest - counts_.begin());
  }
  return hand_;
}

Duration HotResources::Window() const {
  // A halving period that lies k halvings back counts 2^-k.
  Duration window = now_ - halved_at_;
  Duration weight = kHalving / 2;
  for (Timestamp at = halved_at_; at > began_ && weight > Duration{}; at -= kHalving) {
    window += weight;
    weight /= 2;
  }
  return window;
}

std::vector<std::size_t> HotResources::Order() const {
  std::vector<std::size_t> order(places_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
    return counts_[a] != counts_[b] ? counts_[a] > counts_[b] : places_[a].key < places_[b].key;
  });
  while (!order.empty() && counts_[order.back()] == 0) {
    order.pop_back();
  }
  return order;
}

HotResource HotResources::Show(std::size_t place) const {
  const Place& from = places_[place];
  const std::size_t split = from.key.find('\0');
  return {.name_space = from.key.substr(0, split),
          .resource = from.key.substr(split + 1),
          .operations = counts_[place],
          .error = from.error,
          .acquires = from.acquires,
          .waits = from.waits};
}

}  // namespace holdfast::server
