#include "journal/file_journal.h"

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "journal/test_journal.h"
#include "storage/posix_file_system.h"

namespace holdfast::journal {
namespace {

class FileJournalTest : public JournalTest {};

TEST_F(FileJournalTest, ANewDirectoryHasAnEmptyLog) {
  Open();
  EXPECT_EQ(journal_->Last().index, 0U);
  EXPECT_EQ(journal_->FirstIndex(), 1U);
  EXPECT_TRUE(journal_->Read(1, 1000).value().empty());
  EXPECT_EQ(journal_->TokenFloor(), 0U);
  EXPECT_FALSE(journal_->Recovered());
  EXPECT_EQ(journal_->LogId(), (Id128{1, 2, 3}));
}

TEST_F(FileJournalTest, EntriesComeBackAsTheyWereGivenAlsoAfterARestart) {
  Open();
  std::vector<Entry> entries = source_.Batch({1, 503, 504, 505});
  entries[3].epoch = 5;
  entries[3].fragments = 3;
  entries[3].fragment = 2;
  ASSERT_TRUE(journal_->Append(entries).ok());
  for (int restart = 0; restart < 2; ++restart) {
    EXPECT_EQ(journal_->Last().index, 4U);
    EXPECT_EQ(journal_->Last().epoch, 5U);
    EXPECT_EQ(journal_->Last().hash, EntryHash(entries[3]));
    const auto read = journal_->Read(1, 1U << 20U).value();
    ASSERT_EQ(read.size(), 4U);
    for (std::size_t i = 0; i < read.size(); ++i) {
      EXPECT_EQ(EntryHash(read[i]), EntryHash(entries[i]));
      EXPECT_EQ(read[i].payload, entries[i].payload);
    }
    Open();
  }
}

TEST_F(FileJournalTest, ReadGivesAboutWhatWasAskedForAndAtLeastOne) {
  Open();
  AppendBatch({100, 100, 100});
  AppendBatch({100});
  EXPECT_EQ(journal_->Read(2, 0).value().size(), 1U);
  EXPECT_EQ(journal_->Read(2, 150).value().size(), 2U);
  EXPECT_EQ(journal_->Read(2, 1000).value().size(), 3U);
  EXPECT_EQ(journal_->Read(4, 1000).value().front().index, 4U);
  EXPECT_TRUE(journal_->Read(5, 1000).value().empty());
}

TEST_F(FileJournalTest, RollsToNewSegmentsAndReadsAcrossThem) {
  Open();
  FillSegments(4);
  const std::uint64_t last = journal_->Last().index;
  for (int restart = 0; restart < 2; ++restart) {
    const std::vector<Entry> all = ReadAll(*journal_);
    ASSERT_EQ(all.size(), last);
    EXPECT_EQ(EntryHash(all.back()), journal_->Last().hash);
    for (std::uint64_t index = 1; index <= last; index += 7) {
      EXPECT_EQ(journal_->Read(index, 1).value().front().index, index);
    }
    Open();
  }
  EXPECT_EQ(Segments().size(), 4U);
}

TEST_F(FileJournalTest, APreparedSegmentIsUsedAndSavesSyncs) {
  Open();
  FillSegments(1);
  ASSERT_TRUE(journal_->PrepareSegment().ok());
  ASSERT_TRUE(journal_->PrepareSegment().ok());  // one is enough
  EXPECT_EQ(ReadDirectory(files_, kTestDirectory).value().temporary.size(), 1U);
  FillSegments(2);
  EXPECT_TRUE(ReadDirectory(files_, kTestDirectory).value().temporary.empty());
  EXPECT_EQ(Content(LastSegmentPath()).size(), kTestSegmentBytes);
  EXPECT_EQ(ReadAll(*journal_).size(), journal_->Last().index);
}

TEST_F(FileJournalTest, OneAppendIsOneSync) {
  Open();
  AppendBatch({10});
  const std::uint64_t before = files_.SyncPoints();
  AppendBatch({10, 2000, 300, 4000, 50});
  EXPECT_EQ(files_.SyncPoints(), before + 1);
  EXPECT_EQ(journal_->Stats().syncs, 2U);
  EXPECT_EQ(journal_->Stats().appends, 2U);
}

TEST_F(FileJournalTest, AGroupLargerThanASegmentIsOneSegment) {
  Open();
  AppendBatch({100});
  AppendBatch({kEntryBytesMax, kEntryBytesMax, 5});
  AppendBatch({100});
  EXPECT_EQ(Segments().size(), 3U);
  Open();
  EXPECT_EQ(ReadAll(*journal_).size(), 5U);
}

TEST_F(FileJournalTest, TrimRemovesWholeSegmentsAndNeverTheLast) {
  Open();
  FillSegments(4);
  const auto firsts = Segments();
  ASSERT_TRUE(journal_->Trim(firsts[1] - 1).ok());
  EXPECT_EQ(journal_->FirstIndex(), 1U);
  ASSERT_TRUE(journal_->Trim(firsts[2] + 1).ok());
  EXPECT_EQ(journal_->FirstIndex(), firsts[2]);
  EXPECT_EQ(journal_->Read(firsts[2] - 1, 1).error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(journal_->Trim(1'000'000).ok());
  EXPECT_EQ(journal_->FirstIndex(), firsts[3]);
  AppendBatch({10});

  // The log now needs a snapshot to begin from.
  const Error error = OpenError();
  EXPECT_EQ(error.code, ErrorCode::kCorrupt);
  EXPECT_NE(error.message.find(SegmentName(1)), std::string::npos) << error.message;
}

// What a snapshot of everything before `index` would say.
SnapshotHeader SnapshotBefore(FileJournal& journal, std::uint64_t index) {
  SnapshotHeader header;
  header.index = index - 1;
  header.entry_hash = journal.Read(index, 1).value().front().previous_hash;
  return header;
}

TEST_F(FileJournalTest, TheLogMustContinueTheSnapshot) {
  Open();
  FillSegments(3);
  const auto firsts = Segments();
  const SnapshotHeader snapshot = SnapshotBefore(*journal_, firsts[1]);
  ASSERT_TRUE(journal_->Trim(firsts[1]).ok());
  Open(snapshot);  // the log begins right behind it
  Open(SnapshotBefore(*journal_, firsts[1] + 2));
  const SnapshotHeader latest = source_.Snapshot();
  Open(latest);

  SnapshotHeader other = snapshot;
  other.entry_hash[0] ^= 1U;
  EXPECT_EQ(OpenError(other).code, ErrorCode::kCorrupt);
  other = latest;
  ++other.index;
  const Error beyond = OpenError(other);
  EXPECT_EQ(beyond.code, ErrorCode::kCorrupt);
  EXPECT_NE(beyond.message.find("a snapshot of them exists"), std::string::npos);
}

TEST_F(FileJournalTest, SegmentSizesOutOfRangeAreRefused) {
  FileJournalOptions options = SmallSegments();
  options.segment_bytes = 65535;
  EXPECT_EQ(FileJournal::Open(files_, kTestDirectory, {}, options).error().code,
            ErrorCode::kInvalidArgument);
  options.segment_bytes = (1U << 30U) + 1;
  EXPECT_EQ(FileJournal::Open(files_, kTestDirectory, {}, options).error().code,
            ErrorCode::kInvalidArgument);
}

// The threads that run in a server: one appends, one reads what was appended, prepares and trims.
TEST(FileJournalThreadsTest, ReadPrepareAndTrimRunBesideAppend) {
  std::string root = ::testing::TempDir() + "holdfast-journal-XXXXXX";
  ASSERT_NE(mkdtemp(root.data()), nullptr);
  storage::PosixFileSystem files;
  auto journal = FileJournal::Open(files, root + "/data", {}, SmallSegments()).value();
  constexpr std::uint64_t kEntries = 300;
  std::thread other([&] {
    std::uint64_t next = 1;
    while (next <= kEntries) {
      const auto read = journal->Read(next, 4096);
      ASSERT_TRUE(read.ok()) << read.error().message;
      for (const Entry& entry : *read) {
        ASSERT_EQ(entry.index, next);
        ++next;
      }
      ASSERT_TRUE(journal->PrepareSegment().ok());
      ASSERT_TRUE(journal->Trim(next - 1).ok());
      ASSERT_LE(journal->Last().index, kEntries);
      ASSERT_GT(journal->Stats().segments, 0U);
    }
  });
  EntrySource source;
  for (std::uint64_t i = 0; i < kEntries; ++i) {
    ASSERT_TRUE(journal->Append({source.Next(3000)}).ok());
  }
  other.join();
  EXPECT_GT(journal->FirstIndex(), 200U);
  journal.reset();
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace holdfast::journal
