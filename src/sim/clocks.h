// The clocks of one simulated machine: they may run too fast or too slow, and the wall clock may be
// stepped. Integer arithmetic only.
#pragma once

#include <cstdint>

#include "base/time.h"
#include "sim/site.h"

namespace holdfast::sim {

class Clocks {
 public:
  explicit Clocks(BootTime boot_at_first = BootTime{Seconds(1000)}) : anchor_boot_(boot_at_first) {}

  void Begin(BootTime true_now) { anchor_true_ = true_now; }
  void Set(BootTime true_now, const ClockFault& fault) {
    anchor_boot_ = Boot(true_now);
    anchor_true_ = true_now;
    rate_ppm_ = fault.rate_ppm;
    wall_step_ = fault.wall_step;
  }

  BootTime Boot(BootTime true_now) const {
    const Duration passed = true_now - anchor_true_;
    return anchor_boot_ + passed + Duration(passed.count() / kMillion * rate_ppm_);
  }
  WallTime Wall(BootTime true_now) const {
    return WallTime(Seconds(1'000'000) + true_now.time_since_epoch() + wall_step_);
  }
  // When the boot clock shows `at`, or a little later.
  BootTime TrueTime(BootTime at) const {
    const Duration left = at - anchor_boot_;
    return anchor_true_ + left - Duration(left.count() / (kMillion + rate_ppm_) * rate_ppm_) +
           Duration(rate_ppm_ == 0 ? 0 : kMillion);
  }

 private:
  static constexpr std::int64_t kMillion = 1'000'000;

  BootTime anchor_true_{Seconds(1000)};
  BootTime anchor_boot_;
  std::int64_t rate_ppm_ = 0;
  Duration wall_step_{};
};

}  // namespace holdfast::sim
