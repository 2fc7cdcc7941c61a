// Builds a whole segment from entries that come one by one: for the tools that make directories.
#pragma once

#include <string>
#include <vector>

#include "journal/segment_writer.h"
#include "journal/snapshot_store.h"
#include "storage/file_system.h"

namespace holdfast::journal {

// Of a segment that continues the snapshot, with entries up to `last_index`.
SegmentHeader HeaderBehind(const SnapshotHeader& snapshot, const Id128& log_id,
                           std::uint64_t last_index);

class SegmentBuilder {
 public:
  // A new file at `path`. `header.synced_index` must be the index of the last entry that will come.
  static Result<SegmentBuilder> Create(storage::FileSystem& files, const std::string& path,
                                       const SegmentHeader& header);
  // The entries must continue each other and the header.
  Status Add(Entry entry);
  // Writes what is left and syncs the file.
  Status Finish();

 private:
  explicit SegmentBuilder(SegmentWriter writer) : writer_(std::move(writer)) {}
  Status Flush();

  SegmentWriter writer_;
  std::vector<Entry> group_;
  std::size_t group_bytes_ = 0;
};

}  // namespace holdfast::journal
