// The embedded shape in the simulation: one process with its engine over the file journal, on a
// disk that loses, tears and refuses. The engine, the journal, recovery and snapshots are those of
// the server; only the driver is this one's, since time is.
//
// A replica of its own follows the log as it is on the disk. It shows that what was acknowledged
// stays (I5), and that replay gives the same state (I10).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/machine.h"
#include "engine/clock.h"
#include "engine/engine.h"
#include "engine/recovery.h"
#include "journal/file_journal.h"
#include "sim/clocks.h"
#include "sim/site.h"
#include "storage/simulated_file_system.h"

namespace holdfast::sim {

class Server : public Site, private engine::Clock {
 public:
  explicit Server(std::uint64_t seed);

  int size() const override { return 1; }
  bool IsUp(int /*node*/) const override { return engine_ != nullptr; }
  bool IsPaused(int /*node*/) const override { return now() < paused_until_; }
  int LifeOf(int /*node*/) const override { return life_; }
  bool Serves() const override { return engine_ != nullptr && accepting_; }
  std::string WhyBehind(int node) override;
  std::uint64_t Serve(int node, EngineRequest request, OnReply reply) override;
  void Abandon(int node, std::uint64_t number) override;
  void Start(int node) override;
  void Kill(int node) override;
  void CutPower(int node) override;
  void Pause(int /*node*/, Duration duration) override { paused_until_ = now() + duration; }
  void SetClock(int /*node*/, const ClockFault& fault) override { clocks_.Set(now(), fault); }

  // The power goes in the middle of one of the next syncs.
  void CutPowerInSync();
  void FailNextSync() { files_.FailNextSync(); }
  void FillDisk(Duration duration);
  void SlowDisk(Duration sync, Duration duration);

  engine::EngineOptions options;
  std::uint64_t snapshot_bytes = 20'000;

 private:
  BootTime Boot() override { return clocks_.Boot(now()); }
  WallTime Wall() override { return clocks_.Wall(now()); }
  Id128 NewId() override { return dice_.Draw(); }

  void DriveAt(BootTime at);
  void Drive();
  void Seal();
  void Append();
  void Deliver();
  void FollowLog();
  void Snapshot();
  void End();
  void Restart(Duration after);

  storage::SimulatedFileSystem files_;
  Clocks clocks_;
  std::unique_ptr<journal::FileJournal> journal_;
  std::unique_ptr<engine::Engine> engine_;
  engine::EngineOutput output_;
  std::map<std::uint64_t, OnReply> open_;
  std::uint64_t served_ = 0;
  int life_ = 0;
  bool accepting_ = true;
  bool sealed_ = false;  // a batch is on its way to the disk
  bool sync_failed_ = false;
  BootTime paused_until_{};
  BootTime drive_at_{};
  BootTime last_batch_at_{};
  BootTime slow_until_{};
  Duration slow_sync_{};
  std::uint64_t bytes_since_snapshot_ = 0;

  std::unique_ptr<core::Machine> replica_;  // of the log on the disk
  std::optional<engine::Replayer> replayer_;
  std::uint64_t replica_index_ = 0;  // the last entry that it has read
};

}  // namespace holdfast::sim
