#include "journal/segment_format.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/core.h>

#include "base/crc32c.h"
#include "journal/little_endian.h"

namespace holdfast::journal {
namespace {

constexpr std::string_view kMagic = "HOLDFAST";
constexpr std::size_t kHeaderContentBytes = 8 + 4 + 4 + 16 + 8 + 16 + 8 + 8 + 8 + 8 + 8;
constexpr std::size_t kCrcOffset = kSectorContentBytes;
constexpr std::size_t kUsedOffset = kCrcOffset + 4;
constexpr std::size_t kKindOffset = kSectorBytes - 1;
constexpr std::size_t kRecordCrcOffset = 4;

std::uint32_t SeedOf(const Id128& log_id, std::uint64_t first_index) {
  std::array<char, 24> fields{};
  FixedWriter out(fields.data());
  out.Id(log_id);
  out.U64(first_index);
  return Crc32c(std::string_view(fields.data(), fields.size()));
}

// Over everything in the sector but the CRC itself.
std::uint32_t SectorCrc(const char* sector, std::uint64_t number, std::uint32_t seed) {
  std::array<char, 8> place{};
  FixedWriter(place.data()).U64(number);
  std::uint32_t crc = Crc32c(std::string_view(place.data(), place.size()), seed);
  crc = Crc32c(std::string_view(sector, kSectorContentBytes), crc);
  return Crc32c(std::string_view(sector + kUsedOffset, kSectorBytes - kUsedOffset), crc);
}

void SealSector(char* sector, std::uint32_t crc_seed, std::uint64_t number, SectorKind kind,
                std::size_t used) {
  FixedWriter tail(sector + kUsedOffset);
  tail.U16(static_cast<std::uint16_t>(used));
  tail.U8(static_cast<std::uint8_t>(kSegmentFormatVersion));
  tail.U8(static_cast<std::uint8_t>(kind));
  FixedWriter(sector + kCrcOffset).U32(SectorCrc(sector, number, crc_seed));
}

bool IsKind(char byte) {
  switch (static_cast<SectorKind>(byte)) {
    case SectorKind::kHeader:
    case SectorKind::kOnly:
    case SectorKind::kFirst:
    case SectorKind::kMiddle:
    case SectorKind::kLast:
      return true;
  }
  return false;
}

Sector CheckSector(std::string_view bytes, std::uint64_t number, std::uint32_t seed) {
  const bool zero = std::all_of(bytes.begin(), bytes.end(), [](char byte) { return byte == 0; });
  if (zero) {
    return {};
  }
  Sector sector;
  if (bytes.size() < kSectorBytes || bytes[kKindOffset] == 0) {
    sector.state = SectorState::kUnfinished;
    return sector;
  }
  FixedReader trailer(bytes.data() + kCrcOffset);
  const std::uint32_t crc = trailer.U32();
  const std::size_t used = trailer.U16();
  if (crc != SectorCrc(bytes.data(), number, seed) || used > kSectorContentBytes ||
      !IsKind(bytes[kKindOffset])) {
    sector.state = SectorState::kDamaged;
    return sector;
  }
  sector.state = SectorState::kValid;
  sector.kind = static_cast<SectorKind>(bytes[kKindOffset]);
  sector.content = bytes.substr(0, used);
  return sector;
}

}  // namespace

SectorFrame::SectorFrame(const Id128& log_id, std::uint64_t first_index)
    : seed_(SeedOf(log_id, first_index)) {}

void SectorFrame::Seal(char* sector, std::uint64_t number, SectorKind kind,
                       std::size_t used) const {
  SealSector(sector, seed_, number, kind, used);
}

Sector SectorFrame::Check(std::string_view bytes, std::uint64_t number) const {
  return CheckSector(bytes, number, seed_);
}

std::string EncodeSegmentHeader(const SegmentHeader& header) {
  std::string sector(kSectorBytes, '\0');
  std::memcpy(sector.data(), kMagic.data(), kMagic.size());
  FixedWriter out(sector.data() + kMagic.size());
  out.U32(kSegmentFormatVersion);
  out.U32(kSectorBytes);
  out.Id(header.log_id);
  out.U64(header.first_index);
  out.Id(header.previous_hash);
  out.U64(header.previous_epoch);
  out.I64(header.previous_time.time_since_epoch().count());
  out.U64(header.file.inode);
  out.I64(header.file.birth_time_ns);
  out.U64(header.synced_index);
  // Not seeded with log and segment, which are only known from here.
  SealSector(sector.data(), 0, 0, SectorKind::kHeader, kHeaderContentBytes);
  return sector;
}

Result<SegmentHeader> DecodeSegmentHeader(std::string_view sector, const std::string& file) {
  const auto corrupt = [&](const char* what) {
    return Error{ErrorCode::kCorrupt, fmt::format("{} at offset 0: {}", file, what), {}, {}};
  };
  if (sector.size() < kSectorBytes) {
    return corrupt("the segment header is cut off");
  }
  const bool ours = sector.substr(0, kMagic.size()) == kMagic;
  FixedReader in(sector.data() + kMagic.size());
  const std::uint32_t version = in.U32();
  if (ours && version > kSegmentFormatVersion) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("{} has format version {}, this program knows {}", file, version,
                             kSegmentFormatVersion),
                 {},
                 {}};
  }
  const Sector checked = CheckSector(sector.substr(0, kSectorBytes), 0, 0);
  if (!ours || checked.state != SectorState::kValid || checked.kind != SectorKind::kHeader ||
      checked.content.size() != kHeaderContentBytes || version != kSegmentFormatVersion ||
      in.U32() != kSectorBytes) {
    return corrupt("the segment header is damaged");
  }
  SegmentHeader header;
  header.log_id = in.Id();
  header.first_index = in.U64();
  header.previous_hash = in.Id();
  header.previous_epoch = in.U64();
  header.previous_time = Timestamp(Duration(in.I64()));
  header.file.inode = in.U64();
  header.file.birth_time_ns = in.I64();
  header.synced_index = in.U64();
  return header;
}

std::uint32_t RecordCrc(const char* header, std::string_view payload) {
  std::uint32_t crc = Crc32c(std::string_view(header, kRecordCrcOffset));
  crc = Crc32c(
      std::string_view(header + kRecordCrcOffset + 4, kRecordHeaderBytes - kRecordCrcOffset - 4),
      crc);
  return Crc32c(payload, crc);
}

void EncodeRecordHeader(const Entry& entry, std::uint64_t synced_index, char* out) {
  FixedWriter fields(out);
  fields.U32(static_cast<std::uint32_t>(entry.payload.size()));
  fields.U32(0);
  fields.U64(entry.index);
  fields.U64(entry.epoch);
  fields.I64(entry.time.time_since_epoch().count());
  fields.Id(entry.previous_hash);
  fields.U64(synced_index);
  fields.U32(entry.fragment);
  fields.U32(entry.fragments);
  FixedWriter(out + kRecordCrcOffset).U32(RecordCrc(out, entry.payload));
}

RecordHeader DecodeRecordHeader(const char* bytes) {
  FixedReader in(bytes);
  RecordHeader header;
  header.payload_bytes = in.U32();
  header.crc = in.U32();
  header.entry.index = in.U64();
  header.entry.epoch = in.U64();
  header.entry.time = Timestamp(Duration(in.I64()));
  header.entry.previous_hash = in.Id();
  header.synced_index = in.U64();
  header.entry.fragment = in.U32();
  header.entry.fragments = in.U32();
  return header;
}

}  // namespace holdfast::journal
