// Inspect, backup, restore and recover.

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/log.h"
#include "journal/backup.h"
#include "journal/inspect.h"
#include "journal/recover.h"
#include "journal/segment_format.h"
#include "journal/test_journal.h"

namespace holdfast::journal {
namespace {

using storage::FateOdds;
using storage::SimulatedFileSystem;

constexpr char kBackup[] = "backups/b";

class ToolsTest : public JournalTest {
 protected:
  ToolsTest() {
    log::SetLevel(log::Level::kError);
    EXPECT_TRUE(files_.CreateDirectory("backups").ok());
  }
  ~ToolsTest() override { log::SetLevel(log::Level::kInfo); }

  void WriteSnapshot(const std::string& payload) {
    SnapshotStore store(files_, kTestDirectory);
    auto writer = store.Begin(source_.Snapshot()).value();
    ASSERT_TRUE(writer->Write(payload).ok());
    ASSERT_TRUE(writer->Finish().ok());
  }
  DirectoryReport Inspect() {
    auto report = InspectDirectory(files_, kTestDirectory, {});
    EXPECT_TRUE(report.ok()) << report.error().message;
    return report.value();
  }
  // Opens on the newest snapshot, as a server does.
  Result<std::unique_ptr<FileJournal>> OpenAsServer(const std::string& directory) {
    journal_.reset();
    const auto snapshot = SnapshotStore(files_, directory).LoadNewest();
    EXPECT_TRUE(snapshot.ok());
    return FileJournal::Open(files_, directory, snapshot->header, SmallSegments());
  }
};

// --- Inspect

TEST_F(ToolsTest, InspectSeesASoundDirectoryBesideARunningServer) {
  Open();
  FillSegments(2);
  WriteSnapshot("state");
  FillSegments(3);
  std::uint64_t seen = 0;
  const auto report = InspectDirectory(files_, kTestDirectory, [&](const WalkedEntry& walked) {
    EXPECT_EQ(walked.entry.index, ++seen);
    EXPECT_LT(walked.offset, kTestSegmentBytes);
    EXPECT_EQ(walked.synced_index, seen - 1);
  });
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(report->Sound());
  EXPECT_EQ(seen, journal_->Last().index);
  EXPECT_EQ(report->entries, seen);
  EXPECT_EQ(report->first_index, 1U);
  EXPECT_EQ(report->last_index, seen);
  EXPECT_EQ(report->log.segments.size(), 3U);
  ASSERT_EQ(report->snapshots.size(), 1U);
  EXPECT_EQ(report->snapshots[0].payload_bytes, 5U);
  EXPECT_EQ(report->identity->log_id, (Id128{1, 2, 3}));
}

TEST_F(ToolsTest, InspectGoesOnBehindDamageAndChangesNothing) {
  Open();
  FillSegments(3);
  WriteSnapshot("state");
  const std::uint64_t last = journal_->Last().index;
  journal_.reset();
  const auto firsts = Segments();
  files_.FlipBit(SegmentPath(firsts[0]), 5 * kSectorBytes + 7, 1);
  files_.FlipBit(SegmentPath(firsts[1]), 100, 1);  // the header
  files_.FlipBit(PathIn(kTestDirectory, SnapshotName(last)), 50, 1);
  const std::vector<std::string> before = files_.List(kTestDirectory).value();
  files_.SetReadOnly(true);
  const DirectoryReport report = Inspect();
  EXPECT_FALSE(report.Sound());
  ASSERT_EQ(report.log.damage.size(), 2U);
  EXPECT_EQ(report.log.damage[0].file, SegmentName(firsts[0]));
  EXPECT_EQ(report.log.damage[0].offset, 5 * kSectorBytes);
  EXPECT_EQ(report.log.damage[1].file, SegmentName(firsts[1]));
  EXPECT_EQ(report.log.damage[1].offset, 0U);
  EXPECT_EQ(report.entries, last - 1);  // only one is lost
  EXPECT_EQ(report.last_index, last);
  ASSERT_TRUE(report.snapshots[0].error.has_value());
  EXPECT_EQ(files_.List(kTestDirectory).value(), before);
}

TEST_F(ToolsTest, InspectTellsATornTailFromDamage) {
  Open();
  AppendBatch({100});
  const std::size_t begin = UsedBytes(LastSegmentPath());
  AppendBatch({2000});
  journal_.reset();
  files_.Overwrite(LastSegmentPath(), begin, std::string(kSectorBytes, '\0'));
  const DirectoryReport report = Inspect();
  EXPECT_TRUE(report.Sound());
  ASSERT_TRUE(report.log.torn.has_value());
  EXPECT_EQ(report.log.torn->offset, begin);
}

TEST_F(ToolsTest, InspectSeesMissingFilesAndCopies) {
  Open();
  FillSegments(3);
  journal_.reset();
  files_.CopyDirectory(kTestDirectory, "copy");
  EXPECT_EQ(InspectDirectory(files_, "copy", {}).value().identity_error->code,
            ErrorCode::kPermissionDenied);
  const auto firsts = Segments();
  ASSERT_TRUE(files_.Remove(SegmentPath(firsts[0])).ok());
  const DirectoryReport without_first = Inspect();
  EXPECT_FALSE(without_first.Sound());
  EXPECT_NE(without_first.gap.find(SegmentName(1)), std::string::npos);
  ASSERT_TRUE(files_.Remove(PathIn(kTestDirectory, "identity")).ok());
  EXPECT_EQ(Inspect().identity_error->code, ErrorCode::kNotFound);
  EXPECT_EQ(InspectDirectory(files_, "nowhere", {}).error().code, ErrorCode::kNotFound);
}

// --- Backup and restore

TEST_F(ToolsTest, ABackupBesideARunningServerIsRestoredWithAllEntries) {
  Open();
  FillSegments(3);
  WriteSnapshot("the state");
  ASSERT_TRUE(journal_->Trim(journal_->Last().index).ok());
  AppendBatch({100, 200'000});
  AppendBatch({300});
  const auto made = Backup(files_, kTestDirectory, kBackup);
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->entries, 3U);
  EXPECT_EQ(made->last_index, journal_->Last().index);
  const Position last = journal_->Last();
  EXPECT_EQ(VerifyBackup(files_, kBackup).value().last_index, last.index);
  EXPECT_EQ(Backup(files_, kTestDirectory, kBackup).error().code, ErrorCode::kAlreadyExists);

  const auto restored = Restore(files_, kBackup, "restored", 1000);
  ASSERT_TRUE(restored.ok()) << restored.error().message;
  auto journal = OpenAsServer("restored");
  ASSERT_TRUE(journal.ok()) << journal.error().message;
  EXPECT_EQ((*journal)->Last().index, last.index);
  EXPECT_EQ((*journal)->Last().hash, last.hash);
  EXPECT_EQ((*journal)->LogId(), (Id128{1, 2, 3}));
  EXPECT_EQ((*journal)->TokenFloor(), 1000U);
  EXPECT_TRUE((*journal)->Recovered());
  EXPECT_EQ(ReadAll(**journal).size(), 3U);
  EXPECT_EQ(SnapshotStore(files_, "restored").LoadNewest().value().payload, "the state");
  ASSERT_TRUE((*journal)->Append({source_.Next(10)}).ok());
}

TEST_F(ToolsTest, ABackupWithoutASnapshotOrWithoutEntriesWorks) {
  Open();
  ASSERT_TRUE(Backup(files_, kTestDirectory, "backups/empty").ok());
  AppendBatch({100});
  ASSERT_TRUE(Backup(files_, kTestDirectory, "backups/entries").ok());
  WriteSnapshot("");
  ASSERT_TRUE(Backup(files_, kTestDirectory, "backups/snapshot").ok());
  for (const std::string name : {"empty", "entries", "snapshot"}) {
    ASSERT_TRUE(Restore(files_, "backups/" + name, "restored/" + name, 5).ok()) << name;
    auto journal = OpenAsServer("restored/" + name);
    ASSERT_TRUE(journal.ok()) << journal.error().message;
    EXPECT_EQ((*journal)->Last().index, name == "empty" ? 0U : 1U);
  }
}

TEST_F(ToolsTest, WithoutATokenFloorARestoredDirectoryNeedsRecover) {
  Open();
  AppendBatch({100});
  ASSERT_TRUE(Backup(files_, kTestDirectory, kBackup).ok());
  ASSERT_TRUE(Restore(files_, kBackup, "restored", std::nullopt).ok());
  const auto refused = OpenAsServer("restored");
  ASSERT_EQ(refused.error().code, ErrorCode::kPermissionDenied);
  EXPECT_NE(refused.error().message.find("holdfast recover restored --token-floor N"),
            std::string::npos);
  ASSERT_TRUE(Recover(files_, "restored", {.token_floor = 77, .accept_damage = false}).ok());
  const auto opened = OpenAsServer("restored");
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ((*opened)->TokenFloor(), 77U);
}

TEST_F(ToolsTest, ADamagedBackupIsRefusedBeforeAnythingIsWritten) {
  Open();
  AppendBatch({100});
  WriteSnapshot("state");
  AppendBatch({100});
  ASSERT_TRUE(Backup(files_, kTestDirectory, kBackup).ok());
  const std::uint64_t size = files_.Open(kBackup, true).value()->Size().value();
  for (std::uint64_t offset = 0; offset < size; ++offset) {
    SimulatedFileSystem disk(files_);
    disk.FlipBit(kBackup, offset, static_cast<unsigned>(offset % 8));
    EXPECT_EQ(VerifyBackup(disk, kBackup).error().code, ErrorCode::kCorrupt);
    EXPECT_EQ(Restore(disk, kBackup, "restored", 5).error().code, ErrorCode::kCorrupt);
    EXPECT_FALSE(disk.Exists("restored"));
  }
  files_.Truncate(kBackup, size - 1);
  EXPECT_EQ(VerifyBackup(files_, kBackup).error().code, ErrorCode::kCorrupt);
}

TEST_F(ToolsTest, RestoreNeedsAnEmptyDirectoryAndAValidFloor) {
  Open();
  AppendBatch({100});
  ASSERT_TRUE(Backup(files_, kTestDirectory, kBackup).ok());
  EXPECT_EQ(Restore(files_, kBackup, kTestDirectory, 5).error().code, ErrorCode::kBusy);
  journal_.reset();
  EXPECT_EQ(Restore(files_, kBackup, kTestDirectory, 5).error().code, ErrorCode::kAlreadyExists);
  EXPECT_EQ(Restore(files_, kBackup, "restored", 0).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(ToolsTest, ADamagedDirectoryGivesNoBackup) {
  Open();
  AppendBatch({100});
  files_.FlipBit(LastSegmentPath(), kSectorBytes + 5, 0);
  EXPECT_EQ(Backup(files_, kTestDirectory, kBackup).error().code, ErrorCode::kCorrupt);
  EXPECT_TRUE(files_.List("backups").value().empty());
}

TEST_F(ToolsTest, ARestoreThatDidNotFinishCannotBeUsed) {
  Open();
  FillSegments(2);
  ASSERT_TRUE(Backup(files_, kTestDirectory, kBackup).ok());
  journal_.reset();
  const std::uint64_t before = files_.SyncPoints();
  SimulatedFileSystem counted(files_);
  ASSERT_TRUE(Restore(counted, kBackup, "restored", 5).ok());
  const std::uint64_t points = counted.SyncPoints() - before;
  ASSERT_GT(points, 4U);
  for (std::uint64_t point = 0; point < points; ++point) {
    SimulatedFileSystem disk(files_);
    disk.PowerOffAtSyncPoint(before + point);
    ASSERT_FALSE(Restore(disk, kBackup, "restored", 5).ok());
    disk.CrashPower(point, FateOdds{});
    // Either nothing says that it is a log, or it is known to be incomplete, or it is complete.
    const auto snapshot = SnapshotStore(disk, "restored").LoadNewest().value();
    const auto opened = FileJournal::Open(disk, "restored", snapshot.header, SmallSegments());
    if (opened.ok() && (*opened)->Last().index > 0) {
      EXPECT_EQ((*opened)->Last().hash, source_.Snapshot().entry_hash);
    } else if (opened.ok()) {
      EXPECT_EQ((*opened)->Last().index, 0U);
      EXPECT_EQ((*opened)->TokenFloor(), 0U);
    } else {
      EXPECT_EQ(opened.error().code, ErrorCode::kPermissionDenied) << opened.error().message;
    }
  }
}

// --- Recover

TEST_F(ToolsTest, RecoverMakesACopyUsableAndTellsTheEngineUntilItIsCleared) {
  Open();
  FillSegments(2);
  journal_.reset();
  files_.CopyDirectory(kTestDirectory, "copy");
  const auto report = Recover(files_, "copy", {.token_floor = 500, .accept_damage = false});
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->last_index, source_.Snapshot().index);
  for (int start = 0; start < 2; ++start) {
    auto journal = OpenAsServer("copy");
    ASSERT_TRUE(journal.ok()) << journal.error().message;
    EXPECT_TRUE((*journal)->Recovered());
    EXPECT_EQ((*journal)->TokenFloor(), 500U);
    EXPECT_EQ((*journal)->Last().hash, source_.Snapshot().entry_hash);
    if (start == 1) {
      ASSERT_TRUE((*journal)->ClearRecovery().ok());
      EXPECT_FALSE((*journal)->Recovered());
    }
  }
  files_.CrashPower(1, FateOdds{.kept = 0, .dropped = 1, .torn = 0, .garbled = 0});
  auto journal = OpenAsServer("copy");
  ASSERT_TRUE(journal.ok()) << journal.error().message;
  EXPECT_FALSE((*journal)->Recovered());
  EXPECT_EQ((*journal)->TokenFloor(), 500U);
  journal->reset();
  // A lower floor later does not lower it.
  ASSERT_TRUE(Recover(files_, "copy", {.token_floor = 5, .accept_damage = false}).ok());
  EXPECT_EQ(OpenAsServer("copy").value()->TokenFloor(), 500U);
}

TEST_F(ToolsTest, RecoverChecksItsFloorAndTheLock) {
  Open();
  EXPECT_EQ(
      Recover(files_, kTestDirectory, {.token_floor = 1, .accept_damage = false}).error().code,
      ErrorCode::kBusy);
  EXPECT_EQ(Recover(files_, kTestDirectory, {}).error().field, "token_floor");
  EXPECT_EQ(Recover(files_, kTestDirectory,
                    {.token_floor = std::uint64_t{1} << 53U, .accept_damage = false})
                .error()
                .code,
            ErrorCode::kInvalidArgument);
}

TEST_F(ToolsTest, RecoverKeepsWhatIsBeforeTheDamageAndPutsTheRestAside) {
  Open();
  FillSegments(3);
  const auto firsts = Segments();
  const std::uint64_t last = journal_->Last().index;
  journal_.reset();
  const std::string path = SegmentPath(firsts[1]);
  const std::string before = Content(path);
  files_.FlipBit(path, 30 * kSectorBytes, 0);  // in its third group
  EXPECT_EQ(OpenError().code, ErrorCode::kCorrupt);

  const auto refused = Recover(files_, kTestDirectory, {.token_floor = 9, .accept_damage = false});
  ASSERT_EQ(refused.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(refused.error().message.find("--accept-damage"), std::string::npos);
  EXPECT_EQ(OpenError().code, ErrorCode::kCorrupt);  // nothing has changed

  const auto report = Recover(files_, kTestDirectory, {.token_floor = 9, .accept_damage = true});
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->last_index, firsts[1] + 1);
  EXPECT_EQ(report->entries_dropped, last - (firsts[1] + 2));
  EXPECT_EQ(report->put_aside.size(), 3U);
  EXPECT_TRUE(files_.Exists(path + ".damaged"));
  Open();
  EXPECT_EQ(journal_->Last().index, firsts[1] + 1);
  EXPECT_TRUE(journal_->Recovered());
  EXPECT_EQ(ReadAll(*journal_).size(), firsts[1] + 1);
  EXPECT_TRUE(Inspect().Sound());
}

TEST_F(ToolsTest, DamageBeforeTheSnapshotLosesNothing) {
  Open();
  FillSegments(2);
  WriteSnapshot("state");
  FillSegments(3);
  const Position last = journal_->Last();
  journal_.reset();
  ASSERT_TRUE(files_.Remove(SegmentPath(1)).ok());
  files_.FlipBit(SegmentPath(Segments()[0]), 600, 0);
  ASSERT_FALSE(OpenAsServer(kTestDirectory).ok());
  const auto report = Recover(files_, kTestDirectory, {.token_floor = 9, .accept_damage = true});
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->entries_dropped, 0U);
  const auto opened = OpenAsServer(kTestDirectory);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ((*opened)->Last().hash, last.hash);
}

TEST_F(ToolsTest, ALostIdentityFileIsMadeAgain) {
  Open();
  FillSegments(2);
  const Position last = journal_->Last();
  journal_.reset();
  ASSERT_TRUE(files_.Remove(PathIn(kTestDirectory, "identity")).ok());
  ASSERT_TRUE(Recover(files_, kTestDirectory, {.token_floor = 9, .accept_damage = false}).ok());
  Open();
  EXPECT_EQ(journal_->Last().hash, last.hash);
  EXPECT_EQ(journal_->LogId(), (Id128{1, 2, 3}));
}

TEST_F(ToolsTest, NothingToBeginFromIsAnError) {
  Open();
  FillSegments(2);
  journal_.reset();
  ASSERT_TRUE(files_.Remove(SegmentPath(1)).ok());
  const auto failed = Recover(files_, kTestDirectory, {.token_floor = 9, .accept_damage = true});
  EXPECT_EQ(failed.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(failed.error().message.find("does not go back to its start"), std::string::npos);
}

// Whenever the power goes during recover, the same command finishes it, and with the same result.
TEST_F(ToolsTest, RecoverCanBeRunAgainWhereverItStopped) {
  Open();
  FillSegments(2);
  WriteSnapshot("state");
  FillSegments(4);
  const auto firsts = Segments();
  journal_.reset();
  files_.FlipBit(SegmentPath(firsts[2]), 30 * kSectorBytes, 0);
  const RecoverOptions options{.token_floor = 9, .accept_damage = true};
  const std::uint64_t before = files_.SyncPoints();
  SimulatedFileSystem counted(files_);
  const auto whole = Recover(counted, kTestDirectory, options);
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  const std::uint64_t points = counted.SyncPoints() - before;
  for (std::uint64_t point = 0; point < points; ++point) {
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      SimulatedFileSystem disk(files_);
      disk.PowerOffAtSyncPoint(before + point);
      ASSERT_FALSE(Recover(disk, kTestDirectory, options).ok());
      disk.CrashPower(seed, FateOdds{});
      const auto again = Recover(disk, kTestDirectory, options);
      ASSERT_TRUE(again.ok()) << point << " " << seed << ": " << again.error().message;
      ASSERT_EQ(again->last_index, whole->last_index) << point << " " << seed;
      const auto snapshot = SnapshotStore(disk, kTestDirectory).LoadNewest().value();
      const auto opened = FileJournal::Open(disk, kTestDirectory, snapshot.header, SmallSegments());
      ASSERT_TRUE(opened.ok()) << point << " " << seed << ": " << opened.error().message;
      ASSERT_EQ((*opened)->Last().index, whole->last_index);
      ASSERT_TRUE((*opened)->Recovered());
    }
  }
}

}  // namespace
}  // namespace holdfast::journal
