// The thin shell that gives the engine its threads and its disk, in one process.
//
// There is no engine thread. The engine is driven by one thread at a time, under `drive_mutex_`:
// whichever front finds it idle when it submits becomes the driver, and seals, appends, applies and
// answers until nothing is queued. Everybody else only adds to the queue and goes on. So a single
// front commits inline on its own loop, with no wake-up at all, and several fronts still share
// group commits (docs/decisions/0001-driver-instead-of-engine-thread.md). A ticker thread drives
// when nobody else does: a batch every 200 ms moves time. The shadow thread (shadow.h) makes
// snapshots.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/batch_meter.h"
#include "engine/clock.h"
#include "engine/engine.h"
#include "engine/front.h"
#include "engine/front_table.h"
#include "engine/observer.h"
#include "engine/runner.h"
#include "engine/shadow.h"
#include "engine/watch_hub.h"
#include "holdfast/result.h"
#include "journal/file_journal.h"
#include "storage/file_system.h"

namespace holdfast::engine {

struct RunnerOptions {
  std::string data_directory;
  EngineOptions engine;
  journal::FileJournalOptions journal;
  Duration tick = Millis(200);
  std::uint64_t snapshot_bytes = std::uint64_t{256}
                                 << 20U;  // a snapshot after so many bytes of log
  std::size_t snapshots_kept = 2;
};

class EmbeddedRunner : public Runner {
 public:
  // Recovers the data directory and starts the threads. Errors as FileJournal::Open and Recover
  // (recovery.h).
  static Result<std::unique_ptr<EmbeddedRunner>> Start(storage::FileSystem& files, Clock& clock,
                                                       const RunnerOptions& options);
  ~EmbeddedRunner() override;

  FrontId Attach(Front& front) override;
  void Detach(FrontId front) override;
  // May drive the engine before it returns.
  void Submit(FrontId front, std::vector<Proposal>&& proposals) override;
  void Abandon(FrontId front, std::vector<std::uint64_t>&& tags) override;
  void AddObserver(Observer& observer) override;
  WatchHub& watches() override { return watches_; }
  RunnerStats Stats() const override;
  void Stop() override;

 private:
  EmbeddedRunner(Clock& clock, const RunnerOptions& options);
  Status Open(storage::FileSystem& files);
  void Drive();
  bool DriveOnce();
  bool TickDue();
  bool Catchup();
  void Append();
  void Measure(const std::vector<journal::Entry>& entries);
  void TickLoop();

  Clock& clock_;
  const RunnerOptions options_;
  WatchHub watches_;
  std::vector<Observer*> observers_;
  BootTime started_at_{};

  // Only the driver, under drive_mutex_.
  mutable std::mutex drive_mutex_;
  std::unique_ptr<journal::FileJournal> journal_;
  std::unique_ptr<Engine> engine_;
  EngineOutput output_;
  std::vector<EngineInput> taken_;
  FrontTable fronts_;
  BootTime last_batch_at_{};
  bool recovery_pending_ = false;

  // Recorded by the driver, read by any thread.
  BatchMeter meter_;
  Timestamp state_time_at_start_{};
  std::atomic<Timestamp> state_time_{};

  // What fronts handed over and no driver has taken yet, under inbox_mutex_. Bounded by the fronts'
  // open requests.
  std::mutex inbox_mutex_;
  std::vector<EngineInput> inbox_;
  std::atomic<std::size_t> inbox_size_{0};  // a driver that leaves looks here once more

  std::atomic<bool> stopping_{false};
  std::atomic<bool> accepting_writes_{true};
  mutable std::mutex stats_mutex_;
  EngineStats stats_;

  std::unique_ptr<Shadow> shadow_;
  std::mutex tick_mutex_;
  std::condition_variable tick_changed_;
  bool tick_wanted_ = false;  // under tick_mutex_: do not wait for the next tick
  std::thread ticker_;
};

}  // namespace holdfast::engine
