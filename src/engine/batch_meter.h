// Sizes and times of the batches that had commands. One thread records, any thread reads.
#pragma once

#include <array>
#include <cstddef>

#include "base/histogram.h"
#include "base/time.h"
#include "engine/runner.h"

namespace holdfast::engine {

class BatchMeter {
 public:
  void Record(Duration commit, std::size_t commands, std::size_t bytes) {
    if (commands > 0) {
      commit_seconds_.Record(commit);
      batch_commands_.Record(static_cast<double>(commands));
      batch_bytes_.Record(static_cast<double>(bytes));
    }
  }
  void Read(RunnerStats& stats) const {
    stats.commit_seconds = commit_seconds_.Read();
    stats.batch_commands = batch_commands_.Read();
    stats.batch_bytes = batch_bytes_.Read();
  }

 private:
  static constexpr std::array<double, 13> kCommandBounds{1,   2,   4,   8,    16,   32,  64,
                                                         128, 256, 512, 1024, 2048, 4096};
  static constexpr std::array<double, 11> kByteBounds{
      256, 512, 1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 16, 1 << 18, 1 << 20};
  Histogram commit_seconds_{kLatencyBounds};
  Histogram batch_commands_{kCommandBounds};
  Histogram batch_bytes_{kByteBounds};
};

}  // namespace holdfast::engine
