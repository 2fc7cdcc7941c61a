#include "journal/segment_reader.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

namespace holdfast::journal {
namespace {

constexpr std::size_t kWindowBytes = std::size_t{256} << 10U;

bool BeginsGroup(const Sector& sector) {
  return sector.state == SectorState::kValid &&
         (sector.kind == SectorKind::kFirst || sector.kind == SectorKind::kOnly);
}

}  // namespace

Result<SegmentHeader> ReadSegmentHeader(const storage::File& file, const std::string& name) {
  auto sector = file.ReadAt(0, kSectorBytes);
  if (!sector.ok()) {
    return sector.error();
  }
  return DecodeSegmentHeader(*sector, name);
}

SegmentReader::SegmentReader(const storage::File& file, const SegmentHeader& header,
                             std::uint64_t first_sector, std::uint64_t end_sector)
    : file_(file),
      frame_(header.log_id, header.first_index),
      sector_(first_sector),
      end_sector_(end_sector) {}

Result<Sector> SegmentReader::At(std::uint64_t number) {
  at_end_ = false;
  if (number >= end_sector_) {
    return Sector{};
  }
  const std::uint64_t in_window = window_.size() / kSectorBytes;
  const bool held = number >= window_sector_ && number - window_sector_ < in_window;
  if (!held) {
    auto bytes = file_.ReadAt(number * kSectorBytes, kWindowBytes);
    if (!bytes.ok()) {
      return bytes.error();
    }
    window_ = std::move(*bytes);
    window_sector_ = number;
    if (window_.empty()) {
      at_end_ = true;
      return Sector{};
    }
    // An incomplete sector at the end of the file: its missing end counts as never written.
    window_.resize((window_.size() + kSectorBytes - 1) / kSectorBytes * kSectorBytes, '\0');
  }
  const auto offset = static_cast<std::size_t>(number - window_sector_) * kSectorBytes;
  return frame_.Check(std::string_view(window_).substr(offset, kSectorBytes), number);
}

Result<SegmentReader::Step> SegmentReader::Next(std::vector<StoredEntry>& entries) {
  stream_.clear();
  for (std::uint64_t number = sector_;; ++number) {
    auto sector = At(number);
    if (!sector.ok()) {
      return sector.error();
    }
    const bool begins = BeginsGroup(*sector);
    if (sector->state != SectorState::kValid || begins != (number == sector_) ||
        sector->kind == SectorKind::kHeader) {
      return ClassifyRest();
    }
    stream_.append(sector->content);
    if (sector->kind == SectorKind::kOnly || sector->kind == SectorKind::kLast) {
      if (!ParseGroup(entries)) {
        return Step::kDamaged;
      }
      sector_ = number + 1;
      return Step::kGroup;
    }
  }
}

Result<SegmentReader::Step> SegmentReader::ClassifyRest() {
  window_.clear();  // a server may have written meanwhile: look again
  bool anything = false;
  bool ended = false;  // the last sector of the incomplete group was seen
  for (std::uint64_t number = sector_;; ++number) {
    auto sector = At(number);
    if (!sector.ok()) {
      return sector.error();
    }
    if (PastEnd(number)) {
      return anything ? Step::kTorn : Step::kEnd;
    }
    switch (sector->state) {
      case SectorState::kZero:
        break;
      case SectorState::kUnfinished:
        anything = true;
        break;
      case SectorState::kDamaged:
        return Damaged(number, "the checksum does not match");
      case SectorState::kValid:
        if (number == sector_ ? sector->kind != SectorKind::kFirst : BeginsGroup(*sector)) {
          return Damaged(sector_,
                         fmt::format("an append is missing or incomplete here, but the one "
                                     "at offset {} was written after it",
                                     number * kSectorBytes));
        }
        if (ended || sector->kind == SectorKind::kHeader) {
          return Damaged(number, "this sector belongs to no append");
        }
        ended = sector->kind == SectorKind::kLast;
        anything = true;
        break;
    }
  }
}

SegmentReader::Step SegmentReader::Damaged(std::uint64_t sector, std::string reason) {
  fault_ = Fault{sector * kSectorBytes, std::move(reason)};
  window_.clear();
  return Step::kDamaged;
}

Result<bool> SegmentReader::SkipDamage() {
  for (std::uint64_t number = sector_ + 1;; ++number) {
    auto sector = At(number);
    if (!sector.ok()) {
      return sector.error();
    }
    if (PastEnd(number)) {
      return false;
    }
    if (BeginsGroup(*sector)) {
      sector_ = number;
      return true;
    }
  }
}

bool SegmentReader::ParseGroup(std::vector<StoredEntry>& entries) {
  entries.clear();
  std::size_t position = 0;
  while (position < stream_.size()) {
    const char* bytes = stream_.data() + position;
    const std::size_t rest = stream_.size() - position;
    if (rest < kRecordHeaderBytes) {
      fault_ = Fault{OffsetOf(position), "a record header is cut off"};
      return false;
    }
    RecordHeader header = DecodeRecordHeader(bytes);
    if (header.payload_bytes > rest - kRecordHeaderBytes) {
      fault_ = Fault{OffsetOf(position), "a record is longer than its append"};
      return false;
    }
    const std::string_view payload(bytes + kRecordHeaderBytes, header.payload_bytes);
    if (header.crc != RecordCrc(bytes, payload)) {
      fault_ = Fault{OffsetOf(position), "the checksum of the record does not match"};
      return false;
    }
    StoredEntry& stored = entries.emplace_back();
    stored.entry = std::move(header.entry);
    stored.entry.payload = payload;
    stored.synced_index = header.synced_index;
    stored.offset = OffsetOf(position);
    position += kRecordHeaderBytes + payload.size();
  }
  return true;
}

std::uint64_t SegmentReader::OffsetOf(std::size_t in_stream) const {
  return (sector_ + in_stream / kSectorContentBytes) * kSectorBytes +
         in_stream % kSectorContentBytes;
}

}  // namespace holdfast::journal
