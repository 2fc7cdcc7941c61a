#include "engine/engine.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "base/id.h"
#include "base/planted.h"
#include "codec/batch_codec.h"
#include "core/validate.h"

namespace holdfast::engine {
namespace {

// The randomness that a command needs: ids of leases and sessions are capabilities, so they come
// from the CSPRNG, here and not in the core.
void StampIds(core::Command& command, Clock& clock) {
  if (auto* acquire = std::get_if<core::Acquire>(&command.body); acquire != nullptr) {
    acquire->lease_id = clock.NewId();
  } else if (auto* open = std::get_if<core::OpenSession>(&command.body); open != nullptr) {
    open->session_id = clock.NewId();
  }
}

}  // namespace

Engine::Engine(std::unique_ptr<core::Machine> machine, const journal::Position& last,
               const EngineOptions& options, std::optional<core::RecoverState> recovery)
    : machine_(std::move(machine)),
      options_(options),
      timer_(std::max(machine_->now(), options.log_time)),
      last_(last),
      epoch_(options.epoch != 0 ? options.epoch : std::max(last.epoch, machine_->epoch()) + 1),
      recovery_(recovery),
      admission_(options.admission) {
  timer_.StartEpoch(std::max(machine_->now(), options.log_time));
}

void Engine::Accept(EngineInput&& input, EngineOutput& output) {
  switch (input.kind) {
    case EngineInput::Kind::kPropose:
      Propose(input.front, std::move(input.proposal), output);
      return;
    case EngineInput::Kind::kAbandon:
      Abandon(ReplyTo{input.front, input.proposal.tag});
      return;
    case EngineInput::Kind::kFrontGone:
      for (const ReplyTo& to : waiting_.Of(input.front)) {
        Abandon(to);
      }
      for (const ReplyTo& to : reply_to_) {
        if (in_flight_ && to.front == input.front) {
          Abandon(to);
        }
      }
      for (const ReplyTo& to : admission_.Of(input.front)) {
        Abandon(to);
      }
      return;
  }
}

void Engine::Propose(FrontId front, Proposal&& proposal, EngineOutput& output) {
  const ReplyTo to{front, proposal.tag};
  if (auto* query = std::get_if<core::Query>(&proposal.request); query != nullptr) {
    if (Status valid = core::Validate(*query); !valid.ok()) {
      ReplyError(to, valid.error(), output);
    } else {
      reads_.push_back(QueuedRead{to, std::move(*query)});
    }
    return;
  }
  auto& command = std::get<core::Command>(proposal.request);
  if (Status admitted = machine_->Admit(command); !admitted.ok()) {
    ReplyError(to, admitted.error(), output);
    return;
  }
  if (!admission_.Add(QueuedCommand{to, std::move(command)})) {
    ++stats_.overloaded;
    ReplyError(
        to,
        Error{ErrorCode::kOverloaded, "the queue of the engine is full; nothing was done", {}, {}},
        output);
    return;
  }
  ++accepted_;
}

void Engine::Abandon(const ReplyTo& to) {
  if (const std::optional<core::Detach> detach = waiting_.Abandon(to); detach.has_value()) {
    admission_.Add(QueuedCommand{ReplyTo{}, core::Command{{}, {}, *detach}});
    ++accepted_;
  } else if (accepted_ != applied_count_) {
    abandoned_[to] = accepted_;
    abandoned_order_.emplace_back(accepted_, to);
  }
}

bool Engine::TakeAbandoned(const ReplyTo& to) {
  return !abandoned_.empty() && abandoned_.erase(to) > 0;
}

void Engine::ForgetAbandoned() {
  while (!abandoned_order_.empty() && abandoned_order_.front().first <= applied_count_) {
    const auto& [at, to] = abandoned_order_.front();
    if (const auto found = abandoned_.find(to); found != abandoned_.end() && found->second == at) {
      abandoned_.erase(found);
    }
    abandoned_order_.pop_front();
  }
}

const std::vector<journal::Entry>& Engine::Seal(Clock& clock) {
  HF_CHECK(!in_flight_, "one batch is in flight at a time");
  in_flight_ = true;
  batch_ = core::Batch{};
  reply_to_.clear();
  std::move(reads_.begin(), reads_.end(), std::back_inserter(sealed_reads_));
  reads_.clear();
  if (epoch_pending_) {
    batch_.commands.push_back(
        core::Command{{}, {}, core::EpochStart{epoch_, options_.failover_grace}});
    reply_to_.push_back(ReplyTo{});
    if (recovery_.has_value()) {
      batch_.commands.push_back(core::Command{{}, {}, *recovery_});
      reply_to_.push_back(ReplyTo{});
    }
  }
  std::vector<QueuedCommand> taken =
      admission_.Take(options_.batch_commands_max, options_.batch_bytes_max,
                      [this](const core::Command& command) { return machine_->TimeLeft(command); });
  batch_.commands.reserve(batch_.commands.size() + taken.size());
  for (QueuedCommand& queued : taken) {
    StampIds(queued.command, clock);
    batch_.commands.push_back(std::move(queued.command));
    reply_to_.push_back(queued.to);
  }
  // The stamp comes after the seal: time that passed while requests arrived must be in it, or their
  // remaining times would be too long.
  BootTime present = clock.Boot();
  if (Planted(Bug::kStateTimeBeforeSeal)) {
    present = std::exchange(early_stamp_, std::nullopt).value_or(present);
  }
  batch_.epoch = epoch_;
  batch_.time = timer_.Stamp(present);
  batch_.wall = std::max(machine_->wall(), clock.Wall());
  Encode();
  if (Planted(Bug::kStateTimeBeforeSeal)) {
    early_stamp_ = clock.Boot();
  }
  return entries_;
}

void Engine::Encode() {
  ByteWriter payload;
  codec::EncodeBatch(batch_, machine_->feature_level(), payload);
  const std::string bytes = payload.Take();
  const std::size_t fragments =
      (bytes.size() + options_.entry_bytes_max - 1) / options_.entry_bytes_max;
  entries_.clear();
  Id128 previous = last_.hash;
  for (std::size_t i = 0; i < fragments; ++i) {
    journal::Entry& entry = entries_.emplace_back();
    entry.index = last_.index + 1 + i;
    entry.epoch = epoch_;
    entry.time = batch_.time;
    entry.previous_hash = previous;
    entry.fragment = static_cast<std::uint32_t>(i);
    entry.fragments = static_cast<std::uint32_t>(fragments);
    entry.payload = bytes.substr(i * options_.entry_bytes_max, options_.entry_bytes_max);
    previous = journal::EntryHash(entry);
  }
  batch_.index = last_.index + fragments;
}

void Engine::Committed() {
  HF_CHECK(in_flight_, "a batch is in flight");
  in_flight_ = false;
  epoch_pending_ = false;
  recovery_.reset();
  last_ = journal::Position{batch_.index, epoch_, journal::EntryHash(entries_.back())};
  timer_.Commit(batch_.time);
  machine_->Apply(batch_, applied_);
  ++stats_.batches;
  stats_.commands += batch_.commands.size();
}

void Engine::Answer(EngineOutput& output) {
  for (std::size_t i = 0; i < reply_to_.size(); ++i) {
    Reply(reply_to_[i], std::move(applied_.outcomes[i]), output);
  }
  applied_count_ = accepted_ - admission_.size();
  for (core::Resolution& resolution : applied_.resolutions) {
    if (const auto to = waiting_.Resolve(resolution.waiter, resolution.attachment);
        to.has_value()) {
      output.replies.emplace_back(
          to->front, engine::Reply{to->tag, std::move(resolution.outcome), batch_.index, true});
    }
  }
  ForgetAbandoned();
}

void Engine::Reply(const ReplyTo& to, core::Outcome&& outcome, EngineOutput& output) {
  if (to.front == 0) {
    return;
  }
  const bool gone = TakeAbandoned(to);
  if (const auto* queued = std::get_if<core::Queued>(&outcome); queued != nullptr) {
    if (const auto before = waiting_.Add(queued->waiter, queued->attachment, to);
        before.has_value()) {
      core::Refused superseded;
      superseded.code = core::RefusalCode::kSuperseded;
      output.replies.emplace_back(
          before->front,
          engine::Reply{before->tag, core::Outcome(std::move(superseded)), batch_.index, true});
    }
    if (gone) {
      Abandon(to);
    }
    return;
  }
  if (!gone) {
    output.replies.emplace_back(to.front, engine::Reply{to.tag, std::move(outcome), batch_.index});
  }
}

void Engine::ReplyError(const ReplyTo& to, const Error& error, EngineOutput& output) {
  if (to.front != 0) {
    output.replies.emplace_back(to.front, engine::Reply{to.tag, error, machine_->index()});
  }
}

void Engine::Failed(const Error& error, EngineOutput& output) {
  HF_CHECK(in_flight_, "a batch is in flight");
  in_flight_ = false;
  for (std::size_t i = 0; i < reply_to_.size(); ++i) {
    if (std::holds_alternative<core::Detach>(batch_.commands[i].body)) {
      admission_.Add(QueuedCommand{
          ReplyTo{}, std::move(batch_.commands[i])});  // its client will not ask again
    } else if (!TakeAbandoned(reply_to_[i])) {
      ReplyError(reply_to_[i], error, output);
    }
  }
  applied_count_ = accepted_ - admission_.size();
  ForgetAbandoned();
}

void Engine::AnswerReads(BootTime present, EngineOutput& output) {
  AnswerReads(sealed_reads_, present, output);
  AnswerReads(reads_, present, output);
}

void Engine::AnswerSealedReads(BootTime present, EngineOutput& output) {
  AnswerReads(sealed_reads_, present, output);
}

void Engine::AnswerReads(std::vector<QueuedRead>& reads, BootTime present, EngineOutput& output) {
  const Timestamp as_of = timer_.Present(present);
  for (const QueuedRead& read : reads) {
    output.replies.emplace_back(
        read.to.front,
        engine::Reply{read.to.tag, machine_->Answer(read.query, as_of), machine_->index()});
  }
  stats_.reads += reads.size();
  reads.clear();
}

void Engine::RefuseQueued(const Error& error, EngineOutput& output) {
  for (std::vector<QueuedRead>* reads : {&sealed_reads_, &reads_}) {
    for (const QueuedRead& read : *reads) {
      ReplyError(read.to, error, output);
    }
    reads->clear();
  }
  for (QueuedCommand& queued : admission_.TakeAll()) {
    if (std::holds_alternative<core::Detach>(queued.command.body)) {
      admission_.Add(std::move(queued));  // its client will not ask again
    } else if (!TakeAbandoned(queued.to)) {
      ReplyError(queued.to, error, output);
    }
  }
}

void Engine::GiveUp(EngineOutput& output) {
  RefuseQueued(
      Error{ErrorCode::kUnavailable, "the log cannot be written now; nothing was done", {}, {}},
      output);
  for (ReplyTo& to : reply_to_) {
    if (in_flight_ && to.front != 0 && abandoned_.find(to) == abandoned_.end()) {
      ReplyError(to,
                 Error{ErrorCode::kUnknownOutcome,
                       "the log does not answer: this may have been done or not; ask again with "
                       "the same request id",
                       {},
                       {}},
                 output);
      Abandon(to);
    }
  }
}

std::unique_ptr<core::Machine> Engine::Resign(EngineOutput& output) {
  const Error unknown{ErrorCode::kUnknownOutcome,
                      "this node leads no more: this may have been done or not; ask again with the "
                      "same request id",
                      {},
                      {}};
  RefuseQueued(Error{ErrorCode::kUnavailable, "this node leads no more; nothing was done", {}, {}},
               output);
  if (in_flight_) {
    for (const ReplyTo& to : reply_to_) {
      if (!TakeAbandoned(to)) {
        ReplyError(to, unknown, output);
      }
    }
  }
  for (const ReplyTo& to : waiting_.All()) {
    ReplyError(to, unknown, output);
  }
  return std::move(machine_);
}

EngineStats Engine::Stats() const {
  EngineStats stats = stats_;
  stats.index = machine_->index();
  stats.epoch = epoch_;
  stats.queue_depth = admission_.size() + reads_.size();
  stats.waiting = waiting_.size();
  return stats;
}

}  // namespace holdfast::engine
