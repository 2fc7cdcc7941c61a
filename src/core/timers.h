// One queue of deadlines for all parts, in (deadline, kind, id) order: the order in which what is
// due is processed, on every replica. `id` is a number of the log (token, session number, waiter
// id, namespace id), never a slot.
#pragma once

#include <cstdint>

#include "absl/container/btree_set.h"
#include "base/time.h"
#include "core/slab.h"

namespace holdfast::core {

enum class TimerKind : std::uint8_t {
  kLease,  // a lease, or the confirmation of a provisional one
  kSession,
  kWait,            // a waiter's patience
  kDetach,          // a detached waiter's grace
  kDelay,           // a lock-delay
  kForgetRequests,  // a namespace's oldest request id
  kForgetClients,   // a namespace's most idle client
};

struct Timer {
  Timestamp at{};
  TimerKind kind = TimerKind::kLease;
  std::uint64_t id = 0;
  Slot slot = kNoSlot;  // where the part finds the object; not part of the order

  friend bool operator<(const Timer& a, const Timer& b) {
    if (a.at != b.at) {
      return a.at < b.at;
    }
    if (a.kind != b.kind) {
      return a.kind < b.kind;
    }
    return a.id < b.id;
  }
};

class Timers {
 public:
  void Set(const Timer& timer) { queue_.insert(timer); }
  void Cancel(Timestamp at, TimerKind kind, std::uint64_t id) {
    queue_.erase(Timer{at, kind, id, kNoSlot});
  }
  // Something is over when its deadline is strictly before now.
  bool HasDue(Timestamp now) const { return !queue_.empty() && queue_.begin()->at < now; }
  Timer PopFirst() {
    const Timer timer = *queue_.begin();
    queue_.erase(queue_.begin());
    return timer;
  }
  // Of the oldest timer, `none` without any.
  Timestamp First(Timestamp none) const { return queue_.empty() ? none : queue_.begin()->at; }
  bool Has(Timestamp at, TimerKind kind, std::uint64_t id) const {
    return queue_.contains(Timer{at, kind, id, kNoSlot});
  }
  std::size_t size() const { return queue_.size(); }

 private:
  absl::btree_set<Timer> queue_;
};

}  // namespace holdfast::core
