#include "bench/capacity_load.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace holdfast::bench {
namespace {

constexpr double kContendedShare = 0.2;
// Acquires per second on each contended resource: it is held for two or three commits each time, so
// it is taken about a fifth to a third of the time, and more while one of its leases expires.
constexpr double kContendedRate = 8;
// The shortest lease that survives an election of etcd and a takeover with room to spare.
constexpr Duration kShortestTtl = Seconds(10);
constexpr Duration kLongestTtl = Seconds(600);

}  // namespace

LocksBenchOptions UncontendedLoad(const CapacityOptions& options, double rate) {
  LocksBenchOptions load;
  load.mode = LoadMode::kStream;
  // Enough for a latency of 60 ms an operation; within the usual limits of open files.
  load.concurrency = static_cast<int>(std::clamp(rate / 8, 256.0, 1024.0));
  load.rate = rate * (1 - kContendedShare);
  load.resources = options.resources;
  load.holds = options.holds;
  // Each hold is renewed three times in its ttl, and all of them together at `rate`.
  const double ttl = rate > 0 ? 3.0 * options.holds / rate : 0;
  load.ttl = std::clamp<Duration>(Millis(std::llround(ttl * 1000)), kShortestTtl, kLongestTtl);
  load.request_ids = RequestIds::kRemembered;
  load.prefix = "capacity";
  return load;
}

LocksBenchOptions ContendedLoad(double rate) {
  LocksBenchOptions load;
  load.mode = LoadMode::kStream;
  load.rate = rate * kContendedShare;
  // Enough for a mean of 0.6 s from the request to the release, most of it in the queue.
  load.concurrency = static_cast<int>(std::clamp(load.rate * 0.64, 64.0, 1024.0));
  load.resources = static_cast<std::uint64_t>(std::max(1.0, load.rate / kContendedRate));
  load.choice = ResourceChoice::kRandom;
  load.request_ids = RequestIds::kRemembered;
  load.prefix = "contended";
  load.ttl = Seconds(2);
  load.wait = Seconds(2);
  load.impatient = 0.2;
  load.patience = Millis(100);
  load.abandoned = 0.02;
  return load;
}

CapacityLoad::CapacityLoad(const CapacityOptions& options, const std::string& endpoint, double rate,
                           Duration warm_up, Duration duration)
    : uncontended_(UncontendedLoad(options, rate)), contended_(ContendedLoad(rate)) {
  for (LocksBenchOptions* load : {&uncontended_, &contended_}) {
    load->endpoints = {endpoint};
    load->warm_up = warm_up;
    load->duration = duration;
  }
  uncontended_.progress = options.progress;
  uncontended_.on_begin = [this](LoadTime begin) {
    contended_thread_ = std::thread([this] { contended_outcome_ = RunLocksBench(contended_); });
    told_ = true;
    begun_.set_value(begin);
  };
  uncontended_thread_ = std::thread([this] { RunUncontended(); });
}

CapacityLoad::~CapacityLoad() {
  Join();
}

void CapacityLoad::RunUncontended() {
  uncontended_outcome_ = RunLocksBench(uncontended_);
  if (!told_) {
    begun_.set_value(std::nullopt);
  }
}

std::optional<LoadTime> CapacityLoad::Begun() {
  return begun_.get_future().get();
}

void CapacityLoad::Join() {
  if (uncontended_thread_.joinable()) {
    uncontended_thread_.join();
  }
  if (contended_thread_.joinable()) {
    contended_thread_.join();
  }
}

Result<CapacityLoads> CapacityLoad::Finish() {
  Join();
  if (!uncontended_outcome_->ok()) {
    return uncontended_outcome_->error();
  }
  if (!contended_outcome_->ok()) {
    return contended_outcome_->error().WithContext("contended load");
  }
  return CapacityLoads{std::move(**uncontended_outcome_), std::move(**contended_outcome_)};
}

}  // namespace holdfast::bench
