// The floor that the start of an epoch puts under leases and sessions, so that their owners can
// reconnect (I7).
//
// A promise of length p that was last renewed for deadline d and was alive when an epoch started at
// E lasts until at least min(E + g, d + g) with g = min(p, grace of that epoch). However many
// epochs start, it gets at most g beyond d in total: a dead holder under a flapping leader still
// expires. Nothing is rewritten when an epoch starts; the floor is computed when a deadline is
// looked at.
#pragma once

#include <vector>

#include "base/time.h"
#include "core/limits.h"

namespace holdfast::core {

class EpochFloors {
 public:
  // Usually one start; several that were merged reach from the first to the last of them.
  struct Start {
    Timestamp first{};
    Timestamp at{};
    Duration grace{};
  };

  // An epoch started at state time `at`. Starts that no promise can depend on any more are
  // forgotten; `oldest` is the earliest time at which one may have ended that is not processed yet,
  // `at` if there is none.
  void Add(Timestamp at, Duration grace, Timestamp oldest);

  // When the promise really ends.
  Timestamp Effective(Timestamp deadline, Timestamp renewed_at, Duration promise) const {
    if (starts_.empty() || starts_.back().at < renewed_at) {
      return deadline;
    }
    return WithFloors(deadline, renewed_at, promise);
  }

  const std::vector<Start>& starts() const { return starts_; }
  void Restore(std::vector<Start> starts) { starts_ = std::move(starts); }

 private:
  Timestamp WithFloors(Timestamp deadline, Timestamp renewed_at, Duration promise) const;

  std::vector<Start> starts_;  // oldest first
};

template <typename A>
void Archive(A& a, EpochFloors::Start& start) {
  a(start.first, start.at, start.grace);
}

}  // namespace holdfast::core
