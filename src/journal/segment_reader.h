// Reads the groups of one segment file in order, and tells at the end of them whether the file ends
// there, was torn there by a crash, or is damaged. The rules: docs/formats/journal.md, "Recovery".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "journal/segment_format.h"
#include "storage/file_system.h"

namespace holdfast::journal {

struct StoredEntry {
  Entry entry;
  std::uint64_t synced_index = 0;
  std::uint64_t offset = 0;  // of its record in the file
};

// The header of the segment in `file`; `name` is for messages.
Result<SegmentHeader> ReadSegmentHeader(const storage::File& file, const std::string& name);

// One thread at a time. `file` must outlive it.
class SegmentReader {
 public:
  enum class Step {
    kGroup,    // entries were read
    kEnd,      // nothing but zeros follows
    kTorn,     // a group follows that was not written completely, and nothing after it
    kDamaged,  // see fault()
  };
  struct Fault {
    std::uint64_t offset = 0;
    std::string reason;
  };

  // Begins at `first_sector`, where a group begins (1 for the first); reads nothing from
  // `end_sector` on.
  SegmentReader(const storage::File& file, const SegmentHeader& header, std::uint64_t first_sector,
                std::uint64_t end_sector = UINT64_MAX);

  // Puts the entries of the next group into `entries`. After kTorn, kDamaged and kEnd it stays
  // where it is, and looks at the file again when it is called again. Fails only when the file
  // cannot be read.
  Result<Step> Next(std::vector<StoredEntry>& entries);

  // After kDamaged: goes to the next place behind the damage at which a group begins. False if
  // there is none.
  Result<bool> SkipDamage();

  // Where the next group begins.
  std::uint64_t sector() const { return sector_; }
  const Fault& fault() const { return fault_; }

 private:
  // The sector, from the window or the file. Past the end of the file it is never written.
  Result<Sector> At(std::uint64_t number);
  bool PastEnd(std::uint64_t number) const { return number >= end_sector_ || at_end_; }
  // What follows at sector_, given that no complete group does.
  Result<Step> ClassifyRest();
  Step Damaged(std::uint64_t sector, std::string reason);
  // Splits `stream_` into records; false (and fault_) if they are not what was written.
  bool ParseGroup(std::vector<StoredEntry>& entries);
  std::uint64_t OffsetOf(std::size_t in_stream) const;

  const storage::File& file_;
  SectorFrame frame_;
  std::uint64_t sector_;
  std::uint64_t end_sector_;
  std::string window_;  // consecutive sectors from window_sector_ on
  std::uint64_t window_sector_ = 0;
  bool at_end_ = false;  // the last At was past the end of the file
  std::string stream_;   // the content of one group
  Fault fault_;
};

}  // namespace holdfast::journal
