// Recorder: what every load generator of this module measures, in one place, so that rows of
// different systems are comparable. It knows when warm-up, measurement and run end; only
// completions inside the measurement count. One thread. Times are of the steady clock of this
// process.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "base/time.h"
#include "bench/cpu_usage.h"
#include "bench/histogram.h"

namespace holdfast::bench {

using LoadClock = std::chrono::steady_clock;
using LoadTime = LoadClock::time_point;

enum class Verb { kAcquire, kRenew, kRelease };

// One second of the measurement.
struct LoadSecond {
  int at = 0;  // its number, from 0
  LatencySummary acquire;
  LatencySummary renew;
  LatencySummary release;
  std::uint64_t errors = 0;
  double gap_ms = 0;  // the longest time without any completion that ended in it
};

// Ten seconds of the measurement; the last one may be shorter.
struct LoadWindow {
  int from = 0;  // its first second
  LatencySummary acquire;
};

struct LoadResult {
  double seconds = 0;       // measured, without warm-up
  std::uint64_t pairs = 0;  // acquire + release, both answered with success
  std::uint64_t operations = 0;
  double pairs_per_s = 0;
  double ops_per_s = 0;
  LatencySummary acquire;
  LatencySummary renew;
  LatencySummary release;
  LatencySummary pair;
  // Of each 100 ms in which something completed: the worst latency, and the longest time without
  // any completion that ended in it.
  LatencySummary window_worst;
  LatencySummary window_gap;
  double longest_gap_ms = 0;
  std::map<std::string, std::uint64_t, std::less<>> refusals;  // domain outcomes, such as HELD
  std::map<std::string, std::uint64_t, std::less<>>
      errors;  // operating errors, such as UNAVAILABLE
  std::vector<LoadSecond> timeline;
  std::vector<LoadWindow> windows;
  double client_cpu_percent = 0;  // of one core, this process
  double server_cpu_percent = 0;  // of one core; 0 if no server pid was given
  double other_cpu_percent = 0;   // of one core, every other process of the machine
};

std::uint64_t Total(const std::map<std::string, std::uint64_t, std::less<>>& counts);

class Recorder {
 public:
  struct Options {
    LoadTime begin;
    Duration warm_up{0};
    Duration duration{0};
    pid_t server_pid = 0;               // whose CPU to report; 0: none
    std::vector<pid_t> more_pids = {};  // further members of its cluster, reported with it
    std::FILE* progress = nullptr;      // one line per second; null: none
    std::string label;                  // in front of each progress line
  };

  explicit Recorder(Options options);

  // To be called at least every 100 ms while the run lasts: samples CPU at both ends of the
  // measurement, prints progress.
  void Advance(LoadTime now);
  // No new pair is begun from here on.
  bool Over(LoadTime now) const { return now >= end_; }
  LoadTime end() const { return end_; }

  // `from`: when it was sent, or when it should have been sent under an open loop.
  void Operation(Verb verb, LoadTime from, LoadTime now);
  void Pair(LoadTime from, LoadTime now);
  void Refused(std::string_view kind, LoadTime now);
  void Failed(std::string_view kind, LoadTime now);

  // Once, after an Advance at or after the end.
  LoadResult Finish();

 private:
  bool Measuring(LoadTime now) const { return now >= measure_from_ && now < end_; }
  void Completed(Duration latency, LoadTime now);
  void CloseWindow();
  void EnterSecond(LoadTime now);
  void CloseSecond();
  void CloseTenSeconds();
  void PrintProgress(LoadTime now);

  const Options options_;
  const LoadTime measure_from_;
  const LoadTime end_;
  LoadResult result_;
  Histogram acquire_, renew_, release_, pair_;

  int second_ = 0;
  std::uint64_t second_errors_ = 0;
  Histogram second_acquire_, second_renew_, second_release_;
  Duration gap_in_second_{0};
  int ten_seconds_from_ = 0;
  Histogram ten_seconds_acquire_;

  Histogram window_worst_, window_gap_;
  std::int64_t window_ = 0;
  Duration worst_in_window_{0};
  Duration gap_in_window_{0};
  bool window_used_ = false;
  LoadTime last_completion_;

  CpuUsage cpu_at_start_;
  CpuUsage cpu_at_end_;
  LoadTime start_sampled_at_;
  LoadTime end_sampled_at_;
  bool sampled_start_ = false;
  bool sampled_end_ = false;

  // Of the current progress interval, warm-up included.
  LoadTime interval_from_;
  Histogram interval_pairs_;
  std::uint64_t interval_errors_ = 0;
};

}  // namespace holdfast::bench
