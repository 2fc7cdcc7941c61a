// Member as the leader: its engine's batches go into the log, one append at a time.
#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "base/log.h"
#include "base/planted.h"
#include "engine/member.h"

namespace holdfast::engine {
namespace {

// Tokens are reserved in blocks; a batch grants far fewer than the margin.
constexpr std::uint64_t kTokenMargin = 100'000;
constexpr std::uint64_t kTokenBlock = 10'000'000;

}  // namespace

void Member::Lead() {
  EngineOptions options = options_.engine;
  options.epoch = my_epoch_.epoch;
  options.log_time = follower_.time();
  appender_.emplace(layout_, epoch_revision_, follower_.last().index, follower_.last_revision());
  replayer_.reset();
  engine_ = std::make_unique<Engine>(std::move(machine_), follower_.last(), options, std::nullopt);
  last_batch_at_ = now_;
  refusing_ = false;
  stepping_down_ = leaving_;
  BecomeRole(Role::kLeading);
  for (EngineInput& input : std::exchange(pending_, {})) {
    Accept(std::move(input));
  }
  DriveLeader();
}

void Member::DriveLeader() {
  if (role_ != Role::kLeading || step_ != Step::kNone) {
    return;
  }
  WakeAt(last_batch_at_ + options_.tick);
  if (engine_->machine().last_token() + kTokenMargin > floor_.token_floor) {
    reserving_ = engine_->machine().last_token() + kTokenBlock;
    Begin(Step::kReserve);
    return;
  }
  if (stepping_down_ && !engine_->WantsBatch()) {
    Begin(Step::kHandOver);
    return;
  }
  if (ShouldSeal()) {
    first_queued_at_ = BootTime{};
    before_batch_ = follower_;
    entries_ = &engine_->Seal(clock_);
    next_entry_ = 0;
    last_batch_at_ = now_;
    last_batch_bytes_ = 0;
    AppendNext();
  }
}

// Whoever was answered by the last batch usually asks again at once. To seal at the first of them
// would send a batch of one, and make all others wait for two commits; so a batch waits for as many
// as were answered, but no longer than a third of what a commit takes.
bool Member::ShouldSeal() {
  if (engine_->HasBacklog() || now_ - last_batch_at_ >= options_.tick) {
    return true;
  }
  if (!engine_->WantsBatch() && !engine_->WantsReads()) {
    first_queued_at_ = BootTime{};
    return false;
  }
  if (first_queued_at_ == BootTime{}) {
    first_queued_at_ = now_;
  }
  const Duration hold = std::min(commit_time_ / 3, options_.hold_max);
  if (engine_->queued() >= last_answered_ || now_ - first_queued_at_ >= hold) {
    return true;
  }
  WakeAt(first_queued_at_ + hold);
  return false;
}

void Member::AppendNext() {
  appender_->Begin((*entries_)[next_entry_]);
  Begin(Step::kAppend);
}

void Member::OnAppend(const etcd::Answer& answer) {
  const etcd::Appender::Verdict verdict = appender_->OnAnswer(answer);
  switch (verdict) {
    case etcd::Appender::Verdict::kAgain:
      ++unknown_appends_;
      Again();
      if (Planted(Bug::kRetriesWithNewBytes) && next_entry_ == 0) {
        engine_->Failed(Error{ErrorCode::kUnavailable, "not done, as it seems", {}, {}}, output_);
        entries_ = nullptr;
        appender_.emplace(layout_, epoch_revision_, follower_.last().index,
                          appender_->last_revision());
        step_ = Step::kNone;
      }
      return;
    case etcd::Appender::Verdict::kDeposed:
      step_ = Step::kNone;
      Resign("another node leads");
      return;
    case etcd::Appender::Verdict::kBroken:
      Fail(appender_->error());
      return;
    case etcd::Appender::Verdict::kCommitted:
      break;
  }
  step_ = Step::kNone;
  const journal::Entry& entry = (*entries_)[next_entry_];
  follower_.Appended(entry);
  log_bytes_ += entry.payload.size();
  ++appends_;
  appended_bytes_ += entry.payload.size();
  bytes_since_snapshot_ += entry.payload.size();
  last_batch_bytes_ += entry.payload.size();
  if (++next_entry_ < entries_->size()) {
    AppendNext();
    return;
  }
  entries_ = nullptr;
  before_batch_.reset();
  commit_time_ += (now_ - last_batch_at_ - commit_time_) / 8;
  engine_->Committed();
  host_.OnApplied(engine_->last_batch(), engine_->last_applied(), engine_->events());
  const std::size_t before = output_.replies.size();
  engine_->Answer(output_);
  engine_->AnswerSealedReads(now_, output_);
  last_answered_ = output_.replies.size() - before;
  DriveLeader();
}

// The record has a guard of its own: a send whose outcome was unknown may be done much later, and
// must not lower it then.
void Member::OnReserve(const etcd::TxnResult& result) {
  const etcd::KeyValue* epoch = etcd::FirstOf(result, 0);
  const etcd::KeyValue* floor = etcd::FirstOf(result, 1);
  if (result.succeeded) {
    floor_.token_floor = reserving_;
    floor_revision_ = result.revision;
  } else if (epoch == nullptr || floor == nullptr) {
    Fail(Error{ErrorCode::kCorrupt, "a record of the log is gone from etcd", {}, {}});
    return;
  } else if (epoch->mod_revision != epoch_revision_) {
    Resign("another node leads");
    return;
  } else if (!AdoptFloor(*floor)) {
    return;
  }
  DriveLeader();
}

// Nobody waits for ever: what is queued was not done, what is on its way may be. Also of a node
// that has won the epoch and cannot read the log.
void Member::RefuseIfSilent() {
  if (step_ == Step::kNone) {
    return;
  }
  if (now_ - step_began_at_ >= options_.refuse_after) {
    if (!std::exchange(refusing_, true)) {
      log::Error("etcd does not commit, requests are refused since_ms={} error=\"{}\"",
                 ToMillis(now_ - step_began_at_), last_failure_);
    }
    if (engine_ != nullptr) {
      engine_->GiveUp(output_);
    }
    RefusePending();
  } else {
    WakeAt(step_began_at_ + options_.refuse_after);
  }
}

// The state goes back to what the log is known to have; the rest is read from there.
void Member::Resign(const char* why) {
  log::Warning("this node leads no more epoch={} reason=\"{}\"", my_epoch_.epoch, why);
  if (entries_ != nullptr) {
    if (!Planted(Bug::kForgetsFragments)) {
      follower_ = *before_batch_;
    }
    entries_ = nullptr;
    before_batch_.reset();
  }
  const EngineStats stats = engine_->Stats();
  idle_stats_ = stats;
  machine_ = engine_->Resign(output_);
  engine_.reset();
  appender_.reset();
  trim_plan_.reset();
  if (chore_ != Chore::kBeat) {
    chore_ = Chore::kNone;  // its answer is of no more use
    chore_call_ = 0;
  }
  replayer_.emplace(*machine_);
  last_checked_ = false;
  refusing_ = false;
  if (std::exchange(stepping_down_, false)) {
    takeover_not_before_ = now_ + options_.stand_back;
  }
  step_ = Step::kNone;
  main_call_ = 0;
  BecomeRole(Role::kJoining);
  WakeAt(now_);
}

void Member::StepDown(StepDownFor how) {
  leaving_ = leaving_ || how == StepDownFor::kGood;
  stepping_down_ = role_ == Role::kLeading;
  now_ = clock_.Boot();
  takeover_not_before_ = std::max(takeover_not_before_, now_ + options_.stand_back);
  WakeAt(now_);
}

}  // namespace holdfast::engine
