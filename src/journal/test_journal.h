// For tests: entries that continue a chain, and a journal on a simulated disk.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "journal/chain.h"
#include "journal/file_journal.h"
#include "journal/layout.h"
#include "storage/simulated_file_system.h"

namespace holdfast::journal {

// Makes consecutive entries with recognisable payloads.
class EntrySource {
 public:
  EntrySource() = default;
  explicit EntrySource(const ChainEnd& end) : end_(end) {}

  Entry Next(std::size_t payload_bytes) {
    Entry entry;
    entry.index = end_.last.index + 1;
    entry.epoch = std::max<std::uint64_t>(end_.last.epoch, 1);
    entry.time = end_.time + Millis(200);
    entry.previous_hash = end_.last.hash;
    entry.payload = "entry " + std::to_string(entry.index) + " ";
    entry.payload.resize(payload_bytes, static_cast<char>('a' + entry.index % 26));
    Advance(end_, entry);
    return entry;
  }
  std::vector<Entry> Batch(const std::vector<std::size_t>& sizes) {
    std::vector<Entry> entries;
    entries.reserve(sizes.size());
    for (const std::size_t size : sizes) {
      entries.push_back(Next(size));
    }
    return entries;
  }
  // A snapshot of everything so far.
  SnapshotHeader Snapshot() const {
    return SnapshotHeader{end_.last.index, end_.last.epoch, end_.last.hash, end_.time, 0};
  }

 private:
  ChainEnd end_;
};

inline constexpr char kTestDirectory[] = "data";
inline constexpr std::uint64_t kTestSegmentBytes = std::uint64_t{64} * 1024;

inline FileJournalOptions SmallSegments() {
  FileJournalOptions options;
  options.segment_bytes = kTestSegmentBytes;
  options.log_id = Id128{1, 2, 3};
  return options;
}

// All entries of a journal, read in pieces.
inline std::vector<Entry> ReadAll(const Journal& journal) {
  std::vector<Entry> all;
  std::uint64_t next = journal.FirstIndex();
  while (true) {
    auto some = journal.Read(next, 10'000);
    EXPECT_TRUE(some.ok()) << some.error().message;
    if (!some.ok() || some->empty()) {
      return all;
    }
    next = some->back().index + 1;
    std::move(some->begin(), some->end(), std::back_inserter(all));
  }
}

// A journal in kTestDirectory on a simulated disk.
class JournalTest : public ::testing::Test {
 protected:
  void Open(const SnapshotHeader& snapshot = {}) {
    journal_.reset();
    auto opened = FileJournal::Open(files_, kTestDirectory, snapshot, SmallSegments());
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    journal_ = std::move(*opened);
  }
  // Why it cannot be opened.
  Error OpenError(const SnapshotHeader& snapshot = {}) {
    journal_.reset();
    const auto opened = FileJournal::Open(files_, kTestDirectory, snapshot, SmallSegments());
    EXPECT_FALSE(opened.ok());
    return opened.ok() ? Error{} : opened.error();
  }
  void AppendBatch(const std::vector<std::size_t>& sizes) {
    const Status appended = journal_->Append(source_.Batch(sizes));
    ASSERT_TRUE(appended.ok()) << appended.error().message;
  }
  // Appends until the log has `segments` segments.
  void FillSegments(std::uint64_t segments) {
    while (journal_->Stats().segments < segments) {
      AppendBatch({5000});
    }
  }
  // First indexes, ascending.
  std::vector<std::uint64_t> Segments() {
    return ReadDirectory(files_, kTestDirectory).value().segments;
  }
  std::string SegmentPath(std::uint64_t first_index) const {
    return PathIn(kTestDirectory, SegmentName(first_index));
  }
  std::string LastSegmentPath() { return SegmentPath(Segments().back()); }
  std::string Content(const std::string& path) {
    return files_.Open(path, true).value()->ReadAt(0, 1U << 24U).value();
  }
  // Behind the last byte that is not zero.
  std::size_t UsedBytes(const std::string& path) {
    return Content(path).find_last_not_of('\0') + 1;
  }

  storage::SimulatedFileSystem files_;
  EntrySource source_;
  std::unique_ptr<FileJournal> journal_;
};

}  // namespace holdfast::journal
