#include "journal/segment_format.h"

#include <array>
#include <string>

#include <gtest/gtest.h>

namespace holdfast::journal {
namespace {

SegmentHeader Header() {
  SegmentHeader header;
  header.log_id = Id128{1, 2, 3};
  header.first_index = 7;
  header.previous_hash = Id128{4, 5, 6};
  header.previous_epoch = 8;
  header.previous_time = Timestamp(Seconds(9));
  header.file = storage::FileIdentity{10, -11};
  header.synced_index = 12;
  return header;
}

std::string SealedSector(const SectorFrame& frame, std::uint64_t number, SectorKind kind,
                         const std::string& content) {
  std::string sector = content;
  sector.resize(kSectorBytes, '\0');
  frame.Seal(sector.data(), number, kind, content.size());
  return sector;
}

TEST(SegmentFormatTest, AHeaderComesBackAsItWasWritten) {
  const auto header = DecodeSegmentHeader(EncodeSegmentHeader(Header()), "f");
  ASSERT_TRUE(header.ok()) << header.error().message;
  EXPECT_EQ(EncodeSegmentHeader(*header), EncodeSegmentHeader(Header()));
  EXPECT_EQ(header->file.birth_time_ns, -11);
  EXPECT_EQ(header->synced_index, 12U);
  EXPECT_EQ(DecodeSegmentHeader(std::string(kSectorBytes, '\0'), "f").error().code,
            ErrorCode::kCorrupt);
  EXPECT_EQ(DecodeSegmentHeader("HOLDFAST", "f").error().code, ErrorCode::kCorrupt);
}

TEST(SegmentFormatTest, ARecordHeaderComesBackAsItWasWritten) {
  Entry entry;
  entry.index = 1;
  entry.epoch = 2;
  entry.time = Timestamp(Millis(3));
  entry.previous_hash = Id128{4};
  entry.fragment = 5;
  entry.fragments = 6;
  entry.payload = "payload";
  std::array<char, kRecordHeaderBytes> bytes{};
  EncodeRecordHeader(entry, 9, bytes.data());
  RecordHeader header = DecodeRecordHeader(bytes.data());
  EXPECT_EQ(header.payload_bytes, 7U);
  EXPECT_EQ(header.synced_index, 9U);
  EXPECT_EQ(header.crc, RecordCrc(bytes.data(), "payload"));
  EXPECT_NE(header.crc, RecordCrc(bytes.data(), "Payload"));
  header.entry.payload = entry.payload;
  EXPECT_EQ(EntryHash(header.entry), EntryHash(entry));
}

TEST(SegmentFormatTest, ASectorIsValidOnlyWhereItBelongs) {
  const SectorFrame frame(Id128{1}, 7);
  const std::string sector = SealedSector(frame, 3, SectorKind::kFirst, "content");
  const Sector checked = frame.Check(sector, 3);
  EXPECT_EQ(checked.state, SectorState::kValid);
  EXPECT_EQ(checked.kind, SectorKind::kFirst);
  EXPECT_EQ(checked.content, "content");
  EXPECT_EQ(frame.Check(sector, 4).state, SectorState::kDamaged);
  EXPECT_EQ(SectorFrame(Id128{1}, 8).Check(sector, 3).state, SectorState::kDamaged);
  EXPECT_EQ(SectorFrame(Id128{2}, 7).Check(sector, 3).state, SectorState::kDamaged);
}

TEST(SegmentFormatTest, NeverWrittenUnfinishedAndDamagedAreThreeThings) {
  const SectorFrame frame(Id128{1}, 7);
  const std::string sector = SealedSector(frame, 3, SectorKind::kOnly, std::string(504, '\0'));
  EXPECT_EQ(frame.Check(sector, 3).state, SectorState::kValid);  // zeros that were written
  EXPECT_EQ(frame.Check(std::string(kSectorBytes, '\0'), 3).state, SectorState::kZero);
  EXPECT_EQ(frame.Check("", 3).state, SectorState::kZero);
  const std::string text = SealedSector(frame, 3, SectorKind::kOnly, std::string(504, 'x'));
  for (std::size_t size = 1; size < kSectorBytes; ++size) {
    std::string prefix = text.substr(0, size);
    EXPECT_EQ(frame.Check(prefix, 3).state, SectorState::kUnfinished);
    prefix.resize(kSectorBytes, '\0');
    EXPECT_EQ(frame.Check(prefix, 3).state, SectorState::kUnfinished);
  }
  for (std::size_t bit = 0; bit < 8 * kSectorBytes; ++bit) {
    std::string flipped = text;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    EXPECT_EQ(frame.Check(flipped, 3).state, SectorState::kDamaged);
  }
}

// Pins the bytes: directories that exist must stay readable.
TEST(SegmentFormatTest, IsStable) {
  EXPECT_EQ(ToHex(Hash128(EncodeSegmentHeader(Header()))), "accf3a8c93a4b9d3ec8b9f71c203fa3c");
  const SectorFrame frame(Id128{1}, 7);
  EXPECT_EQ(ToHex(Hash128(SealedSector(frame, 3, SectorKind::kLast, "content"))),
            "7b0b0274214bf7018ffac72226407b2a");
  Entry entry;
  entry.index = 1;
  entry.epoch = 1;
  entry.payload = "a";
  std::array<char, kRecordHeaderBytes> bytes{};
  EncodeRecordHeader(entry, 0, bytes.data());
  EXPECT_EQ(ToHex(Hash128(std::string_view(bytes.data(), bytes.size()))),
            "ec333824e18977bab7f2f4c8c5adeb8c");
}

}  // namespace
}  // namespace holdfast::journal
