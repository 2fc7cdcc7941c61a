// Virtual time: everything that happens is an event in one queue, run in order of time and then of
// scheduling. The trace is a hash of all that was noted; equal seeds give equal traces.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"
#include "core/hash.h"

namespace holdfast::sim {

class Scheduler {
 public:
  BootTime now() const { return now_; }
  void At(BootTime at, std::function<void()> run) {
    events_.push({at < now_ ? now_ : at, order_++, std::move(run)});
  }
  void In(Duration delay, std::function<void()> run) { At(now_ + delay, std::move(run)); }

  void RunFor(Duration duration) {
    const BootTime until = now_ + duration;
    while (Step(until)) {
    }
  }
  // True if it holds within the time.
  bool RunUntil(const std::function<bool()>& condition, Duration at_most) {
    const BootTime until = now_ + at_most;
    while (!condition()) {
      if (!Step(until)) {
        return condition();
      }
    }
    return true;
  }

  void Note(std::uint64_t fact) {
    trace_ =
        core::Mix64(trace_ ^ fact ^ static_cast<std::uint64_t>(now_.time_since_epoch().count()));
  }
  void Note(std::string_view fact) { Note(core::Hash64(fact, trace_)); }
  std::uint64_t trace() const { return trace_; }
  std::uint64_t events() const { return order_; }

 private:
  struct Event {
    BootTime at{};
    std::uint64_t order = 0;
    std::function<void()> run;
    bool operator<(const Event& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };

  bool Step(BootTime until) {
    if (events_.empty() || events_.top().at > until) {
      now_ = until;
      return false;
    }
    const Event event = std::move(const_cast<Event&>(events_.top()));
    events_.pop();
    now_ = event.at;
    event.run();
    return true;
  }

  BootTime now_{Seconds(1000)};
  std::priority_queue<Event> events_;
  std::uint64_t order_ = 0;
  std::uint64_t trace_ = 0;
};

}  // namespace holdfast::sim
