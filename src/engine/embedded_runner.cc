#include "engine/embedded_runner.h"

#include <algorithm>
#include <utility>

#include <pthread.h>

#include "base/log.h"

namespace holdfast::engine {
namespace {

// A front that drives for others gives the wheel to the ticker after so many rounds, and goes back
// to its own loop.
constexpr int kRoundsMax = 8;

}  // namespace

Result<std::unique_ptr<EmbeddedRunner>> EmbeddedRunner::Start(storage::FileSystem& files,
                                                              Clock& clock,
                                                              const RunnerOptions& options) {
  std::unique_ptr<EmbeddedRunner> runner(new EmbeddedRunner(clock, options));
  if (Status opened = runner->Open(files); !opened.ok()) {
    return opened.error();
  }
  return runner;
}

EmbeddedRunner::EmbeddedRunner(Clock& clock, const RunnerOptions& options)
    : clock_(clock), options_(options) {}

Status EmbeddedRunner::Open(storage::FileSystem& files) {
  Result<Recovered> recovered = Recover(files, options_.data_directory, options_.journal);
  if (!recovered.ok()) {
    return recovered.error();
  }
  journal_ = std::move(recovered->journal);
  std::optional<core::RecoverState> recovery;
  if (journal_->Recovered()) {
    recovery = core::RecoverState{journal_->TokenFloor(), recovered->machine->LongestPromise() +
                                                              options_.engine.failover_grace};
    recovery_pending_ = true;
    log::Warning(
        "after a recovery with lost state nothing is granted for {} s; tokens go on above {}",
        ToMillis(recovery->block) / 1000, recovery->token_floor);
  }
  watches_.StartAt(recovered->machine->index());
  engine_ = std::make_unique<Engine>(std::move(recovered->machine), journal_->Last(),
                                     options_.engine, recovery);
  state_time_at_start_ = engine_->machine().now();
  state_time_ = state_time_at_start_;
  started_at_ = clock_.Boot();
  {
    const std::lock_guard lock(drive_mutex_);
    Append();  // the EpochStart: from here on this process is the log's writer
    if (!accepting_writes_) {
      return Error{ErrorCode::kDiskFull,
                   "the first entry cannot be written: no space in " + options_.data_directory,
                   {},
                   {}};
    }
  }
  shadow_ = std::make_unique<Shadow>(
      files, *journal_, clock_,
      ShadowOptions{options_.data_directory, options_.snapshot_bytes, options_.snapshots_kept},
      recovered->snapshot);
  ticker_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "ticker");
    TickLoop();
  });
  return {};
}

EmbeddedRunner::~EmbeddedRunner() {
  Stop();
}

FrontId EmbeddedRunner::Attach(Front& front) {
  const std::lock_guard lock(drive_mutex_);
  return fronts_.Attach(front);
}

void EmbeddedRunner::Detach(FrontId front) {
  {
    const std::lock_guard lock(drive_mutex_);
    fronts_.Detach(front);
  }
  EngineInput input;
  input.kind = EngineInput::Kind::kFrontGone;
  input.front = front;
  {
    const std::lock_guard lock(inbox_mutex_);
    inbox_.push_back(std::move(input));
    inbox_size_ = inbox_.size();
  }
  Drive();
}

void EmbeddedRunner::Submit(FrontId front, std::vector<Proposal>&& proposals) {
  {
    const std::lock_guard lock(inbox_mutex_);
    for (Proposal& proposal : proposals) {
      inbox_.push_back(EngineInput{EngineInput::Kind::kPropose, front, std::move(proposal)});
    }
    inbox_size_ = inbox_.size();
  }
  Drive();
}

void EmbeddedRunner::Abandon(FrontId front, std::vector<std::uint64_t>&& tags) {
  {
    const std::lock_guard lock(inbox_mutex_);
    for (const std::uint64_t tag : tags) {
      EngineInput input;
      input.kind = EngineInput::Kind::kAbandon;
      input.front = front;
      input.proposal.tag = tag;
      inbox_.push_back(std::move(input));
    }
    inbox_size_ = inbox_.size();
  }
  Drive();
}

void EmbeddedRunner::AddObserver(Observer& observer) {
  const std::lock_guard lock(drive_mutex_);  // the ticker drives already
  observers_.push_back(&observer);
}

// Whoever cannot take the wheel may leave: the driver looks into the inbox once more after it has
// let go of it.
void EmbeddedRunner::Drive() {
  for (int round = 0; round < kRoundsMax;) {
    {
      const std::unique_lock lock(drive_mutex_, std::try_to_lock);
      if (!lock.owns_lock()) {
        return;
      }
      while (round < kRoundsMax && DriveOnce()) {
        ++round;
      }
    }
    if (inbox_size_ == 0) {
      return;
    }
  }
  const std::lock_guard lock(tick_mutex_);
  tick_wanted_ = true;
  tick_changed_.notify_one();
}

