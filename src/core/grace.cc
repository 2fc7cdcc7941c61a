#include "core/grace.h"

#include <algorithm>

#include "base/planted.h"

namespace holdfast::core {

void EpochFloors::Add(Timestamp at, Duration grace) {
  if (!starts_.empty() && starts_.back().at == at) {
    starts_.back().grace = std::max(starts_.back().grace, grace);
    return;
  }
  // A promise that is alive now ends by d + g, and only starts after d - g matter to it: nothing
  // older than two graces.
  Duration longest = grace;
  for (const Start& start : starts_) {
    longest = std::max(longest, start.grace);
  }
  std::erase_if(starts_, [&](const Start& start) { return start.at + 2 * longest < at; });
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
