#include "engine/detector.h"

#include <algorithm>
#include <cmath>

namespace holdfast::engine {
namespace {

double InSeconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

void Detector::Heard(BootTime now) {
  const Duration interval =
      std::clamp(now - heard_at_, options_.interval_min, options_.interval_max);
  heard_at_ = now;
  intervals_.push_back(InSeconds(interval));
  if (intervals_.size() > options_.samples_max) {
    intervals_.pop_front();
  }
}

// With few samples the shortest interval stands for those that are missing.
void Detector::Estimate(double& mean, double& deviation) const {
  constexpr std::size_t kEnough = 10;
  const double assumed = InSeconds(options_.interval_min);
  const std::size_t missing = intervals_.size() < kEnough ? kEnough - intervals_.size() : 0;
  const auto count = static_cast<double>(intervals_.size() + missing);
  double sum = assumed * static_cast<double>(missing);
  for (const double interval : intervals_) {
    sum += interval;
  }
  mean = sum / count;
  double squares = (assumed - mean) * (assumed - mean) * static_cast<double>(missing);
  for (const double interval : intervals_) {
    squares += (interval - mean) * (interval - mean);
  }
  deviation = std::max(std::sqrt(squares / count), InSeconds(options_.deviation_min));
}

double Detector::Phi(BootTime now) const {
  double mean = 0;
  double deviation = 0;
  Estimate(mean, deviation);
  const double y = (InSeconds(now - heard_at_) - mean) / deviation;
  const double e = std::exp(-y * (1.5976 + 0.070566 * y * y));
  const double later = y > 0 ? e / (1.0 + e) : 1.0 - 1.0 / (1.0 + e);
  constexpr double kSmallest = 1e-300;  // phi stays finite
  return -std::log10(std::max(later, kSmallest));
}

}  // namespace holdfast::engine
