// The last transitions of all resources, in one bounded ring: who held what, and how it ended. A
// lock that nobody uses any more costs nothing once its transitions have left the ring. It also
// answers "how did this lease end?" for late releases.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "base/id.h"
#include "base/time.h"
#include "core/outcome.h"
#include "core/slab.h"

namespace holdfast::core {

struct Transition {
  std::uint64_t index = 0;  // of the batch
  WallTime at{};
  Cause cause = Cause::kNone;  // kAcquired and kHandedOver begin a lease, the others end it
  Token token = 0;
  Id128 lease_id{};
  std::string owner;
  std::unique_ptr<std::string> reason;  // only for breaks
  Slot resource = kNoSlot;
  std::uint64_t previous = 0;  // position of the resource's transition before, 0: none
};

class History {
 public:
  // Positions start at 1 and only rise.
  std::uint64_t Add(Transition transition) {
    ring_.push_back(std::move(transition));
    return first_ + ring_.size() - 1;
  }
  bool Has(std::uint64_t position) const {
    return position >= first_ && position < first_ + ring_.size();
  }
  const Transition& At(std::uint64_t position) const {
    return ring_[static_cast<std::size_t>(position - first_)];
  }
  std::size_t size() const { return ring_.size(); }
  std::uint64_t first() const { return first_; }
  // Removes the oldest, and gives the resource that it belonged to.
  Slot DropOldest() {
    const Slot resource = ring_.front().resource;
    ring_.pop_front();
    ++first_;
    return resource;
  }
  void Restore(std::uint64_t first) { first_ = first; }

 private:
  std::deque<Transition> ring_;
  std::uint64_t first_ = 1;
};

}  // namespace holdfast::core
