// The engine: orders commands into batches, stamps them, and turns what the core says into replies.
// All of its logic and none of its threads: it does no I/O, reads no clock by itself and never
// blocks; Runner drives it for real, tests and the simulator drive it by hand. Not thread-safe.
//
// One append is in flight at a time; what arrives meanwhile forms the next batch. The cycle:
//
//   Accept* -> Seal -> (the journal appends) -> Committed -> Answer -> Accept* -> ...
//                                            -> Failed -> Accept* -> ...
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/machine.h"
#include "engine/admission.h"
#include "engine/clock.h"
#include "engine/front.h"
#include "engine/state_timer.h"
#include "engine/waiting.h"
#include "holdfast/result.h"
#include "journal/journal.h"

namespace holdfast::engine {

struct EngineOptions {
  std::size_t batch_bytes_max = journal::kEntryBytesMax;  // 4 KiB .. 1 MiB
  std::size_t batch_commands_max = 4096;                  // 1 .. 65,536
  std::size_t entry_bytes_max =
      journal::kEntryBytesMax;  // a larger batch is split into fragments of this size
  AdmissionLimits admission;
  Duration failover_grace = Seconds(10);  // 0 .. 1 min
  std::uint64_t epoch = 0;                // of this leadership; 0: the one after the log's last
  // State time of the log's last entry. It may be later than the state's: of a batch whose
  // fragments are not all there.
  Timestamp log_time{};
};

// What a front wants of the engine.
struct EngineInput {
  enum class Kind : std::uint8_t { kPropose, kAbandon, kFrontGone };
  Kind kind = Kind::kPropose;
  FrontId front = 0;
  Proposal proposal;  // kAbandon: only its tag
};

struct EngineOutput {
  std::vector<std::pair<FrontId, Reply>> replies;
};

struct EngineStats {
  std::uint64_t index = 0;
  std::uint64_t epoch = 0;
  std::uint64_t batches = 0;
  std::uint64_t commands = 0;
  std::uint64_t reads = 0;
  std::uint64_t overloaded = 0;  // refused at admission
  std::uint64_t queue_depth = 0;
  std::uint64_t waiting = 0;  // requests that wait for a lock
};

class Engine {
 public:
  // `last` is where the log stands and what `machine` has applied; the engine begins its epoch with
  // its first batch. `recovery`, if given, is journaled in that batch too.
  Engine(std::unique_ptr<core::Machine> machine, const journal::Position& last,
         const EngineOptions& options, std::optional<core::RecoverState> recovery);

  // Takes one input. What is invalid or does not fit is answered at once.
  void Accept(EngineInput&& input, EngineOutput& output);

  // Whether a batch is worth appending before the next tick.
  bool WantsBatch() const { return epoch_pending_ || admission_.size() > 0; }
  // What the last Seal gave.
  const std::vector<journal::Entry>& sealed() const { return entries_; }
  // Requests for the next batch.
  std::size_t queued() const { return admission_.size() + reads_.size(); }
  // Where others could write the log: a query waits for a batch that shows that nobody has.
  bool WantsReads() const { return !reads_.empty(); }
  // Due work is left over: the next tick should not wait.
  bool HasBacklog() const { return machine_->HasBacklog(); }

  // Seals what is queued (perhaps nothing: a tick) and then reads the clock for its stamp. The
  // entries stay valid until Committed or Failed. One batch at a time.
  const std::vector<journal::Entry>& Seal(Clock& clock);
  // The entries of Seal are durable: applies the batch. Observers may then look at last_batch() and
  // last_applied().
  void Committed();
  // Moves the replies of the batch out of last_applied().
  void Answer(EngineOutput& output);
  // The entries of Seal are not in the log, and nothing was done.
  void Failed(const Error& error, EngineOutput& output);

  // Answers the queries that are queued. Right when no batch can have been written by anybody else
  // since they arrived: on the file journal always (the directory lock).
  void AnswerReads(BootTime present, EngineOutput& output);
  // Answers the queries that arrived before the last batch was sealed. Right wherever that batch
  // has committed.
  void AnswerSealedReads(BootTime present, EngineOutput& output);

  // The journal is silent, and for how long nobody knows: refuses what is queued, and answers what
  // is in flight as unknown. The batch in flight stays as it is.
  void GiveUp(EngineOutput& output);
  // Another leader has begun: answers everything, as unknown what the log may contain, and gives
  // the state back as the last committed batch left it. The engine is of no more use.
  std::unique_ptr<core::Machine> Resign(EngineOutput& output);

  // Of the last Committed, complete until Answer.
  const core::Batch& last_batch() const { return batch_; }
  const core::Applied& last_applied() const { return applied_; }
  // The events of the batch, for the watch hub to take.
  std::vector<core::Event>& events() { return applied_.events; }

  const core::Machine& machine() const { return *machine_; }
  EngineStats Stats() const;

 private:
  struct QueuedRead {
    ReplyTo to;
    core::Query query;
  };

  void Propose(FrontId front, Proposal&& proposal, EngineOutput& output);
  void Abandon(const ReplyTo& to);
  void Reply(const ReplyTo& to, core::Outcome&& outcome, EngineOutput& output);
  void ReplyError(const ReplyTo& to, const Error& error, EngineOutput& output);
  void AnswerReads(std::vector<QueuedRead>& reads, BootTime present, EngineOutput& output);
  void RefuseQueued(const Error& error, EngineOutput& output);
  bool TakeAbandoned(const ReplyTo& to);
  void ForgetAbandoned();
  void Encode();

  std::unique_ptr<core::Machine> machine_;
  const EngineOptions options_;
  StateTimer timer_;
  journal::Position last_;
  std::uint64_t epoch_;
  bool epoch_pending_ = true;  // EpochStart is not in the log yet
  std::optional<core::RecoverState> recovery_;
  std::optional<BootTime> early_stamp_;  // only of a planted bug

  Admission admission_;
  Waiting waiting_;
  std::vector<QueuedRead> reads_;
  std::vector<QueuedRead> sealed_reads_;  // arrived before the batch in flight was sealed

  // The batch in flight, or the last one.
  bool in_flight_ = false;
  core::Batch batch_;
  std::vector<ReplyTo> reply_to_;  // one for each command of batch_
  std::vector<journal::Entry> entries_;
  core::Applied applied_;

  // Requests abandoned before their command was applied. Kept until everything that had been
  // accepted by then is applied.
  absl::flat_hash_map<ReplyTo, std::uint64_t> abandoned_;
  std::deque<std::pair<std::uint64_t, ReplyTo>> abandoned_order_;
  std::uint64_t accepted_ = 0;
  std::uint64_t applied_count_ = 0;

  EngineStats stats_;
};

}  // namespace holdfast::engine
