// What the journal does about each fault of the list in docs/formats/journal.md, "Faults".

#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "journal/file_journal.h"
#include "journal/identity.h"
#include "journal/layout.h"
#include "journal/segment_format.h"
#include "journal/test_journal.h"
#include "storage/posix_file_system.h"

namespace holdfast::journal {
namespace {

using storage::FateOdds;
using storage::SimulatedFileSystem;

constexpr FateOdds kAllDropped{.kept = 0, .dropped = 1, .torn = 0, .garbled = 0};

class FaultsTest : public JournalTest {
 protected:
  FaultsTest() { log::SetLevel(log::Level::kError); }
  ~FaultsTest() override { log::SetLevel(log::Level::kInfo); }

  void ExpectCorrupt(const Error& error, const std::string& file, std::uint64_t offset) {
    EXPECT_EQ(error.code, ErrorCode::kCorrupt);
    EXPECT_NE(error.message.find(file + " at offset " + std::to_string(offset) + ":"),
              std::string::npos)
        << error.message;
  }
  // Fills bytes of the file with zeros, as if they had never been written.
  void Unwrite(const std::string& path, std::size_t offset, std::size_t size) {
    files_.Overwrite(path, offset, std::string(size, '\0'));
  }
};

// --- Torn tail

TEST_F(FaultsTest, ATornTailIsCutWhereverItIsTorn) {
  Open();
  AppendBatch({100, 700});
  const std::size_t begin = UsedBytes(LastSegmentPath());
  AppendBatch({3000, 10});
  const std::size_t end = UsedBytes(LastSegmentPath());
  journal_.reset();
  const std::size_t sectors = (end - begin) / kSectorBytes;
  ASSERT_EQ(sectors, 7U);
  for (unsigned kept = 0; kept + 1 < 1U << sectors; ++kept) {  // every set of sectors but all
    SimulatedFileSystem disk(files_);
    for (std::size_t sector = 0; sector < sectors; ++sector) {
      if ((kept >> sector & 1U) == 0) {
        disk.Overwrite(LastSegmentPath(), begin + sector * kSectorBytes,
                       std::string(kSectorBytes, '\0'));
      }
    }
    const auto opened = FileJournal::Open(disk, kTestDirectory, {}, SmallSegments());
    ASSERT_TRUE(opened.ok()) << kept << ": " << opened.error().message;
    ASSERT_EQ((*opened)->Last().index, 2U) << kept;
  }
}

TEST_F(FaultsTest, ATailTornInTheMiddleOfASectorIsCut) {
  Open();
  AppendBatch({100, 700});
  const std::size_t begin = UsedBytes(LastSegmentPath());
  AppendBatch({400});
  AppendBatch({900});
  const std::size_t end = UsedBytes(LastSegmentPath());
  journal_.reset();
  const std::size_t last_group = begin + kSectorBytes;
  for (std::size_t size = last_group; size < end; ++size) {
    SimulatedFileSystem disk(files_);
    disk.Overwrite(LastSegmentPath(), size, std::string(end - size, '\0'));
    const auto opened = FileJournal::Open(disk, kTestDirectory, {}, SmallSegments());
    ASSERT_TRUE(opened.ok()) << size << ": " << opened.error().message;
    ASSERT_EQ((*opened)->Last().index, 3U) << size;
  }
  files_.Truncate(LastSegmentPath(), end - 1);  // the file itself may end there as well
  Open();
  EXPECT_EQ(journal_->Last().index, 3U);
}

TEST_F(FaultsTest, TheLogGoesOnBehindACut) {
  Open();
  AppendBatch({100});
  const std::size_t begin = UsedBytes(LastSegmentPath());
  EntrySource lost = source_;
  ASSERT_TRUE(journal_->Append(lost.Batch({3000})).ok());
  Unwrite(LastSegmentPath(), begin + kSectorBytes, kSectorBytes);
  Open();
  EXPECT_EQ(journal_->Last().index, 1U);
  AppendBatch({50});
  AppendBatch({2000});
  Open();
  EXPECT_EQ(journal_->Last().hash, source_.Snapshot().entry_hash);
}

// --- Damage

TEST_F(FaultsTest, AnyBitFlipInTheLastAcknowledgedRecordIsDamageAndNotATornTail) {
  Open();
  AppendBatch({100});
  const std::size_t begin = UsedBytes(LastSegmentPath());
  AppendBatch({600});
  const std::size_t end = UsedBytes(LastSegmentPath());
  journal_.reset();
  ASSERT_EQ(end - begin, 2 * kSectorBytes);
  for (std::size_t offset = begin; offset < end; ++offset) {
    SimulatedFileSystem disk(files_);
    disk.FlipBit(LastSegmentPath(), offset, static_cast<unsigned>(offset % 8));
    const auto opened = FileJournal::Open(disk, kTestDirectory, {}, SmallSegments());
    ASSERT_FALSE(opened.ok()) << offset;
    ExpectCorrupt(opened.error(), SegmentName(1), offset / kSectorBytes * kSectorBytes);
  }
}

TEST_F(FaultsTest, ABitFlipInTheSyncedPrefixIsDamageWithFileAndOffset) {
  Open();
  FillSegments(3);
  journal_.reset();
  for (const std::uint64_t first : Segments()) {
    const std::size_t used = UsedBytes(SegmentPath(first));
    for (std::size_t offset = 0; offset < used; offset += 101) {
      SimulatedFileSystem disk(files_);
      disk.FlipBit(SegmentPath(first), offset, 3);
      const auto opened = FileJournal::Open(disk, kTestDirectory, {}, SmallSegments());
      ASSERT_FALSE(opened.ok()) << first << " " << offset;
      if (opened.error().code != ErrorCode::kUnsupported) {  // a flip in the format version
        ExpectCorrupt(opened.error(), SegmentName(first), offset / kSectorBytes * kSectorBytes);
      }
    }
  }
}

TEST_F(FaultsTest, ALostSectorBeforeALaterAppendIsDamage) {
  Open();
  AppendBatch({100});
  const std::size_t begin = UsedBytes(LastSegmentPath());
  AppendBatch({600});
  AppendBatch({100});  // attests the one before
  Unwrite(LastSegmentPath(), begin, kSectorBytes);
  ExpectCorrupt(OpenError(), SegmentName(1), begin);
}

TEST_F(FaultsTest, LostEntriesThatARestartHasAttestedAreDamage) {
  Open();
  AppendBatch({100});
  const std::size_t begin = UsedBytes(LastSegmentPath());
  AppendBatch({600});
  Open();  // writes a new file, whose header says what was in it
  Unwrite(LastSegmentPath(), begin, 2 * kSectorBytes);
  const Error error = OpenError();
  ExpectCorrupt(error, SegmentName(1), begin);
  EXPECT_NE(error.message.find("entries 2 to 2 are missing"), std::string::npos);
}

TEST_F(FaultsTest, ALostTailOfAnEarlierSegmentIsDamage) {
  Open();
  FillSegments(2);
  const std::string path = SegmentPath(1);
  const std::size_t used = UsedBytes(path);
  journal_.reset();
  {
    SimulatedFileSystem disk(files_);  // a part of its last append
    disk.Overwrite(path, used - kSectorBytes, std::string(kSectorBytes, '\0'));
    ExpectCorrupt(FileJournal::Open(disk, kTestDirectory, {}, SmallSegments()).error(),
                  SegmentName(1), used - 10 * kSectorBytes - kSectorBytes);
  }
  files_.Truncate(path, used - 11 * kSectorBytes);  // all of it
  const Error error = OpenError();
  EXPECT_EQ(error.code, ErrorCode::kCorrupt);
  EXPECT_NE(error.message.find(SegmentName(1)), std::string::npos) << error.message;
}

TEST_F(FaultsTest, ASectorAtAnotherPlaceIsDamage) {
  Open();
  AppendBatch({100});
  AppendBatch({100});
  const std::string content = Content(LastSegmentPath());
  files_.Overwrite(LastSegmentPath(), 2 * kSectorBytes,
                   std::string_view(content).substr(kSectorBytes, kSectorBytes));
  ExpectCorrupt(OpenError(), SegmentName(1), 2 * kSectorBytes);
}

TEST_F(FaultsTest, AMissingSegmentIsNamed) {
  Open();
  FillSegments(4);
  journal_.reset();
  const auto firsts = Segments();
  for (const std::uint64_t missing : {firsts[0], firsts[1], firsts[2]}) {
    SimulatedFileSystem disk(files_);
    ASSERT_TRUE(disk.Remove(SegmentPath(missing)).ok());
    const auto opened = FileJournal::Open(disk, kTestDirectory, {}, SmallSegments());
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.error().code, ErrorCode::kCorrupt);
    EXPECT_NE(opened.error().message.find(SegmentName(missing) + " at offset 0: missing"),
              std::string::npos)
        << opened.error().message;
  }
  for (const std::uint64_t first : firsts) {
    ASSERT_TRUE(files_.Remove(SegmentPath(first)).ok());
  }
  EXPECT_NE(OpenError().message.find(SegmentName(1) + " at offset 0: missing"), std::string::npos);
}

TEST_F(FaultsTest, ASegmentOfAnotherLogIsNotTakenForOurs) {
  Open();
  FillSegments(2);
  journal_.reset();
  FileJournalOptions other = SmallSegments();
  other.log_id = Id128{9};
  auto journal = FileJournal::Open(files_, "other", {}, other).value();
  EntrySource source;
  ASSERT_TRUE(journal->Append(source.Batch({100})).ok());
  journal.reset();
  const std::string foreign = Content(PathIn("other", SegmentName(1)));
  files_.Overwrite(SegmentPath(1), 0, foreign);
  const Error error = OpenError();
  EXPECT_EQ(error.code, ErrorCode::kCorrupt);
  EXPECT_NE(error.message.find("another log"), std::string::npos) << error.message;
}

TEST_F(FaultsTest, AFormatOfTheFutureIsUnsupportedAndNotDamage) {
  Open();
  AppendBatch({100});
  files_.Overwrite(LastSegmentPath(), 8, std::string("\2\0\0\0", 4));
  EXPECT_EQ(OpenError().code, ErrorCode::kUnsupported);
}

// --- Full disk

TEST_F(FaultsTest, AFullDiskRefusesAndTheSameAppendWorksWhenThereIsSpace) {
  Open();
  AppendBatch({100});
  const std::vector<Entry> batch = source_.Batch({200, 3000});
  for (std::uint64_t bytes_left = 0; bytes_left < 3500; bytes_left += 100) {
    files_.SetBytesLeft(bytes_left);
    EXPECT_EQ(journal_->Append(batch).error().code, ErrorCode::kDiskFull);
    EXPECT_EQ(journal_->Last().index, 1U);
    files_.SetBytesLeft(0);
    EXPECT_EQ(journal_->Append(batch).error().code, ErrorCode::kDiskFull);

    SimulatedFileSystem killed(files_);  // a process that ends now has written nothing that counts
    killed.SetBytesLeft(std::nullopt);
    const auto opened = FileJournal::Open(killed, kTestDirectory, {}, SmallSegments());
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    EXPECT_EQ((*opened)->Last().index, 1U);
  }
  files_.SetBytesLeft(std::nullopt);
  ASSERT_TRUE(journal_->Append(batch).ok());
  AppendBatch({50});
  files_.CrashPower(1, kAllDropped);
  Open();
  EXPECT_EQ(journal_->Last().index, 4U);
}

// The leavings of the refused append must not be mixed with the next one, if that is torn.
TEST_F(FaultsTest, ATornAppendAfterARefusedOneIsCut) {
  FileJournalOptions options = SmallSegments();
  options.on_sync_failure = [](const Error&) {};
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SimulatedFileSystem disk;
    auto journal = FileJournal::Open(disk, kTestDirectory, {}, options).value();
    EntrySource source;
    const std::uint64_t entries = seed % 2;  // in the segment whose next append is refused
    if (entries > 0) {
      ASSERT_TRUE(journal->Append(source.Batch({100})).ok());
    }
    disk.SetBytesLeft(4 * kSectorBytes);
    ASSERT_FALSE(journal->Append({EntrySource(source).Next(5000)}).ok());
    disk.SetBytesLeft(std::nullopt);
    SimulatedFileSystem uncut(disk);
    ASSERT_TRUE(journal->Append(source.Batch({6000})).ok());
    disk.PowerOffAtSyncPoint(disk.SyncPoints());
    ASSERT_FALSE(journal->Append(source.Batch({6000})).ok());
    disk.CrashPower(seed, FateOdds{.kept = 1, .dropped = 1, .torn = 4, .garbled = 0});
    const auto opened = FileJournal::Open(disk, kTestDirectory, {}, SmallSegments());
    ASSERT_TRUE(opened.ok()) << seed << ": " << opened.error().message;
    ASSERT_GE((*opened)->Last().index, entries + 1);
    uncut.CrashPower(seed, FateOdds{.kept = 1, .dropped = 1, .torn = 4, .garbled = 0});
    const auto before = FileJournal::Open(uncut, kTestDirectory, {}, SmallSegments());
    ASSERT_TRUE(before.ok()) << seed << ": " << before.error().message;
    ASSERT_EQ((*before)->Last().index, entries);
  }
}

