// The bounded queue in front of the engine. Renewals and keepalives have a lane of their own, with
// room that nothing else can take: when there is more than fits into a batch they go first, those
// with the least time left before the others, so that overload delays new locks and does not lose
// held ones.
//
// Why nothing here grows without bound: every front has a limit of open requests, every lane has a
// limit, and what does not fit is refused at once with OVERLOADED, before anything was done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "base/time.h"
#include "core/command.h"

namespace holdfast::engine {

using FrontId = std::uint32_t;

// Where a reply goes. Front 0: nowhere (the engine's own commands).
struct ReplyTo {
  FrontId front = 0;
  std::uint64_t tag = 0;
  friend bool operator==(const ReplyTo&, const ReplyTo&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const ReplyTo& to) {
    return H::combine(std::move(state), to.front, to.tag);
  }
};

struct QueuedCommand {
  ReplyTo to;
  core::Command command;
};

struct AdmissionLimits {
  std::size_t renewals_max = 65'536;
  std::size_t others_max = 65'536;
};

// Pure; not thread-safe.
class Admission {
 public:
  explicit Admission(const AdmissionLimits& limits) : limits_(limits) {}

  // False when the command's lane is full: nothing was taken. The engine's own commands always fit:
  // they are bounded by what they are about.
  bool Add(QueuedCommand&& queued);

  // Moves out what the next batch takes: at most `commands_max` commands and about `bytes_max`
  // bytes, always at least one if there is any. `time_left` is asked only when not everything fits.
  std::vector<QueuedCommand> Take(std::size_t commands_max, std::size_t bytes_max,
                                  const std::function<Duration(const core::Command&)>& time_left);

  // The requests of one front that wait.
  std::vector<ReplyTo> Of(FrontId front) const;
  // Everything, renewals first.
  std::vector<QueuedCommand> TakeAll();

  std::size_t size() const { return renewals_.size() + others_.size(); }

 private:
  AdmissionLimits limits_;
  std::deque<QueuedCommand> renewals_;
  std::deque<QueuedCommand> others_;
};

}  // namespace holdfast::engine
