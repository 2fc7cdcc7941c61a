#include "bench/recorder.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"

namespace holdfast::bench {
namespace {

constexpr Duration kWindow = Millis(100);
constexpr Duration kProgressInterval = Seconds(1);

double Percent(Duration used, Duration wall) {
  return 100.0 * static_cast<double>(std::max(used, Duration(0)).count()) /
         static_cast<double>(wall.count());
}

double InSeconds(Duration duration) {
  return static_cast<double>(duration.count()) / 1e9;
}

void Count(std::map<std::string, std::uint64_t, std::less<>>& counts, std::string_view kind) {
  const auto found = counts.find(kind);
  if (found == counts.end()) {
    counts.emplace(kind, 1);
  } else {
    ++found->second;
  }
}

}  // namespace

std::uint64_t Total(const std::map<std::string, std::uint64_t, std::less<>>& counts) {
  std::uint64_t total = 0;
  for (const auto& [kind, count] : counts) {
    total += count;
  }
  return total;
}

Recorder::Recorder(Options options)
    : options_(std::move(options)),
      measure_from_(options_.begin + options_.warm_up),
      end_(measure_from_ + options_.duration),
      last_completion_(measure_from_),
      interval_from_(options_.begin) {}

void Recorder::Advance(LoadTime now) {
  if (!sampled_start_ && now >= measure_from_) {
    sampled_start_ = true;
    start_sampled_at_ = now;
    cpu_at_start_ = SampleCpu(options_.server_pid, options_.more_pids);
  }
  if (!sampled_end_ && now >= end_) {
    sampled_end_ = true;
    end_sampled_at_ = now;
    cpu_at_end_ = SampleCpu(options_.server_pid, options_.more_pids);
  }
  if (options_.progress != nullptr && now - interval_from_ >= kProgressInterval &&
      interval_from_ < end_) {
    PrintProgress(now);
  }
}

void Recorder::Operation(Verb verb, LoadTime from, LoadTime now) {
  if (!Measuring(now)) {
    return;
  }
  EnterSecond(now);
  ++result_.operations;
  switch (verb) {
    case Verb::kAcquire:
      acquire_.Record(now - from);
      second_acquire_.Record(now - from);
      ten_seconds_acquire_.Record(now - from);
      break;
    case Verb::kRenew:
      renew_.Record(now - from);
      second_renew_.Record(now - from);
      break;
    case Verb::kRelease:
      release_.Record(now - from);
      second_release_.Record(now - from);
      break;
  }
  Completed(now - from, now);
}

void Recorder::Pair(LoadTime from, LoadTime now) {
  if (options_.progress != nullptr) {
    interval_pairs_.Record(now - from);
  }
  if (Measuring(now)) {
    pair_.Record(now - from);
  }
}

void Recorder::Refused(std::string_view kind, LoadTime now) {
  if (Measuring(now)) {
    EnterSecond(now);
    ++result_.operations;
    Count(result_.refusals, kind);
    Completed(Duration(0), now);
  }
}

void Recorder::Failed(std::string_view kind, LoadTime now) {
  ++interval_errors_;
  if (Measuring(now)) {
    EnterSecond(now);
    ++second_errors_;
    Count(result_.errors, kind);
  }
}

void Recorder::Completed(Duration latency, LoadTime now) {
  const std::int64_t window = (now - measure_from_) / kWindow;
  if (window != window_) {
    CloseWindow();
    window_ = window;
  }
  window_used_ = true;
  worst_in_window_ = std::max(worst_in_window_, latency);
  gap_in_window_ = std::max<Duration>(gap_in_window_, now - last_completion_);
  gap_in_second_ = std::max<Duration>(gap_in_second_, now - last_completion_);
  last_completion_ = std::max(last_completion_, now);
}

void Recorder::EnterSecond(LoadTime now) {
  const auto second = static_cast<int>((now - measure_from_) / Seconds(1));
  while (second_ < second) {
    CloseSecond();
  }
}

// Also of a second in which nothing was done.
void Recorder::CloseSecond() {
  result_.timeline.push_back({second_, Summarize(second_acquire_), Summarize(second_renew_),
                              Summarize(second_release_), second_errors_,
                              ToMillisExact(std::exchange(gap_in_second_, Duration(0)))});
  second_acquire_.Clear();
  second_renew_.Clear();
  second_release_.Clear();
  second_errors_ = 0;
  ++second_;
  if (second_ - ten_seconds_from_ == 10) {
    CloseTenSeconds();
  }
}

void Recorder::CloseTenSeconds() {
  result_.windows.push_back({ten_seconds_from_, Summarize(ten_seconds_acquire_)});
  ten_seconds_acquire_.Clear();
  ten_seconds_from_ = second_;
}

void Recorder::CloseWindow() {
  if (!std::exchange(window_used_, false)) {
    return;
  }
  window_worst_.Record(std::exchange(worst_in_window_, Duration(0)));
  window_gap_.Record(std::exchange(gap_in_window_, Duration(0)));
}

void Recorder::PrintProgress(LoadTime now) {
  const double seconds = InSeconds(now - interval_from_);
  const bool warming = interval_from_ < measure_from_;
  fmt::print(
      options_.progress,
      "{}{:4.0f} s  {:9.0f} pairs/s  p50 {:8.3f} ms  p99 {:8.3f} ms  errors {}{}\n", options_.label,
      InSeconds(now - options_.begin), static_cast<double>(interval_pairs_.count()) / seconds,
      ToMillisExact(interval_pairs_.Quantile(0.5)), ToMillisExact(interval_pairs_.Quantile(0.99)),
      interval_errors_, warming ? "  (warm-up)" : "");
  std::fflush(options_.progress);
  interval_pairs_.Clear();
  interval_errors_ = 0;
  interval_from_ = now;
}

LoadResult Recorder::Finish() {
  HF_CHECK(sampled_end_, "Finish before the end of the measurement was seen by Advance");
  CloseWindow();
  EnterSecond(end_);
  if (second_ > ten_seconds_from_) {
    CloseTenSeconds();
  }
  // A run that ends in silence had a gap too.
  window_gap_.Record(end_ - last_completion_);
  result_.seconds = InSeconds(options_.duration);
  result_.pairs = pair_.count();
  result_.pairs_per_s = static_cast<double>(result_.pairs) / result_.seconds;
  result_.ops_per_s = static_cast<double>(result_.operations) / result_.seconds;
  result_.acquire = Summarize(acquire_);
  result_.renew = Summarize(renew_);
  result_.release = Summarize(release_);
  result_.pair = Summarize(pair_);
  result_.window_worst = Summarize(window_worst_);
  result_.window_gap = Summarize(window_gap_);
  result_.longest_gap_ms = result_.window_gap.max_ms;
  const Duration wall = end_sampled_at_ - start_sampled_at_;
  const Duration self = cpu_at_end_.self - cpu_at_start_.self;
  const Duration server = cpu_at_end_.server - cpu_at_start_.server;
  result_.client_cpu_percent = Percent(self, wall);
  result_.server_cpu_percent = Percent(server, wall);
  result_.other_cpu_percent =
      Percent(cpu_at_end_.machine - cpu_at_start_.machine - self - server, wall);
  return result_;
}

}  // namespace holdfast::bench
