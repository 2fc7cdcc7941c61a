#include "sim/server.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "base/id.h"
#include "journal/snapshot_store.h"

namespace holdfast::sim {
namespace {

constexpr const char* kDirectory = "data";
constexpr Duration kTick = Millis(200);
constexpr Duration kSync = Millis(2);
constexpr std::size_t kReadBytes = std::size_t{4} << 20U;
constexpr engine::FrontId kFront = 1;
constexpr std::size_t kSnapshotsKept = 2;

}  // namespace

Server::Server(std::uint64_t seed) : Site(seed), replica_(std::make_unique<core::Machine>()) {
  replayer_.emplace(*replica_);
}

void Server::Start(int /*node*/) {
  ++life_;
  sync_failed_ = false;
  sealed_ = false;
  accepting_ = true;
  journal::FileJournalOptions journal_options;
  journal_options.segment_bytes = std::uint64_t{64} << 10U;
  journal_options.created = Wall();
  journal_options.log_id = dice_.Draw();
  journal_options.on_sync_failure = [this](const Error&) { sync_failed_ = true; };
  Result<engine::Recovered> recovered = engine::Recover(files_, kDirectory, journal_options);
  if (files_.PowerIsOff()) {
    CutPower(0);
    Restart(Seconds(1));
    return;
  }
  if (!recovered.ok() || sync_failed_) {
    const bool disk = sync_failed_ || recovered.error().code == ErrorCode::kDiskFull ||
                      recovered.error().code == ErrorCode::kIo;
    if (!disk) {
      Violated("the data directory does not open: " + recovered.error().message);
      return;
    }
    Count("start refused by the disk");
    files_.CrashProcess();
    Restart(Seconds(1));
    return;
  }
  journal_ = std::move(recovered->journal);
  if (journal_->Last().index < replica_index_) {
    Violated(fmt::format("I5: entries after {} are gone, {} were acknowledged",
                         journal_->Last().index, replica_index_));
    return;
  }
  FollowLog();
  if (replica_->trace() != recovered->machine->trace()) {
    Violated(fmt::format("I10: replay differs at entry {}", replica_index_));
  }
  engine::EngineOptions own = options;
  engine_ = std::make_unique<engine::Engine>(std::move(recovered->machine), journal_->Last(), own,
                                             std::nullopt);
  last_batch_at_ = Boot();
  DriveAt(now());
}

void Server::Restart(Duration after) {
  scheduler_.In(after, [this, life = life_] {
    if (life == life_ && engine_ == nullptr && violation_.empty()) {
      Start(0);
    }
  });
}

void Server::End() {
  engine_.reset();
  journal_.reset();
  output_.replies.clear();
  open_.clear();
  sealed_ = false;
  drive_at_ = BootTime{};
  paused_until_ = BootTime{};
  ++life_;
}

void Server::Kill(int /*node*/) {
  End();
  files_.CrashProcess();
}

void Server::CutPower(int /*node*/) {
  End();
  // Garbage in flight looks like damage: the start is refused (docs/formats/journal.md).
  files_.CrashPower(dice_.Next(), storage::FateOdds{.garbled = 0});
  files_.SetBytesLeft(std::nullopt);
}

void Server::CutPowerInSync() {
  files_.PowerOffAtSyncPoint(files_.SyncPoints() + dice_.Below(4));
}

void Server::FillDisk(Duration duration) {
  files_.SetBytesLeft(dice_.Below(20'000));
  scheduler_.In(duration, [this] {
    files_.SetBytesLeft(std::nullopt);
    DriveAt(now());
  });
}

void Server::SlowDisk(Duration sync, Duration duration) {
  slow_sync_ = sync;
  slow_until_ = now() + duration;
}

std::string Server::WhyBehind(int /*node*/) {
  return engine_ == nullptr ? "the server is down"
         : !accepting_      ? "the server does not take writes"
                            : std::string();
}

std::uint64_t Server::Serve(int /*node*/, EngineRequest request, OnReply reply) {
  const std::uint64_t number = ++served_;
  open_.emplace(number, std::move(reply));
  engine_->Accept(
      {engine::EngineInput::Kind::kPropose, kFront, engine::Proposal{number, std::move(request)}},
      output_);
  DriveAt(now());
  return number;
}

void Server::Abandon(int /*node*/, std::uint64_t number) {
  if (engine_ != nullptr && open_.erase(number) > 0) {
    engine_->Accept({engine::EngineInput::Kind::kAbandon, kFront, engine::Proposal{number, {}}},
                    output_);
    DriveAt(now());
  }
}

void Server::DriveAt(BootTime at) {
  at = std::max({at, now(), paused_until_});
  if (drive_at_ > now() && drive_at_ <= at) {
    return;
  }
  drive_at_ = at;
  scheduler_.At(at, [this, at, life = life_] {
    if (life == life_ && engine_ != nullptr && drive_at_ == at) {
      drive_at_ = BootTime{};
      Drive();
    }
  });
}

void Server::Drive() {
  if (IsPaused(0)) {
    DriveAt(paused_until_);
    return;
  }
  if (sealed_) {
    return;  // the append goes on
  }
  if (engine_->WantsBatch() || engine_->HasBacklog() || Boot() - last_batch_at_ >= kTick) {
    Seal();
    return;
  }
  engine_->AnswerReads(Boot(), output_);
  Deliver();
  DriveAt(clocks_.TrueTime(last_batch_at_ + kTick));
}

// The batch is durable a sync later; what arrives meanwhile forms the next one.
void Server::Seal() {
  (void)engine_->Seal(*this);
  last_batch_at_ = Boot();
  sealed_ = true;
  const Duration sync = now() < slow_until_ ? slow_sync_ : kSync;
  scheduler_.In(dice_.UpTo(sync), [this, life = life_] {
    if (life == life_) {
      Append();
    }
  });
}

void Server::Append() {
  if (IsPaused(0)) {
    scheduler_.At(paused_until_, [this, life = life_] {
      if (life == life_) {
        Append();
      }
    });
    return;
  }
  const Status appended = journal_->Append(engine_->sealed());
  if (files_.PowerIsOff()) {
    Count("power cut in a sync");
    CutPower(0);
    Restart(dice_.UpTo(Seconds(3)));
    return;
  }
  if (sync_failed_) {
    Count("process ended by a failed sync");
    Kill(0);
    Restart(dice_.UpTo(Seconds(3)));
    return;
  }
  sealed_ = false;
  if (!appended.ok()) {
    Count("append refused by a full disk");
    accepting_ = false;
    engine_->Failed(Error{ErrorCode::kUnavailable, "the log cannot be written", {}, {}}, output_);
    Deliver();
    DriveAt(now() + kTick);
    return;
  }
  accepting_ = true;
  engine_->Committed();
  for (const journal::Entry& entry : engine_->sealed()) {
    bytes_since_snapshot_ += entry.payload.size();
  }
  FollowLog();
  if (replica_->trace() != engine_->machine().trace()) {
    Violated(fmt::format("I10: the replica differs at entry {}", replica_index_));
  }
  engine_->Answer(output_);
  engine_->AnswerSealedReads(Boot(), output_);
  Deliver();
  (void)journal_->PrepareSegment();
  if (bytes_since_snapshot_ >= snapshot_bytes && !files_.PowerIsOff()) {
    Snapshot();
  }
  if (files_.PowerIsOff()) {
    Count("power cut beside an append");
    CutPower(0);
    Restart(dice_.UpTo(Seconds(3)));
    return;
  }
  Drive();
}

void Server::Deliver() {
  std::vector<std::pair<OnReply, engine::Reply>> replies;
  for (auto& [front, reply] : output_.replies) {
    if (const auto found = open_.find(reply.tag); found != open_.end()) {
      replies.emplace_back(std::move(found->second), std::move(reply));
      open_.erase(found);
    }
  }
  output_.replies.clear();
  for (auto& [on_reply, reply] : replies) {
    on_reply(std::move(reply));
  }
}

void Server::FollowLog() {
  const std::uint64_t last = journal_->Last().index;
  while (replica_index_ < last) {
    const Result<std::vector<journal::Entry>> entries =
        journal_->Read(replica_index_ + 1, kReadBytes);
    if (!entries.ok()) {
      Violated("I5: the log lacks an entry: " + entries.error().message);
      return;
    }
    for (const journal::Entry& entry : *entries) {
      if (const Status fed = replayer_->Feed(entry); !fed.ok()) {
        Violated("I10: an entry does not replay: " + fed.error().message);
        return;
      }
      replica_index_ = entry.index;
      if (replayer_->completed()) {
        Observe(replayer_->last_batch(), replayer_->last_applied(), *replica_);
      }
    }
  }
}

void Server::Snapshot() {
  bytes_since_snapshot_ = 0;
  const journal::Position last = journal_->Last();
  journal::SnapshotHeader header;
  header.index = last.index;
  header.epoch = last.epoch;
  header.entry_hash = last.hash;
  header.time = engine_->machine().now();
  journal::SnapshotStore store(files_, kDirectory);
  auto writer = store.Begin(header);
  if (!writer.ok()) {
    Count("snapshot refused by the disk");
    return;
  }
  Status written;
  engine_->machine().Save([&](std::string_view piece) {
    if (written.ok()) {
      written = (*writer)->Write(piece);
    }
  });
  if (!written.ok() || !(*writer)->Finish().ok()) {
    Count("snapshot refused by the disk");
    return;
  }
  writer->reset();
  if (!store.Retain(kSnapshotsKept).ok()) {
    return;
  }
  Count("snapshot written");
  if (const auto kept = store.List(); kept.ok() && !kept->empty()) {
    (void)journal_->Trim(kept->front() + 1);
  }
}

}  // namespace holdfast::sim
