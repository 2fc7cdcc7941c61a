// What makes a watch out of streams that break: when to open the next one, and which of its
// messages are news. No I/O, no clock; not thread-safe.
#pragma once

#include <optional>
#include <string>

#include "client/call.h"
#include "holdfast/types.h"

namespace holdfast::client {

// Lets through what an observer of an election may see: tokens strictly rise from leader to leader,
// vacancy is reported once, and views that are older than what was seen (another endpoint may lag
// behind) are dropped.
class LeaderObserver {
 public:
  // True if this is news.
  bool Accept(const LeaderInfo& leader);

 private:
  std::optional<LeaderInfo> last_;   // reported
  std::uint64_t highest_token_ = 0;  // reported
  std::uint64_t index_ = 0;
};

// Where a broken watch goes on. Many events share one log position, so it asks for those of the
// last position again and lets through only the ones that had not come yet.
class WatchCursor {
 public:
  // 0: from now on.
  explicit WatchCursor(std::uint64_t after_index) : index_(after_index) {}

  // Of the next stream.
  std::uint64_t after_index() const { return passed_ > 0 ? index_ - 1 : index_; }
  void Restart() { repeated_ = passed_; }
  // False if it came before.
  bool Accept(const WatchItem& item);

 private:
  std::uint64_t index_;         // newest position that was seen
  std::uint64_t passed_ = 0;    // events of that position that were let through
  std::uint64_t repeated_ = 0;  // how many of them come again
  bool started_ = false;
};

// When and where to open a stream again.
class StreamRetry {
 public:
  explicit StreamRetry(CallShared& shared) : shared_(shared) {}

  std::size_t endpoint() const { return shared_.endpoints.current(); }
  // The stream works.
  void OnMessage() { failures_ = 0; }
  // The stream to `endpoint` ended. Nothing: it is refused for good; else when to open the next
  // one.
  std::optional<BootTime> OnEnd(std::size_t endpoint, const Failure& failure, BootTime now);

 private:
  CallShared& shared_;
  std::size_t failures_ = 0;
};

}  // namespace holdfast::client
