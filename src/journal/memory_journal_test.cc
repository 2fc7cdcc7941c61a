#include "journal/memory_journal.h"

#include <gtest/gtest.h>

#include "journal/test_journal.h"

namespace holdfast::journal {
namespace {

TEST(EntryHashTest, CoversEveryField) {
  Entry entry;
  entry.index = 7;
  entry.epoch = 3;
  entry.time = Timestamp(Millis(5));
  entry.fragments = 2;
  entry.payload = "payload";
  const Id128 hash = EntryHash(entry);
  EXPECT_EQ(EntryHash(entry), hash);
  const auto changed = [&](auto change) {
    Entry other = entry;
    change(other);
    return EntryHash(other);
  };
  EXPECT_NE(changed([](Entry& e) { e.index = 8; }), hash);
  EXPECT_NE(changed([](Entry& e) { e.epoch = 4; }), hash);
  EXPECT_NE(changed([](Entry& e) { e.time += Duration(1); }), hash);
  EXPECT_NE(changed([](Entry& e) { e.previous_hash[15] = 1; }), hash);
  EXPECT_NE(changed([](Entry& e) { e.fragment = 1; }), hash);
  EXPECT_NE(changed([](Entry& e) { e.fragments = 3; }), hash);
  EXPECT_NE(changed([](Entry& e) { e.payload.back() = 'D'; }), hash);
}

// Pins the bytes: a change would make every stored log unreadable.
TEST(EntryHashTest, IsStable) {
  Entry entry;
  entry.index = 1;
  entry.epoch = 1;
  entry.payload = "a";
  EXPECT_EQ(ToHex(EntryHash(entry)), "41292931e60a057f559dd9f740dcad77");
}

TEST(MemoryJournalTest, AppendsReadsAndTrims) {
  MemoryJournal journal;
  EntrySource source;
  EXPECT_EQ(journal.Last().index, 0U);
  EXPECT_EQ(journal.FirstIndex(), 1U);
  ASSERT_TRUE(journal.Append(source.Batch({10, 20, 30})).ok());
  ASSERT_TRUE(journal.Append(source.Batch({40})).ok());
  EXPECT_EQ(journal.Last().index, 4U);
  EXPECT_EQ(journal.Last().hash, source.Snapshot().entry_hash);

  EXPECT_EQ(journal.Read(1, 1).value().size(), 1U);  // at least one
  EXPECT_EQ(journal.Read(2, 50).value().size(), 2U);
  EXPECT_EQ(journal.Read(1, 1000).value().size(), 4U);
  EXPECT_TRUE(journal.Read(5, 1000).value().empty());

  ASSERT_TRUE(journal.Trim(3).ok());
  EXPECT_EQ(journal.FirstIndex(), 3U);
  EXPECT_EQ(journal.Read(2, 1000).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(journal.Read(3, 1000).value().front().index, 3U);
  ASSERT_TRUE(journal.Trim(100).ok());
  EXPECT_EQ(journal.FirstIndex(), 4U);
}

TEST(MemoryJournalDeathTest, EntriesThatDoNotContinueTheLogAreADefect) {
  MemoryJournal journal;
  EntrySource source;
  ASSERT_TRUE(journal.Append(source.Batch({10})).ok());
  const Entry good = source.Next(10);
  const auto dies = [&](auto change, const char* message) {
    Entry bad = good;
    change(bad);
    EXPECT_DEATH({ [[maybe_unused]] const Status status = journal.Append({bad}); }, message);
  };
  dies([](Entry& e) { e.index = 3; }, "entry 3 follows entry 1");
  dies([](Entry& e) { e.previous_hash = {}; }, "hash of the entry before it");
  dies([](Entry& e) { e.epoch = 0; }, "epoch falls from 1 to 0");
  dies([](Entry& e) { e.time = {}; }, "state time falls");
  dies([](Entry& e) { e.fragment = 1; }, "fragment 1 of 1");
  dies([](Entry& e) { e.payload.clear(); }, "payload of 0 bytes");
  dies([](Entry& e) { e.payload.resize(kEntryBytesMax + 1); }, "payload of 1048577 bytes");
}

}  // namespace
}  // namespace holdfast::journal
