// The shadow copy: a second state that follows the log on its own thread and is what snapshots are
// written from, so that the engine never pauses for one. It reads the journal like a standby would,
// needs no queue, and compares its trace with the engine's after every batch that both have: a
// difference means that replay is not deterministic (I10), and ends the process.
//
// The same thread does the slow chores of the data directory: zero-filling the next segment,
// trimming, removing old snapshots.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "core/machine.h"
#include "engine/clock.h"
#include "engine/recovery.h"
#include "journal/file_journal.h"
#include "journal/snapshot_store.h"
#include "storage/file_system.h"

namespace holdfast::engine {

struct ShadowOptions {
  std::string directory;
  std::uint64_t snapshot_bytes = std::uint64_t{256}
                                 << 20U;  // a snapshot after so many bytes of log
  std::size_t snapshots_kept = 2;
};

struct ShadowStats {
  std::uint64_t index = 0;
  std::uint64_t snapshot_index = 0;
  WallTime snapshot_at{};
  std::uint64_t snapshots = 0;
};

class Shadow {
 public:
  // Starts from the snapshot that recovery used. `journal` and `clock` must outlive the shadow.
  Shadow(storage::FileSystem& files, journal::FileJournal& journal, Clock& clock,
         const ShadowOptions& options, const journal::SnapshotHeader& start);
  // Stops the thread; a snapshot that is being written is given up.
  ~Shadow();

  // The engine has applied up to `index` and its trace is `trace`. Called after every batch; cheap.
  void Advance(std::uint64_t index, std::uint64_t trace);
  ShadowStats Stats() const;

 private:
  static constexpr std::size_t kTracesMax = 4096;

  void Run();
  bool WaitForWork();
  Status Follow();
  void Compare();
  Status Snapshot();
  Status Chores();

  storage::FileSystem& files_;
  journal::FileJournal& journal_;
  Clock& clock_;
  const ShadowOptions options_;

  // Only the shadow's thread.
  std::unique_ptr<core::Machine> machine_;
  std::unique_ptr<Replayer> replayer_;
  journal::SnapshotHeader start_;
  journal::Entry last_entry_;
  std::uint64_t next_index_ = 1;
  std::uint64_t bytes_since_snapshot_ = 0;

  // Under mutex_.
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t committed_ = 0;
  std::deque<std::pair<std::uint64_t, std::uint64_t>>
      traces_;  // (index, trace) of the engine's newest batches
  ShadowStats stats_;
  std::atomic<bool> stopping_{false};

  std::thread thread_;
};

}  // namespace holdfast::engine
