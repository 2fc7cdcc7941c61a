// The bytes of a segment file: sectors, and in them the header and the records of entries.
// The layout and the reasons for it: docs/formats/journal.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/id.h"
#include "base/time.h"
#include "holdfast/result.h"
#include "journal/journal.h"
#include "storage/file_system.h"

namespace holdfast::journal {

using storage::kSectorBytes;

inline constexpr std::uint32_t kSegmentFormatVersion = 1;
// A sector ends with its CRC, the count of its used bytes, the format version and its kind.
inline constexpr std::size_t kSectorTrailerBytes = 8;
inline constexpr std::size_t kSectorContentBytes = kSectorBytes - kSectorTrailerBytes;
inline constexpr std::size_t kRecordHeaderBytes = 64;

// The last byte of every written sector; never zero, and a sector that was never written is all
// zero. A group is what one Append call wrote.
enum class SectorKind : char {
  kHeader = 'h',  // sector 0, the segment header
  kOnly = 'o',    // a group in one sector
  kFirst = 'f',   // the first sector of a longer group
  kMiddle = 'm',
  kLast = 'l',
};

enum class SectorState {
  kZero,        // never written
  kUnfinished,  // written in part: its end is missing
  kValid,
  kDamaged,  // written to its end, but not what was written
};

struct Sector {
  SectorState state = SectorState::kZero;
  SectorKind kind = SectorKind::kMiddle;
  std::string_view content;  // the used bytes of a valid sector
};

// Seals and checks the sectors of one segment. Their CRCs are seeded with the log, the segment and
// the place, so that a sector of another one, or at another place, is not valid.
class SectorFrame {
 public:
  SectorFrame(const Id128& log_id, std::uint64_t first_index);

  // Fills in the trailer of the sector at `sector`, whose content is in place.
  void Seal(char* sector, std::uint64_t number, SectorKind kind, std::size_t used) const;
  // `bytes` may be short at the end of a file: what is missing counts as never written.
  Sector Check(std::string_view bytes, std::uint64_t number) const;

 private:
  std::uint32_t seed_;
};

struct SegmentHeader {
  Id128 log_id{};
  std::uint64_t first_index = 0;
  // Of the entry before the first.
  Id128 previous_hash{};
  std::uint64_t previous_epoch = 0;
  Timestamp previous_time{};
  // This very file, to tell it from a copy.
  storage::FileIdentity file;
  // Every entry up to here was in the file, and synced, before the file got its name.
  std::uint64_t synced_index = 0;
};

// One sector.
std::string EncodeSegmentHeader(const SegmentHeader& header);
// `file` is for messages. kCorrupt, or kUnsupported for another format version.
Result<SegmentHeader> DecodeSegmentHeader(std::string_view sector, const std::string& file);

struct RecordHeader {
  std::uint32_t payload_bytes = 0;
  std::uint32_t crc = 0;
  std::uint64_t synced_index = 0;  // every entry up to here was synced when this was written
  Entry entry;                     // without the payload
};

// Writes kRecordHeaderBytes, CRC included, to `out`.
void EncodeRecordHeader(const Entry& entry, std::uint64_t synced_index, char* out);
// `bytes` has kRecordHeaderBytes. Checks nothing.
RecordHeader DecodeRecordHeader(const char* bytes);
// CRC-32C over the record without the CRC field itself.
std::uint32_t RecordCrc(const char* header, std::string_view payload);

}  // namespace holdfast::journal