TEST_F(FaultsTest, AFullDiskAtARollRefusesAndLeavesNoFile) {
  Open();
  while (UsedBytes(LastSegmentPath()) + 6000 <= kTestSegmentBytes) {
    AppendBatch({5000});
  }
  const std::vector<Entry> batch = source_.Batch({5000});
  files_.SetBytesLeft(3000);
  EXPECT_EQ(journal_->Append(batch).error().code, ErrorCode::kDiskFull);
  EXPECT_EQ(Segments().size(), 1U);
  EXPECT_TRUE(ReadDirectory(files_, kTestDirectory).value().temporary.empty());
  files_.SetBytesLeft(std::nullopt);
  ASSERT_TRUE(journal_->Append(batch).ok());
  EXPECT_EQ(Segments().size(), 2U);
  Open();
  EXPECT_EQ(journal_->Last().hash, source_.Snapshot().entry_hash);
}

TEST_F(FaultsTest, AFullDiskLeavesNoPreparedSegmentAndNoSnapshot) {
  Open();
  AppendBatch({100});
  files_.SetBytesLeft(1000);
  EXPECT_EQ(journal_->PrepareSegment().error().code, ErrorCode::kDiskFull);
  SnapshotStore store(files_, kTestDirectory);
  {
    auto writer = store.Begin(source_.Snapshot()).value();
    EXPECT_TRUE(writer->Write(std::string(100'000, 'x')).ok());
    EXPECT_EQ(writer->Finish().error().code, ErrorCode::kDiskFull);
  }
  EXPECT_TRUE(ReadDirectory(files_, kTestDirectory).value().temporary.empty());
  EXPECT_TRUE(store.List().value().empty());
}

TEST_F(FaultsTest, AStartNeedsOnlySpaceForTheEntriesThemselves) {
  Open();
  AppendBatch({1000});
  files_.SetBytesLeft(1000);
  EXPECT_EQ(OpenError().code, ErrorCode::kDiskFull);
  files_.SetBytesLeft(2500);  // not for the zeros behind them
  Open();
  EXPECT_EQ(journal_->Last().index, 1U);
  EXPECT_LT(Content(LastSegmentPath()).size(), 2500U);
}

// --- Failing sync

class SyncFailureTest : public FaultsTest {};

TEST_F(SyncFailureTest, EndsTheProcess) {
  Open();
  AppendBatch({100});
  EXPECT_DEATH(
      {
        files_.FailNextSync();
        [[maybe_unused]] const Status status = journal_->Append(source_.Batch({100}));
      },
      "the journal could not be synced");
}

// fsyncgate: the page cache shows the entry, the platter does not have it. The next process writes
// what it reads to a new file, so what it answers from is durable.
TEST_F(SyncFailureTest, TheNextProcessMakesDurableWhatItReads) {
  FileJournalOptions options = SmallSegments();
  options.on_sync_failure = [](const Error&) {};
  auto journal = FileJournal::Open(files_, kTestDirectory, {}, options).value();
  ASSERT_TRUE(journal->Append(source_.Batch({100})).ok());
  files_.FailNextSync();
  EXPECT_EQ(journal->Append(source_.Batch({100})).error().code, ErrorCode::kIo);
  EXPECT_EQ(journal->Last().index, 1U);
  EntrySource after = source_;
  EXPECT_FALSE(journal->Append({after.Next(10)}).ok());  // it is over
  EXPECT_FALSE(journal->Trim(1).ok());
  EXPECT_FALSE(journal->PrepareSegment().ok());
  files_.CrashProcess();
  journal.reset();
  Open();
  ASSERT_EQ(journal_->Last().index, 2U);
  files_.CrashPower(1, kAllDropped);
  Open();
  EXPECT_EQ(journal_->Last().index, 2U);
}

// --- Whose directory it is

TEST_F(FaultsTest, ASecondServerIsRefusedUntilTheFirstEnds) {
  Open();
  const auto second = FileJournal::Open(files_, kTestDirectory, {}, SmallSegments());
  EXPECT_EQ(second.error().code, ErrorCode::kBusy);
  Open();
}

// It must not touch the files of the first either: a snapshot that is being written, for one.
TEST_F(FaultsTest, ASecondServerDisturbsNothing) {
  Open();
  AppendBatch({100});
  SnapshotStore store(files_, kTestDirectory);
  auto writer = store.Begin(source_.Snapshot()).value();
  SnapshotStore of_second(files_, kTestDirectory);
  EXPECT_TRUE(of_second.List().value().empty());
  EXPECT_FALSE(FileJournal::Open(files_, kTestDirectory, {}, SmallSegments()).ok());
  ASSERT_TRUE(writer->Write("state").ok());
  ASSERT_TRUE(writer->Finish().ok());
  EXPECT_EQ(store.Load(1).value().payload, "state");
}

TEST_F(FaultsTest, AReadOnlyDiskIsRefusedClearly) {
  Open();
  AppendBatch({100});
  journal_.reset();
  files_.SetReadOnly(true);
  const Error error = OpenError();
  EXPECT_EQ(error.code, ErrorCode::kPermissionDenied);
  EXPECT_NE(error.message.find("data"), std::string::npos);
  EXPECT_NE(error.message.find("read-only"), std::string::npos);
}

TEST_F(FaultsTest, ACopiedBackDirectoryIsRefused) {
  Open();
  AppendBatch({100});
  journal_.reset();
  files_.CopyDirectory(kTestDirectory, "backup");
  Open();
  AppendBatch({100});
  journal_.reset();
  files_.CopyDirectory("backup", kTestDirectory);
  const Error error = OpenError();
  EXPECT_EQ(error.code, ErrorCode::kPermissionDenied);
  EXPECT_NE(error.message.find("holdfast recover data --token-floor N"), std::string::npos);
  EXPECT_EQ(FileJournal::Open(files_, "backup", {}, SmallSegments()).error().code,
            ErrorCode::kPermissionDenied);
}

// As rsync does, which leaves an identity file alone that has not changed.
TEST_F(FaultsTest, ACopiedBackSegmentIsRefusedAlthoughTheIdentityFileIsTheOriginal) {
  Open();
  AppendBatch({100});
  journal_.reset();
  files_.CopyDirectory(kTestDirectory, "backup");
  Open();
  AppendBatch({100});
  journal_.reset();
  ASSERT_TRUE(files_.Remove(SegmentPath(1)).ok());
  const std::string old = Content(PathIn("backup", SegmentName(1)));
  auto file = files_.Create(SegmentPath(1)).value();
  ASSERT_TRUE(file->WriteAt(0, old).ok());
  const Error error = OpenError();
  EXPECT_EQ(error.code, ErrorCode::kPermissionDenied);
  EXPECT_NE(error.message.find("--token-floor"), std::string::npos);
}

TEST_F(FaultsTest, ADamagedOrMissingIdentityIsAnErrorAndNeverANewLog) {
  Open();
  AppendBatch({100});
  journal_.reset();
  const std::string path = PathIn(kTestDirectory, kIdentityName);
  const std::size_t size = UsedBytes(path);
  for (std::size_t offset = 0; offset < size; ++offset) {
    SimulatedFileSystem disk(files_);
    disk.FlipBit(path, offset, 0);
    const auto opened = FileJournal::Open(disk, kTestDirectory, {}, SmallSegments());
    ASSERT_FALSE(opened.ok()) << offset;
  }
  ASSERT_TRUE(files_.Remove(path).ok());
  const Error error = OpenError();
  EXPECT_EQ(error.code, ErrorCode::kCorrupt);
  EXPECT_NE(error.message.find("identity: missing"), std::string::npos) << error.message;
}

// On a real file system, where root is not asked: the child gives its rights up.
TEST(PosixFaultsTest, ADirectoryThatMayNotBeWrittenAndASecondProcessAreRefused) {
  std::string root = ::testing::TempDir() + "holdfast-faults-XXXXXX";
  ASSERT_NE(mkdtemp(root.data()), nullptr);
  const std::string directory = root + "/data";
  storage::PosixFileSystem files;
  auto journal = FileJournal::Open(files, directory, {}, SmallSegments()).value();
  EntrySource source;
  ASSERT_TRUE(journal->Append(source.Batch({100, 2000})).ok());

  const auto in_child = [&](bool unprivileged, ErrorCode expected, const std::string& text) {
    const pid_t child = fork();
    if (child == 0) {
      constexpr uid_t kNobody = 65534;
      if (unprivileged && geteuid() == 0 && setuid(kNobody) != 0) {
        _exit(2);
      }
      const auto opened = FileJournal::Open(files, directory, {}, SmallSegments());
      const bool right = !opened.ok() && opened.error().code == expected &&
                         opened.error().message.find(text) != std::string::npos;
      _exit(right ? 0 : 1);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  EXPECT_EQ(in_child(false, ErrorCode::kBusy, std::to_string(getpid())), 0);
  ASSERT_EQ(chmod(root.c_str(), 0755), 0);
  ASSERT_EQ(chmod(directory.c_str(), 0555), 0);
  EXPECT_EQ(in_child(true, ErrorCode::kPermissionDenied, directory), 0);
  ASSERT_EQ(chmod(directory.c_str(), 0700), 0);

  // `cp -a` keeps names, modes and times, but not what the identity is made of.
  journal.reset();
  std::filesystem::copy(directory, root + "/copy", std::filesystem::copy_options::recursive);
  EXPECT_EQ(FileJournal::Open(files, root + "/copy", {}, SmallSegments()).error().code,
            ErrorCode::kPermissionDenied);
  // A rename of the whole directory is not a copy.
  std::filesystem::rename(directory, root + "/moved");
  EXPECT_TRUE(FileJournal::Open(files, root + "/moved", {}, SmallSegments()).ok());
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace holdfast::journal
