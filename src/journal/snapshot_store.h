// Snapshots beside the log: one checksummed file per snapshot, named by the index that it covers.
// The payload is opaque here (core state, encoded by codec). Format: docs/formats/snapshot.md.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "base/time.h"
#include "storage/file_system.h"

namespace holdfast::journal {

struct SnapshotHeader {
  std::uint64_t index = 0;  // the last entry that it contains
  std::uint64_t epoch = 0;  // that entry's epoch
  Id128 entry_hash{};       // EntryHash of that entry, to continue the chain
  Timestamp time{};         // state time at that entry
  std::uint64_t payload_bytes = 0;
};

// Writes one snapshot in pieces: payload goes to a temporary file, which Finish syncs, renames and
// makes durable. An unfinished writer leaves nothing behind (its destructor removes the temporary
// file).
class SnapshotWriter {
 public:
  virtual ~SnapshotWriter() = default;
  virtual Status Write(std::string_view piece) = 0;
  virtual Status Finish() = 0;
};

struct Snapshot {
  SnapshotHeader header;
  std::string payload;
};

// One thread at a time.
class SnapshotStore {
 public:
  SnapshotStore(storage::FileSystem& files, std::string directory);

  // `header.payload_bytes` is filled in by Finish.
  Result<std::unique_ptr<SnapshotWriter>> Begin(const SnapshotHeader& header);
  // Indexes of complete snapshots, oldest first. Leftovers of unfinished writers are removed.
  Result<std::vector<std::uint64_t>> List();
  // kCorrupt names the file and the offset of the damage.
  Result<Snapshot> Load(std::uint64_t index);
  // Removes all but the newest `keep` snapshots.
  Status Retain(std::size_t keep);

 private:
  storage::FileSystem& files_;
  std::string directory_;
};

}  // namespace holdfast::journal
