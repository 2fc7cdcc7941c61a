// Wakes the poller of a completion queue when an open loop's next arrivals are due. gRPC's own
// deadlines are rounded to milliseconds, which would show up as latency. Has a thread of its own,
// which only sleeps and pokes.
#pragma once

#include <memory>

#include "base/time.h"
#include "bench/recorder.h"

namespace grpc {
class CompletionQueue;
}

namespace holdfast::bench {

class Pacer {
 public:
  // Pokes at `begin` and then each `interval`, but not more often than every 250 us. The queue must
  // be shut down and drained after Stop() and before the Pacer goes.
  Pacer(grpc::CompletionQueue* queue, LoadTime begin, Duration interval);
  ~Pacer();
  Pacer(const Pacer&) = delete;
  Pacer& operator=(const Pacer&) = delete;

  // Idempotent; ends the thread.
  void Stop();

 private:
  struct Shared;
  const std::unique_ptr<Shared> shared_;
};

}  // namespace holdfast::bench