// One turn: everything that was handed over goes into one batch. False if there was nothing to do.
bool EmbeddedRunner::DriveOnce() {
  {
    const std::lock_guard lock(inbox_mutex_);
    taken_.swap(inbox_);
    inbox_size_ = 0;
  }
  for (EngineInput& input : taken_) {
    if (stopping_ && input.kind == EngineInput::Kind::kPropose) {
      output_.replies.emplace_back(
          input.front, Reply{input.proposal.tag,
                             Error{ErrorCode::kUnavailable, "the server is stopping", {}, {}}, 0});
    } else {
      engine_->Accept(std::move(input), output_);
    }
  }
  const bool any = !taken_.empty();
  taken_.clear();
  const bool append = engine_->WantsBatch() || TickDue();
  if (append) {
    Append();
  }
  if (any || append) {
    engine_->AnswerReads(clock_.Boot(), output_);
    fronts_.Deliver(output_);
  }
  return any || append;
}

bool EmbeddedRunner::TickDue() {
  return clock_.Boot() - last_batch_at_ >= options_.tick;
}

void EmbeddedRunner::Append() {
  const std::vector<journal::Entry>& entries = engine_->Seal(clock_);
  last_batch_at_ = clock_.Boot();
  if (Status appended = journal_->Append(entries); !appended.ok()) {
    if (accepting_writes_.exchange(false)) {
      log::Error("the log cannot be written; refusing until it can error=\"{}\"",
                 appended.error().message);
    }
    engine_->Failed(
        Error{ErrorCode::kUnavailable,
              "the log cannot be written, nothing was done: " + appended.error().message,
              {},
              {}},
        output_);
    return;
  }
  if (!accepting_writes_.exchange(true)) {
    log::Info("the log can be written again");
  }
  engine_->Committed();
  if (recovery_pending_) {
    if (Status cleared = journal_->ClearRecovery(); !cleared.ok()) {
      log::Error("the mark of the recovery stays, the next start waits again error=\"{}\"",
                 cleared.error().message);
    }
    recovery_pending_ = false;
  }
  for (Observer* observer : observers_) {
    observer->OnApplied(engine_->last_batch(), engine_->last_applied());
  }
  Measure(entries);
  engine_->Answer(output_);
  watches_.Publish(engine_->last_batch().index, engine_->last_batch().wall, engine_->events());
  if (shadow_ != nullptr) {
    shadow_->Advance(engine_->machine().index(), engine_->machine().trace());
  }
  const std::lock_guard lock(stats_mutex_);
  stats_ = engine_->Stats();
}

// After the last batch was applied, before its parts are moved out.
void EmbeddedRunner::Measure(const std::vector<journal::Entry>& entries) {
  state_time_.store(engine_->machine().now(), std::memory_order_relaxed);
  std::size_t bytes = 0;
  for (const journal::Entry& entry : entries) {
    bytes += entry.payload.size();
  }
  meter_.Record(clock_.Boot() - last_batch_at_, engine_->last_batch().commands.size(), bytes);
}

void EmbeddedRunner::TickLoop() {
  Duration pause = options_.tick;
  while (!stopping_) {
    {
      std::unique_lock lock(tick_mutex_);
      tick_changed_.wait_for(lock, pause, [this] { return tick_wanted_ || stopping_; });
      tick_wanted_ = false;
    }
    const std::lock_guard lock(drive_mutex_);
    while (!stopping_ && (DriveOnce() || Catchup())) {
    }
    pause = std::clamp(last_batch_at_ + options_.tick - clock_.Boot(), Millis(1), options_.tick);
  }
}

// Expiries that did not fit into the last batch do not wait for the next tick.
bool EmbeddedRunner::Catchup() {
  if (!engine_->HasBacklog() || !accepting_writes_) {
    return false;
  }
  Append();
  fronts_.Deliver(output_);
  return true;
}

RunnerStats EmbeddedRunner::Stats() const {
  RunnerStats stats;
  {
    const std::lock_guard lock(stats_mutex_);
    stats.engine = stats_;
  }
  stats.journal = journal_->Stats();
  stats.shadow = shadow_->Stats();
  stats.journal_first_index = journal_->FirstIndex();
  stats.accepting_writes = accepting_writes_;
  stats.started_at = started_at_;
  stats.inbox = inbox_size_;
  stats.state_time_lag = (clock_.Boot() - started_at_) -
                         (state_time_.load(std::memory_order_relaxed) - state_time_at_start_);
  meter_.Read(stats);
  return stats;
}

void EmbeddedRunner::Stop() {
  if (stopping_.exchange(true)) {
    return;
  }
  {
    const std::lock_guard lock(tick_mutex_);
    tick_changed_.notify_one();
  }
  if (ticker_.joinable()) {
    ticker_.join();
  }
  if (engine_ != nullptr && shadow_ != nullptr) {
    const std::lock_guard lock(drive_mutex_);
    while (DriveOnce() && engine_->WantsBatch() && accepting_writes_) {
    }
  }
  shadow_.reset();
}

}  // namespace holdfast::engine
