#include "engine/shadow.h"

#include <algorithm>

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"

namespace holdfast::engine {
namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 20U;
// The shadow has no hurry: it looks for work this often, so that following costs few wake-ups.
constexpr auto kInterval = std::chrono::milliseconds(20);
// A snapshot keeps a core busy for a while: the engine and the fronts go first.
constexpr int kNiceness = 10;

}  // namespace

Shadow::Shadow(storage::FileSystem& files, journal::FileJournal& journal, Clock& clock,
               const ShadowOptions& options, const journal::SnapshotHeader& start)
    : files_(files), journal_(journal), clock_(clock), options_(options), start_(start) {
  stats_.snapshot_index = start.index;
  stats_.index = start.index;
  committed_ = journal.Last().index;
  next_index_ = start.index + 1;
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "shadow");
    // On Linux, of this thread alone.
    setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNiceness);
    Run();
  });
}

Shadow::~Shadow() {
  stopping_ = true;
  changed_.notify_all();
  thread_.join();
}

void Shadow::Advance(std::uint64_t index, std::uint64_t trace) {
  const std::lock_guard lock(mutex_);
  committed_ = index;
  traces_.emplace_back(index, trace);
  if (traces_.size() > kTracesMax) {
    traces_.pop_front();
  }
}

ShadowStats Shadow::Stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void Shadow::Run() {
  // Its own copy from the disk: starting it does not stop the engine.
  machine_ = std::make_unique<core::Machine>();
  if (start_.index > 0) {
    journal::SnapshotStore store(files_, options_.directory);
    Result<journal::Snapshot> snapshot = store.Load(start_.index);
    HF_CHECK(snapshot.ok(), "the snapshot that recovery loaded does not load again");
    Result<std::unique_ptr<core::Machine>> machine = core::Machine::Load(snapshot->payload);
    HF_CHECK(machine.ok(), "the snapshot that recovery decoded does not decode again");
    machine_ = std::move(machine.value());
  }
  replayer_ = std::make_unique<Replayer>(*machine_);
  while (WaitForWork()) {
    if (Status done = Follow(); !done.ok()) {
      HF_CHECK(stopping_, "the shadow cannot read what the engine wrote");
      return;
    }
    if (bytes_since_snapshot_ >= options_.snapshot_bytes) {
      if (Status done = Snapshot(); !done.ok() && !stopping_) {
        log::Error("snapshot failed error=\"{}\"", done.error().message);
        bytes_since_snapshot_ /= 2;  // try again after some more log
      }
    }
    if (Status done = Chores(); !done.ok()) {
      log::Warning("chores of the data directory failed error=\"{}\"", done.error().message);
    }
  }
}

bool Shadow::WaitForWork() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kInterval, [this] { return stopping_.load(); });
  return !stopping_;
}

Status Shadow::Follow() {
  std::uint64_t target = 0;
  {
    const std::lock_guard lock(mutex_);
    target = committed_;
  }
  while (next_index_ <= target && !stopping_) {
    Result<std::vector<journal::Entry>> entries = journal_.Read(next_index_, kReadBytes);
    if (!entries.ok()) {
      return entries.error();
    }
    for (journal::Entry& entry : *entries) {
      if (entry.index > target) {
        break;
      }
      if (Status fed = replayer_->Feed(entry); !fed.ok()) {
        return fed;
      }
      Compare();
      bytes_since_snapshot_ += entry.payload.size();
      next_index_ = entry.index + 1;
      last_entry_ = std::move(entry);
    }
    const std::lock_guard lock(mutex_);
    stats_.index = next_index_ - 1;
  }
  return {};
}

void Shadow::Compare() {
  const std::lock_guard lock(mutex_);
  while (!traces_.empty() && traces_.front().first < machine_->index()) {
    traces_.pop_front();
  }
  if (!traces_.empty() && traces_.front().first == machine_->index()) {
    HF_CHECK(traces_.front().second == machine_->trace(),
             "the shadow copy has another state than the engine (I10)");
  }
}

Status Shadow::Snapshot() {
  if (machine_->index() != last_entry_.index) {
    return {};  // in the middle of a batch of several fragments: a moment later
  }
  const BootTime begun = clock_.Boot();
  journal::SnapshotStore store(files_, options_.directory);
  journal::SnapshotHeader header;
  header.index = last_entry_.index;
  header.epoch = last_entry_.epoch;
  header.entry_hash = journal::EntryHash(last_entry_);
  header.time = machine_->now();
  Result<std::unique_ptr<journal::SnapshotWriter>> writer = store.Begin(header);
  if (!writer.ok()) {
    return writer.error();
  }
  Status written;
  std::uint64_t bytes = 0;
  machine_->Save([&](std::string_view piece) {
    bytes += piece.size();
    if (written.ok() && !stopping_) {
      written = (*writer)->Write(piece);
    }
  });
  if (!written.ok() || stopping_) {
    return written;
  }
  if (Status finished = (*writer)->Finish(); !finished.ok()) {
    return finished;
  }
  bytes_since_snapshot_ = 0;
  {
    const std::lock_guard lock(mutex_);
    stats_.snapshot_index = header.index;
    stats_.snapshot_at = clock_.Wall();
    ++stats_.snapshots;
  }
  log::Info("snapshot written index={} bytes={} took_ms={}", header.index, bytes,
            ToMillis(clock_.Boot() - begun));
  if (Status retained = store.Retain(options_.snapshots_kept); !retained.ok()) {
    return retained;
  }
  Result<std::vector<std::uint64_t>> kept = store.List();
  if (!kept.ok()) {
    return kept.error();
  }
  // The oldest snapshot that is kept must find the log behind it.
  return journal_.Trim(kept->front() + 1);
}

Status Shadow::Chores() {
  return journal_.PrepareSegment();
}

}  // namespace holdfast::engine
