#include "core/grace.h"

#include <algorithm>

#include "base/planted.h"

namespace holdfast::core {

void EpochFloors::Add(Timestamp at, Duration grace, Timestamp oldest) {
  if (!starts_.empty() && starts_.back().at == at) {
    starts_.back().grace = std::max(starts_.back().grace, grace);
    return;
  }
  // A promise for d ends by d + g, and only starts after d - g matter to it: nothing that is older
  // than two graces before the oldest of them. One that is over but not processed yet counts too,
  // since a lock-delay begins at its end.
  Duration longest = grace;
  for (const Start& start : starts_) {
    longest = std::max(longest, start.grace);
  }
  std::erase_if(starts_,
                [&](const Start& start) { return start.at + 2 * longest < std::min(at, oldest); });
  if (starts_.size() == kEpochStartsKept) {
    starts_[1].first = starts_[0].first;
    starts_[1].grace = std::max(starts_[0].grace, starts_[1].grace);
    starts_.erase(starts_.begin());
  }
  starts_.push_back(Start{at, at, grace});
}

Timestamp EpochFloors::WithFloors(Timestamp deadline, Timestamp renewed_at,
                                  Duration promise) const {
  Timestamp end = deadline;
  for (const Start& start : starts_) {
    if (start.at < renewed_at || end < start.first) {
      continue;  // renewed since, or over before that epoch began
    }
    const Duration grace = std::min(promise, start.grace);
    const Timestamp limit = Planted(Bug::kGraceUnbounded) ? Timestamp::max() : deadline + grace;
    end = std::max(end, std::min(start.at + grace, limit));
  }
  return end;
}

}  // namespace holdfast::core
