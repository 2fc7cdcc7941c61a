// Whether the leader is gone, told from how long its log has been silent: the phi-accrual failure
// detector (Hayashibara et al., SRDS 2004) over the times between entries of the log.
//
//   phi(t) = -log10(probability that an entry still comes after a silence of t)
//
// with the times taken as normally distributed; the tail is the logistic approximation of Bowling
// et al. (2009). At phi = 8 the leader is wrongly suspected once in 10^8 entries, if the times keep
// to what was seen. Pure; not thread-safe.
#pragma once

#include <cstddef>
#include <deque>

#include "base/time.h"

namespace holdfast::engine {

struct DetectorOptions {
  double threshold = 8.0;               // 1 .. 16
  std::size_t samples_max = 200;        // times that are remembered
  Duration interval_min = Millis(200);  // shorter ones (a busy log) count as this: the tick
  Duration interval_max = Seconds(1);   // longer ones count as this: an outage teaches nothing
  Duration deviation_min = Millis(75);  // a log that was regular so far is not held to it
};

class Detector {
 public:
  explicit Detector(const DetectorOptions& options) : options_(options) {}

  // The log went on.
  void Heard(BootTime now);
  // Silence begins now: what was before says nothing, or was not listened to.
  void Restart(BootTime now) { heard_at_ = now; }

  double Phi(BootTime now) const;
  bool Suspects(BootTime now) const { return Phi(now) >= options_.threshold; }

 private:
  void Estimate(double& mean, double& deviation) const;

  const DetectorOptions options_;
  BootTime heard_at_{};
  std::deque<double> intervals_;  // seconds
};

}  // namespace holdfast::engine
