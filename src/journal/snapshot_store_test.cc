#include "journal/snapshot_store.h"

#include <string>

#include <gtest/gtest.h>

#include "journal/chunk_file.h"
#include "journal/layout.h"
#include "storage/simulated_file_system.h"

namespace holdfast::journal {
namespace {

using storage::FateOdds;
using storage::SimulatedFileSystem;

class SnapshotStoreTest : public ::testing::Test {
 protected:
  SnapshotStoreTest() { EXPECT_TRUE(files_.CreateDirectory("data").ok()); }

  static SnapshotHeader Header(std::uint64_t index) {
    return SnapshotHeader{index, 3, Id128{9, 8, 7}, Timestamp(Seconds(5)), 0};
  }
  // Two chunks, of which the second is not full.
  static std::string Payload() {
    std::string payload(400'000, 'x');
    for (std::size_t i = 0; i < payload.size(); i += 997) {
      payload[i] = static_cast<char>(i);
    }
    return payload;
  }
  void Write(std::uint64_t index, const std::string& payload) {
    auto writer = store_.Begin(Header(index)).value();
    for (std::size_t offset = 0; offset < payload.size(); offset += 70'000) {
      ASSERT_TRUE(writer->Write(std::string_view(payload).substr(offset, 70'000)).ok());
    }
    ASSERT_TRUE(writer->Finish().ok());
  }

  SimulatedFileSystem files_;
  SnapshotStore store_{files_, "data"};
};

TEST_F(SnapshotStoreTest, WhatWasWrittenIsLoaded) {
  Write(42, Payload());
  Write(43, "");
  const Snapshot loaded = store_.Load(42).value();
  EXPECT_EQ(loaded.payload, Payload());
  EXPECT_EQ(loaded.header.index, 42U);
  EXPECT_EQ(loaded.header.epoch, 3U);
  EXPECT_EQ(loaded.header.entry_hash, (Id128{9, 8, 7}));
  EXPECT_EQ(loaded.header.time, Timestamp(Seconds(5)));
  EXPECT_EQ(loaded.header.payload_bytes, 400'000U);
  EXPECT_EQ(store_.Load(43).value().payload, "");
  EXPECT_EQ(store_.Load(44).error().code, ErrorCode::kNotFound);
}

TEST_F(SnapshotStoreTest, AFinishedSnapshotIsDurableAndAnUnfinishedOneLeavesNothing) {
  Write(1, "one");
  {
    auto unfinished = store_.Begin(Header(2)).value();
    ASSERT_TRUE(unfinished->Write(Payload()).ok());
  }
  EXPECT_EQ(files_.List("data").value(), std::vector<std::string>{SnapshotName(1)});
  files_.CrashPower(1, FateOdds{.kept = 0, .dropped = 1, .torn = 0, .garbled = 0});
  EXPECT_EQ(store_.Load(1).value().payload, "one");
}

TEST_F(SnapshotStoreTest, AnUnfinishedSnapshotOfADeadProcessIsNotListed) {
  auto unfinished = store_.Begin(Header(2)).value();
  ASSERT_TRUE(unfinished->Write("two").ok());
  files_.CrashProcess();
  EXPECT_TRUE(store_.List().value().empty());
  EXPECT_EQ(store_.Load(2).error().code, ErrorCode::kNotFound);
}

TEST_F(SnapshotStoreTest, ListsOldestFirstAndRetainsTheNewest) {
  for (const std::uint64_t index : {7U, 100U, 30U}) {
    Write(index, "x");
  }
  EXPECT_EQ(store_.List().value(), (std::vector<std::uint64_t>{7, 30, 100}));
  ASSERT_TRUE(store_.Retain(2).ok());
  EXPECT_EQ(store_.List().value(), (std::vector<std::uint64_t>{30, 100}));
  EXPECT_TRUE(SnapshotStore(files_, "elsewhere").List().value().empty());
}

TEST_F(SnapshotStoreTest, EveryFlippedBitIsFound) {
  Write(5, std::string(300, 'p'));
  const std::string path = PathIn("data", SnapshotName(5));
  const std::uint64_t size = files_.Open(path, true).value()->Size().value();
  for (std::uint64_t offset = 0; offset < size; ++offset) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      files_.FlipBit(path, offset, bit);
      const auto loaded = store_.Load(5);
      ASSERT_FALSE(loaded.ok()) << offset;
      ASSERT_EQ(loaded.error().code, ErrorCode::kCorrupt) << loaded.error().message;
      ASSERT_NE(loaded.error().message.find(path + " at offset "), std::string::npos);
      files_.FlipBit(path, offset, bit);
    }
  }
  EXPECT_TRUE(store_.Load(5).ok());
}

TEST_F(SnapshotStoreTest, EveryTruncationAndAnythingBehindTheEndIsFound) {
  Write(5, std::string(300, 'p'));
  const std::string path = PathIn("data", SnapshotName(5));
  const std::uint64_t size = files_.Open(path, true).value()->Size().value();
  for (std::uint64_t length = 0; length < size; ++length) {
    SimulatedFileSystem disk(files_);
    disk.Truncate(path, length);
    EXPECT_EQ(SnapshotStore(disk, "data").Load(5).error().code, ErrorCode::kCorrupt) << length;
  }
  files_.Overwrite(path, size, "x");
  EXPECT_EQ(store_.Load(5).error().code, ErrorCode::kCorrupt);
}

TEST_F(SnapshotStoreTest, ARenamedSnapshotIsNotTakenForAnother) {
  Write(5, "five");
  ASSERT_TRUE(files_.Rename(PathIn("data", SnapshotName(5)), PathIn("data", SnapshotName(6))).ok());
  EXPECT_EQ(store_.Load(6).error().code, ErrorCode::kCorrupt);
}

TEST_F(SnapshotStoreTest, TheNewestThatLoadsIsFound) {
  EXPECT_EQ(store_.LoadNewest().value().header.index, 0U);
  Write(5, "five");
  Write(6, "six");
  EXPECT_EQ(store_.LoadNewest().value().payload, "six");
  files_.FlipBit(PathIn("data", SnapshotName(6)), 40, 0);
  EXPECT_EQ(store_.LoadNewest().value().payload, "five");
}

TEST_F(SnapshotStoreTest, AFormatOfTheFutureIsUnsupported) {
  {
    auto file = files_.Create(PathIn("data", SnapshotName(5))).value();
    ChunkWriter writer(*file, kSnapshotMagic);
    ASSERT_TRUE(writer.Finish().ok());
  }
  const std::string path = PathIn("data", SnapshotName(5));
  // Magic, version 2, and the CRC-32C of both.
  files_.Overwrite(path, 8, std::string("\x02\0\0\0\x00\xc9\x6d\x7f", 8));
  const auto loaded = store_.Load(5);
  EXPECT_EQ(loaded.error().code, ErrorCode::kUnsupported) << loaded.error().message;
}

}  // namespace
}  // namespace holdfast::journal
