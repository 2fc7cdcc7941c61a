// The thin shell that gives the engine its threads and its disk.
//
// There is no engine thread. The engine is driven by one thread at a time, under `drive_mutex_`:
// whichever front finds it idle when it submits becomes the driver, and seals, appends, applies and
// answers until nothing is queued. Everybody else only adds to the queue and goes on. So a single
// front commits inline on its own loop, with no wake-up at all, and several fronts still share
// group commits (docs/decisions/0001-driver-instead-of-engine-thread.md). A ticker thread drives
// when nobody else does: a batch every 200 ms moves time. The shadow thread (shadow.h) makes
// snapshots.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/histogram.h"
#include "engine/clock.h"
#include "engine/engine.h"
#include "engine/front.h"
#include "engine/observer.h"
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

struct RunnerStats {
  EngineStats engine;
  journal::JournalStats journal;
  ShadowStats shadow;
  std::uint64_t journal_first_index = 0;
  bool accepting_writes = true;  // false while the disk is full
  BootTime started_at{};
  std::uint64_t inbox = 0;  // handed over by fronts, and not taken by the engine yet
  // By how much state time has advanced less than this process' clock since it began to serve.
  Duration state_time_lag{};
  // Batches with commands only.
  HistogramData commit_seconds;  // from the seal until the batch was durable and applied
  HistogramData batch_commands;
  HistogramData batch_bytes;
};

class Runner {
 public:
  // Recovers the data directory and starts the threads. Errors as FileJournal::Open and Recover
  // (recovery.h).
  static Result<std::unique_ptr<Runner>> Start(storage::FileSystem& files, Clock& clock,
                                               const RunnerOptions& options);
  ~Runner();

  // `front` must outlive its Detach. Thread-safe.
  FrontId Attach(Front& front);
  // After it returns no reply reaches the front any more; its waiters are detached.
  void Detach(FrontId front);

  // Hands over a whole turn. May drive the engine before it returns: replies, also of others, may
  // be delivered inside. Over the limit of the queue the surplus is answered with kOverloaded.
  // Thread-safe.
  void Submit(FrontId front, std::vector<Proposal>&& proposals);
  // The clients behind these requests are gone: no reply, and waiters are detached. Thread-safe.
  void Abandon(FrontId front, std::vector<std::uint64_t>&& tags);

  // Before the first Attach only. `observer` must outlive the runner.
  void AddObserver(Observer& observer);

  WatchHub& watches() { return watches_; }
  RunnerStats Stats() const;
  // Refuses new proposals (kUnavailable), commits what is queued and ends the threads. Requests
  // that wait for a lock get no reply any more; they are detached by the next start. Idempotent.
  void Stop();

 private:
  Runner(Clock& clock, const RunnerOptions& options);
  Status Open(storage::FileSystem& files);
  void Drive();
  bool DriveOnce();
  bool TickDue();
  bool Catchup();
  void Append();
  void Measure(const std::vector<journal::Entry>& entries);
  void Deliver();
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
  std::map<FrontId, std::vector<Reply>> deliveries_;
  std::map<FrontId, Front*> fronts_;
  FrontId next_front_ = 1;
  BootTime last_batch_at_{};
  bool recovery_pending_ = false;

  // Recorded by the driver, read by any thread.
  static constexpr std::array<double, 13> kCommandBounds{1,   2,   4,   8,    16,   32,  64,
                                                         128, 256, 512, 1024, 2048, 4096};
  static constexpr std::array<double, 11> kByteBounds{
      256, 512, 1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 16, 1 << 18, 1 << 20};
  Histogram commit_seconds_{kLatencyBounds};
  Histogram batch_commands_{kCommandBounds};
  Histogram batch_bytes_{kByteBounds};
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
