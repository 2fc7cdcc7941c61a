// The crash matrix of the file journal, after SQLite's test6.c: a workload of appends, rolls,
// snapshots, trims and restarts is stopped at each of its sync points; everything unsynced is then
// kept, dropped, torn or garbled, each thing by itself, and a new process must find every
// acknowledged entry. It also may not rely on anything that a second crash can take away.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <malloc.h>

#include "base/log.h"
#include "base/planted.h"
#include "journal/file_journal.h"
#include "journal/recover.h"
#include "journal/snapshot_store.h"
#include "journal/test_journal.h"
#include "storage/simulated_file_system.h"

namespace holdfast::journal {
namespace {

using storage::FateOdds;
using storage::SimulatedFileSystem;

constexpr FateOdds kAllDropped{.kept = 0, .dropped = 1, .torn = 0, .garbled = 0};
constexpr FateOdds kSectorsMayBeLost{.kept = 1, .dropped = 1, .torn = 2, .garbled = 0};
constexpr FateOdds kAnythingGoes{.kept = 1, .dropped = 1, .torn = 1, .garbled = 2};

struct Opened {
  std::unique_ptr<FileJournal> journal;
  Snapshot snapshot;
};

// As a server starts. A sync that fails is the end of the simulated process, not of this one.
Result<Opened> OpenAsServer(SimulatedFileSystem& disk) {
  auto snapshot = SnapshotStore(disk, kTestDirectory).LoadNewest();
  if (!snapshot.ok()) {
    return snapshot.error();
  }
  FileJournalOptions options = SmallSegments();
  options.on_sync_failure = [](const Error&) {};
  auto journal = FileJournal::Open(disk, kTestDirectory, snapshot->header, options);
  if (!journal.ok()) {
    return journal.error();
  }
  return Opened{std::move(*journal), std::move(*snapshot)};
}

// What clients were told, and what they tried.
struct Promises {
  std::vector<Id128> offered;  // hashes of the entries that were ever given to Append, from index 1
  std::uint64_t acknowledged = 0;
};

// Runs until it is done or the power goes.
class Workload {
 public:
  explicit Workload(SimulatedFileSystem& disk) : disk_(disk) {}

  void Run() {
    static const std::vector<std::vector<std::size_t>> kBatches{
        {100}, {600, 50, 1}, {30'000}, {25'000, 10, 10}, {504 - 64}, {1}, {40'000}, {2000, 27'000}};
    for (int start = 0; start < 4 && Start(); ++start) {
      for (std::size_t step = 0; step < 24; ++step) {
        if (!Append(kBatches[step % kBatches.size()])) {
          return;
        }
        if (step == 3 && !journal_->PrepareSegment().ok()) {
          return;
        }
        if (step % 6 == 5 && !TakeSnapshot()) {
          return;
        }
      }
    }
  }
  const Promises& promises() const { return promises_; }

 private:
  bool Start() {
    journal_.reset();
    auto opened = OpenAsServer(disk_);
    if (opened.ok()) {
      journal_ = std::move(opened->journal);
    }
    return opened.ok();
  }

  bool Append(const std::vector<std::size_t>& sizes) {
    const std::vector<Entry> entries = source_.Batch(sizes);
    for (const Entry& entry : entries) {
      promises_.offered.push_back(EntryHash(entry));
    }
    const bool done = journal_->Append(entries).ok();
    if (done) {
      promises_.acknowledged = entries.back().index;
    }
    return done;
  }

  // Keeps two, and the log back to the older one.
  bool TakeSnapshot() {
    SnapshotStore store(disk_, kTestDirectory);
    auto writer = store.Begin(source_.Snapshot());
    if (!writer.ok() || !(*writer)->Write("state of " + ToHex(promises_.offered.back())).ok() ||
        !(*writer)->Finish().ok() || !store.Retain(2).ok()) {
      return false;
    }
    const auto kept = store.List();
    return kept.ok() && journal_->Trim(kept->front() + 1).ok();
  }

