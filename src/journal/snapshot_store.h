// Snapshots beside the log: one checksummed file per snapshot, named by the index that it covers.
// The payload is opaque here (core state, encoded by codec). Format: docs/formats/snapshot.md.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/id.h"
#include "base/time.h"
#include "holdfast/result.h"
#include "storage/file_system.h"

namespace holdfast::journal {

struct SnapshotHeader {
  std::uint64_t index = 0;          // the last entry that it contains
  std::uint64_t epoch = 0;          // that entry's epoch
  Id128 entry_hash{};               // EntryHash of that entry, to continue the chain
  Timestamp time{};                 // state time at that entry
  std::uint64_t payload_bytes = 0;  // not in the stored header: known from the chunks
};

template <typename A>
void Archive(A& archive, SnapshotHeader& header) {
  archive(header.index, header.epoch, header.entry_hash, header.time);
}

// Writes one snapshot in pieces: payload goes to a temporary file, which Finish syncs, renames and
// makes durable. Every megabyte is synced by itself, so that a large snapshot does not hold up the
// journal's syncs; pausing between pieces is the caller's business. An unfinished writer leaves
// nothing behind (its destructor removes the temporary file). After an error it cannot be used
// further.
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

// One thread at a time. Reading works beside a server that uses the directory; Begin and Retain are
// for the process that holds the directory lock.
class SnapshotStore {
 public:
  SnapshotStore(storage::FileSystem& files, std::string directory);

  // `header.payload_bytes` is filled in by Finish.
  Result<std::unique_ptr<SnapshotWriter>> Begin(const SnapshotHeader& header);
  // Indexes of complete snapshots, oldest first; none if the directory does not exist. What a dead
  // process left unfinished is ignored here and removed by FileJournal::Open.
  Result<std::vector<std::uint64_t>> List();
  // kCorrupt names the file and the offset of the damage.
  Result<Snapshot> Load(std::uint64_t index);
  // The newest snapshot that can be loaded; one with index 0 and no payload if there is none. What
  // could not be loaded is logged.
  Result<Snapshot> LoadNewest();
  // Removes all but the newest `keep` snapshots.
  Status Retain(std::size_t keep);

 private:
  storage::FileSystem& files_;
  std::string directory_;
};

}  // namespace holdfast::journal
