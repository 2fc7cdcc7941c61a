// Writes one segment file: the header and groups of entries. Used by the journal and by the tools
// that build directories.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "journal/segment_format.h"
#include "storage/file_system.h"

namespace holdfast::journal {

// The bytes that a group of these entries takes: a whole number of sectors.
std::uint64_t GroupBytes(const std::vector<Entry>& entries);

// One thread at a time. Nothing is synced but by Sync (and Create, which syncs the zeros that it
// fills in).
class SegmentWriter {
 public:
  // A new file. With `fill_bytes` it is filled with zeros and synced, so that later syncs of what
  // is written over them need no change of metadata. On an error nothing is left behind.
  static Result<SegmentWriter> Create(storage::FileSystem& files, std::string path,
                                      std::uint64_t fill_bytes);

  // Must come first. The header (its `file` is filled in here) goes out with the first write.
  void Start(SegmentHeader header);

  // One write. After an error nothing of the group counts, and the segment must not be written any
  // further: what is left of the group would be mixed with the next one.
  Status WriteGroup(const std::vector<Entry>& entries, std::uint64_t synced_index);
  bool failed() const { return failed_; }
  // Only the header, for a segment without entries.
  Status WriteHeader();
  // The header, and the groups of another file of the same segment up to `end_sector` as they are.
  Status CopyGroups(const storage::File& source, std::uint64_t end_sector);

  Status Sync() { return file_->Sync(); }

  const std::string& path() const { return path_; }
  const SegmentHeader& header() const { return header_; }
  // Where the next group begins.
  std::uint64_t end_sector() const { return end_sector_; }
  std::shared_ptr<storage::File> file() const { return file_; }

 private:
  SegmentWriter(std::shared_ptr<storage::File> file, std::string path,
                storage::FileIdentity identity);

  // Appends the sectors of the group to `buffer_`.
  void EncodeGroup(const std::vector<Entry>& entries, std::uint64_t synced_index);
  // Writes `buffer_` behind what is there, the header before it if it is still owed.
  Status WriteBuffer();

  std::shared_ptr<storage::File> file_;
  std::string path_;
  storage::FileIdentity identity_;
  SegmentHeader header_;
  SectorFrame frame_;
  std::uint64_t end_sector_ = 0;  // 0: the header is not written yet
  bool failed_ = false;
  std::string buffer_;  // kept, so that an append allocates nothing
};

}  // namespace holdfast::journal