  SimulatedFileSystem& disk_;
  EntrySource source_;
  Promises promises_;
  std::unique_ptr<FileJournal> journal_;
};

// What a crash did wrong, in words.
using Violations = std::vector<std::string>;

// The log that was opened holds what was promised, and nothing that was not offered.
void CheckPromises(const Opened& opened, const Promises& promises, Violations& wrong) {
  const Position last = opened.journal->Last();
  const std::uint64_t snapshot = opened.snapshot.header.index;
  if (last.index < promises.acknowledged) {
    wrong.push_back("entry " + std::to_string(promises.acknowledged) +
                    " was acknowledged, the log ends with " + std::to_string(last.index));
  }
  if (last.index > promises.offered.size()) {
    wrong.push_back("the log has an entry that nobody offered");
    return;
  }
  if (opened.journal->FirstIndex() > snapshot + 1) {
    wrong.push_back("the log does not reach back to the snapshot");
  }
  if (snapshot > 0 &&
      opened.snapshot.payload != "state of " + ToHex(promises.offered[snapshot - 1])) {
    wrong.push_back("the snapshot is not what was written");
  }
  std::uint64_t next = opened.journal->FirstIndex();
  for (const Entry& entry : ReadAll(*opened.journal)) {
    if (entry.index != next || EntryHash(entry) != promises.offered[next - 1]) {
      wrong.push_back("entry " + std::to_string(next) + " is not what was offered");
      return;
    }
    ++next;
  }
  if (next != last.index + 1) {
    wrong.push_back("the log cannot be read to its end");
  }
}

// Starts on a crashed disk and checks everything that must hold then.
Violations CheckRestart(SimulatedFileSystem& disk, const Promises& promises, bool may_refuse) {
  Violations wrong;
  auto first = OpenAsServer(disk);
  if (!first.ok() && may_refuse && first.error().code == ErrorCode::kCorrupt) {
    // Garbage where nothing was acknowledged looks like damage; the operator's way must lose
    // nothing.
    const auto recovered = Recover(disk, kTestDirectory, {.token_floor = 1, .accept_damage = true});
    if (!recovered.ok()) {
      return {"recover: " + recovered.error().message};
    }
    first = OpenAsServer(disk);
  }
  if (!first.ok()) {
    return {"start: " + first.error().message};
  }
  CheckPromises(*first, promises, wrong);
  const Position last = first->journal->Last();

  // Everything that this process could read, and so could answer from, must outlive it.
  disk.CrashPower(1, kAllDropped);
  first->journal.reset();
  auto second = OpenAsServer(disk);
  if (!second.ok()) {
    wrong.push_back("second start: " + second.error().message);
    return wrong;
  }
  if (second->journal->Last().hash != last.hash) {
    wrong.push_back("the first start read up to " + std::to_string(last.index) +
                    ", the second one up to " + std::to_string(second->journal->Last().index));
  }
  CheckPromises(*second, promises, wrong);
  return wrong;
}

// Calls `visit` with the disk as it is when the power goes at a sync point, for each of them, until
// that says that it has seen enough.
using CrashVisitor = std::function<bool(std::uint64_t sync_point, const SimulatedFileSystem& disk,
                                        const Promises& promises)>;
void ForEachSyncPoint(const CrashVisitor& visit) {
  SimulatedFileSystem whole;
  Workload(whole).Run();
  const std::uint64_t points = whole.SyncPoints();
  for (std::uint64_t point = 0; point <= points; ++point) {
    SimulatedFileSystem disk;
    disk.PowerOffAtSyncPoint(point);
    Workload workload(disk);
    workload.Run();
    ASSERT_EQ(disk.PowerIsOff(), point < points);
    if (!visit(point, disk, workload.promises())) {
      return;
    }
  }
}

std::string Joined(const Violations& wrong) {
  std::string text;
  for (const std::string& one : wrong) {
    text += "\n  " + one;
  }
  return text;
}

// The first violation that power cuts bring about; empty if there is none.
std::string PowerCuts(const FateOdds& odds, std::uint64_t seeds) {
  std::string found;
  ForEachSyncPoint(
      [&](std::uint64_t point, const SimulatedFileSystem& disk, const Promises& promises) {
        for (std::uint64_t seed = 0; seed < seeds && found.empty(); ++seed) {
          SimulatedFileSystem crashed(disk);
          crashed.CrashPower(seed, odds);
          const Violations wrong = CheckRestart(crashed, promises, odds.garbled > 0);
          if (!wrong.empty()) {
            found = "sync point " + std::to_string(point) + ", seed " + std::to_string(seed) + ":" +
                    Joined(wrong);
          }
        }
        return found.empty();
      });
  return found;
}

// The same for processes that are killed: the page cache lives on, until the power goes as well.
std::string Kills() {
  std::string found;
  ForEachSyncPoint(
      [&](std::uint64_t point, const SimulatedFileSystem& disk, const Promises& promises) {
        SimulatedFileSystem crashed(disk);
        crashed.CrashProcess();
        const Violations wrong = CheckRestart(crashed, promises, false);
        if (!wrong.empty()) {
          found = "sync point " + std::to_string(point) + ":" + Joined(wrong);
        }
        return found.empty();
      });
  return found;
}

class CrashMatrixTest : public ::testing::Test {
 protected:
  CrashMatrixTest() {
    log::SetLevel(log::Level::kError);
    // Thousands of disks are copied and thrown away: giving their memory back to the kernel each
    // time would take most of the time.
    mallopt(M_TRIM_THRESHOLD, 1 << 30);  // NOLINT(concurrency-mt-unsafe)
    mallopt(M_MMAP_THRESHOLD, 1 << 30);  // NOLINT(concurrency-mt-unsafe)
  }
  ~CrashMatrixTest() override { log::SetLevel(log::Level::kInfo); }
};

TEST_F(CrashMatrixTest, TheWorkloadRollsTrimsAndTakesSnapshots) {
  SimulatedFileSystem disk;
  Workload workload(disk);
  workload.Run();
  const auto content = ReadDirectory(disk, kTestDirectory).value();
  EXPECT_GT(content.segments.front(), 1U);
  EXPECT_GT(content.segments.size(), 1U);
  EXPECT_EQ(content.snapshots.size(), 2U);
  EXPECT_GT(disk.SyncPoints(), 120U);
  EXPECT_EQ(workload.promises().acknowledged, workload.promises().offered.size());
}

TEST_F(CrashMatrixTest, APowerCutLosesNothingAcknowledged) {
  EXPECT_EQ(PowerCuts(kAllDropped, 1), "");
  EXPECT_EQ(PowerCuts(kSectorsMayBeLost, 5), "");
}

TEST_F(CrashMatrixTest, GarbageNeverPassesForEntries) {
  EXPECT_EQ(PowerCuts(kAnythingGoes, 5), "");
}

TEST_F(CrashMatrixTest, AKilledProcessLosesNothingThatTheNextOneReads) {
  EXPECT_EQ(Kills(), "");
}

TEST_F(CrashMatrixTest, APowerCutDuringRecoveryLosesNothingAcknowledged) {
  ForEachSyncPoint(
      [&](std::uint64_t point, const SimulatedFileSystem& disk, const Promises& promises) {
        SimulatedFileSystem once(disk);
        once.CrashPower(point, kSectorsMayBeLost);
        const std::uint64_t before = once.SyncPoints();
        for (std::uint64_t step = 0;; ++step) {
          SimulatedFileSystem twice(once);
          twice.PowerOffAtSyncPoint(before + step);
          const bool finished = OpenAsServer(twice).ok();
          if (step % 2 == point % 2) {
            twice.CrashPower(step, kSectorsMayBeLost);
          } else {
            twice.CrashProcess();
          }
          EXPECT_EQ(Joined(CheckRestart(twice, promises, false)), "")
              << "sync point " << point << ", then " << step << " of the recovery";
          if (finished || HasFailure()) {
            return !HasFailure();
          }
        }
      });
}

#ifdef HOLDFAST_PLANTED_BUGS
// The matrix is worth something only if it sees the bugs that it is for.

TEST_F(CrashMatrixTest, SeesAnAcknowledgementBeforeTheSync) {
  const PlantBug bug(Bug::kAcksBeforeSync);
  EXPECT_NE(PowerCuts(kAllDropped, 1), "");
  EXPECT_NE(PowerCuts(kSectorsMayBeLost, 5), "");
}

TEST_F(CrashMatrixTest, SeesARecoveryThatTrustsThePageCache) {
  const PlantBug bug(Bug::kTrustsPageCache);
  EXPECT_NE(Kills(), "");
}
#endif

}  // namespace
}  // namespace holdfast::journal
