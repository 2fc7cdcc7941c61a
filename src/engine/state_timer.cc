#include "engine/state_timer.h"

#include <algorithm>

#include "base/planted.h"
#include "core/limits.h"

namespace holdfast::engine {

Duration StateTimer::Step(BootTime mono) const {
  if (!anchor_.has_value()) {
    return Duration{};
  }
  Duration step = std::clamp(mono - *anchor_, Duration{}, core::kTimeStepMax);
  if (Planted(Bug::kStateTimeTruncates)) {
    step = Millis(ToMillis(step));
  }
  return step;
}

Timestamp StateTimer::Stamp(BootTime mono) {
  Duration step = Step(mono);
  if (Planted(Bug::kStateTimeCatchesUp) && anchor_.has_value()) {
    debt_ += std::max(mono - *anchor_ - step, Duration{});
    const Duration paid = std::min(debt_, core::kTimeStepMax - step);
    debt_ -= paid;
    step += paid;
  }
  anchor_ = mono;
  return last_ + step;
}

Timestamp StateTimer::Present(BootTime mono) const {
  return last_ + Step(mono);
}

void StateTimer::StartEpoch(Timestamp last) {
  last_ = last;
  if (!Planted(Bug::kStateTimeKeepsAnchor)) {
    anchor_.reset();
  }
}

}  // namespace holdfast::engine
