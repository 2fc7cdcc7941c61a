// The load of the capacity bench: two runs of the locks bench at once, on threads of their own.
#pragma once

#include <future>
#include <optional>
#include <string>
#include <thread>

#include "base/time.h"
#include "bench/capacity_bench.h"
#include "bench/recorder.h"
#include "holdfast/result.h"

namespace holdfast::bench {

class CapacityLoad {
 public:
  // `endpoint`: of the leader. Holds are taken first; both loads begin then.
  CapacityLoad(const CapacityOptions& options, const std::string& endpoint, double rate,
               Duration warm_up, Duration duration);
  ~CapacityLoad();
  CapacityLoad(const CapacityLoad&) = delete;
  CapacityLoad& operator=(const CapacityLoad&) = delete;

  // Blocks until the warm-up begins; none if the load failed before. Once.
  std::optional<LoadTime> Begun();
  // Blocks until both are over. Once.
  Result<CapacityLoads> Finish();

 private:
  using Outcome = std::optional<Result<BenchReport>>;

  void RunUncontended();
  void Join();

  LocksBenchOptions uncontended_;
  LocksBenchOptions contended_;
  std::promise<std::optional<LoadTime>> begun_;
  bool told_ = false;  // begun_ has its value; of the thread of the uncontended load
  Outcome uncontended_outcome_;
  Outcome contended_outcome_;
  std::thread uncontended_thread_;
  std::thread contended_thread_;  // started by the other one
};

// The loads as the locks bench is asked for them.
LocksBenchOptions UncontendedLoad(const CapacityOptions& options, double rate);
LocksBenchOptions ContendedLoad(double rate);

}  // namespace holdfast::bench
