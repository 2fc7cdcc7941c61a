// The deterministic state machine: (state, batch) -> (state, outcomes, events).
//
// No I/O, clocks, randomness, threads, logging or floating point. Everything that Apply reads is in
// the batch or the state, so replaying a log from any snapshot gives the same state, bit for bit
// (I10). Machine owns the parts, moves time, asks which deadlines are due, and routes commands;
// what a command does is in its part. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/id.h"
#include "core/command.h"
#include "core/event.h"
#include "core/grace.h"
#include "core/locks.h"
#include "core/namespaces.h"
#include "core/requests.h"
#include "core/saver.h"
#include "core/sessions.h"
#include "core/timers.h"
#include "core/view.h"
#include "holdfast/result.h"

namespace holdfast::core {

class Machine {
 public:
  Machine() = default;
  ~Machine() = default;
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // Applies one batch. `out` is cleared first. Order inside the batch: an EpochStart; time moves;
  // keepalives, then renewals (valid if the deadline had not passed at the previous batch); what is
  // due, in order of deadline, at most kDuePerBatchMax; the other commands, which treat everything
  // whose deadline has passed as over; what hangs on sessions that are over. The batch must follow
  // the last one: index and epoch never fall, time neither falls nor jumps.
  void Apply(const Batch& batch, Applied& out);

  // Answers a query at the present state; durations count from `as_of`, which is not before now().
  View Answer(const Query& query, Timestamp as_of) const;

  // Whether the command may be journaled: Validate, and the policy of its namespace. kNotFound for
  // an unknown namespace.
  Status Admit(const Command& command) const;
  // For a renewal or keepalive: how long it can wait until its lease is over; zero if there is
  // none. `command` is one.
  Duration TimeLeft(const Command& command) const;
  // The longest time for which a lease that this state has never heard of, or a renewal, could
  // still be promised to somebody. Without the failover grace. Slow: for a recovery.
  Duration LongestPromise() const;

  Timestamp now() const { return now_; }
  WallTime wall() const { return wall_; }
  std::uint64_t index() const { return index_; }
  std::uint64_t epoch() const { return epoch_; }
  std::uint32_t feature_level() const { return feature_level_; }
  Token last_token() const { return locks_.last_token(); }
  // Due work is left over from the last batch: seal another one soon.
  bool HasBacklog() const { return timers_.HasDue(now_) || sessions_.HasToDrain(); }

  // A running hash over every outcome and event since the log began. Equal on every replica after
  // every batch; cheap enough to compare all the time.
  std::uint64_t trace() const { return trace_; }

  // The snapshot, in pieces; equal states give equal bytes.
  void Save(const Saver::Sink& sink) const;
  // kCorrupt if the bytes are not a snapshot, kUnsupported if it needs a newer build.
  static Result<std::unique_ptr<Machine>> Load(std::string_view bytes);
  // Hash of the snapshot. Slow: for tests and for snapshots.
  Id128 Digest() const;

  // The checker of the state's own rules: the first that is broken, or empty. Slow: for tests and
  // simulation.
  std::string FindInconsistency() const;

 private:
  void RunDue(Context& context);
  Outcome Run(Context& context, const Command& command);
  Outcome RunInNamespace(Context& context, const Command& command);
  void StartEpoch(Context& context, const EpochStart& command);
  void Trace(const Applied& out);
  CountsView Counts(Timestamp as_of) const;

  Timestamp now_{};
  WallTime wall_{};
  std::uint64_t index_ = 0;
  std::uint64_t epoch_ = 0;
  std::uint32_t feature_level_ = 1;
  std::uint64_t trace_ = 0;
  EpochFloors floors_;
  Timers timers_;
  Namespaces namespaces_;
  Requests requests_{namespaces_};
  Sessions sessions_{namespaces_, requests_};
  Locks locks_{namespaces_, sessions_, requests_};
};

}  // namespace holdfast::core
