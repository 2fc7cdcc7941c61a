// Fan-out of events to watchers. Each watcher has a bounded buffer: one that is too slow loses
// events, gets a gap marker with the log position from which it sees everything again, and reads
// the state anew. So no watcher can hold memory or slow the engine down.
//
// A short history of all events serves watchers that come back with the position they had seen;
// older positions start with a gap.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/event.h"

namespace holdfast::engine {

struct WatchFilter {
  std::string name_space;
  std::string prefix;
  bool exact = false;  // only the resource named exactly `prefix`
};

struct WatchedEvent {
  std::uint64_t index = 0;
  WallTime at{};
  std::shared_ptr<const core::Event> event;
};

// Events up to and including `index` may be missing.
struct WatchGap {
  std::uint64_t index = 0;
};

using WatchItem = std::variant<WatchedEvent, WatchGap>;
using WatchId = std::uint64_t;

// Thread-safe.
class WatchHub {
 public:
  static constexpr std::size_t kBufferMax = 1024;     // events waiting for one watcher
  static constexpr std::size_t kHistoryMax = 16'384;  // events kept for watchers that come back
  static constexpr std::size_t kWatchersMax = 10'000;

  struct Subscription {
    WatchId id = 0;  // 0: too many watchers
    std::uint64_t started_at = 0;
  };

  // Events up to `index` happened before this process began: watchers that saw less start with a
  // gap.
  void StartAt(std::uint64_t index);

  // The state jumped to `index` (a snapshot was installed): everybody gets a gap.
  void Skip(std::uint64_t index);

  // Events after `after_index` (0: from now on). `wake` is called, from the publishing thread and
  // outside the hub's mutex, when the buffer goes from empty to non-empty; it must not block.
  Subscription Subscribe(WatchFilter filter, std::uint64_t after_index, std::function<void()> wake);
  void Unsubscribe(WatchId id);

  // Moves out at most `max` items, oldest first.
  std::vector<WatchItem> Take(WatchId id, std::size_t max);

  // Session events have no resource and are not published to watchers.
  // Moves the content out of `events`, which keeps its memory.
  void Publish(std::uint64_t index, WallTime at, std::vector<core::Event>& events);

  std::size_t watchers() const;

 private:
  struct Watcher {
    WatchFilter filter;
    std::uint64_t after = 0;  // of a replicated node, it may lie ahead of what was published
    std::deque<WatchItem> buffer;
    std::function<void()> wake;
  };
  using Watchers = std::vector<std::shared_ptr<Watcher>>;
  using Key = std::pair<std::string, std::string>;  // namespace, resource
  static bool Matches(const WatchFilter& filter, const core::Event& event);
  static void Offer(const std::shared_ptr<Watcher>& watcher, const WatchedEvent& item,
                    Watchers& to_wake);
  void OfferToAll(const WatchedEvent& item, Watchers& to_wake);

  mutable std::mutex mutex_;
  std::map<WatchId, std::shared_ptr<Watcher>> watchers_;
  std::map<Key, Watchers>
      exact_;  // so that thousands of observers of other names cost an event nothing
  Watchers prefix_;
  std::deque<WatchedEvent> history_;
  std::uint64_t history_from_ = 0;  // events after this position are all in history_
  std::uint64_t last_index_ = 0;
  WatchId next_id_ = 1;
};

}  // namespace holdfast::engine
