// What a start of the journal does before anything may be answered: take the lock, find out whether
// the directory may be used, verify the whole log, and put the part of it that may be only in the
// page cache on the disk. docs/formats/journal.md, "Recovery".
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "journal/chain.h"
#include "journal/file_journal.h"
#include "journal/identity.h"
#include "journal/log_walk.h"
#include "journal/segment_writer.h"
#include "storage/file_system.h"

namespace holdfast::journal {

struct OpenedSegment {
  WalkedSegment walked;
  std::shared_ptr<const storage::File> file;
};

struct OpenedLog {
  std::unique_ptr<storage::DirectoryLock> lock;
  DirectoryIdentity identity;
  std::vector<OpenedSegment> segments;  // the last one is `tail`
  SegmentWriter tail;                   // new, synced, ready for the next group
  ChainEnd end;
};

// FileJournal::Open, but for the object.
Result<OpenedLog> OpenLog(storage::FileSystem& files, const std::string& directory,
                          const SnapshotHeader& snapshot, const FileJournalOptions& options);

// A new segment `header.first_index` of `directory` with the groups of `source` (may be null: none)
// up to `end_sector`, filled with zeros up to `segment_bytes` as far as there is space. It replaces
// a segment of that name, and is durable when this returns Ok.
Result<SegmentWriter> ReplaceSegment(storage::FileSystem& files, const std::string& directory,
                                     const SegmentHeader& header, const storage::File* source,
                                     std::uint64_t end_sector, std::uint64_t segment_bytes);

// Removes what unfinished work of an earlier process left (*.tmp). Needs the directory lock.
Status RemoveTemporaryFiles(storage::FileSystem& files, const std::string& directory);

// Where a segment is made before it has a first index.
std::string BlankSegmentPath(const std::string& directory, std::uint64_t number);

}  // namespace holdfast::journal
