// Walks over all segments of a directory and checks everything that can be checked without knowing
// what entries mean. Reads only; start-up, `journal inspect|verify`, backup and recover are built
// on it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "journal/chain.h"
#include "journal/segment_format.h"
#include "journal/snapshot_store.h"
#include "storage/file_system.h"

namespace holdfast::journal {

// Stored bytes that are not what was written, or entries that are missing.
struct Damage {
  std::string file;
  std::uint64_t offset = 0;
  std::string reason;
};

// An append at the end of the log that a crash left incomplete. It was never answered.
struct TornTail {
  std::string file;
  std::uint64_t offset = 0;
};

// Where a group begins; a few per segment, to find an entry without reading from the start.
struct IndexMark {
  std::uint64_t index = 0;
  std::uint64_t sector = 0;
};
inline constexpr std::uint64_t kSectorsBetweenMarks = 128;

struct WalkedSegment {
  std::string name;
  SegmentHeader header;
  std::uint64_t entries = 0;
  std::uint64_t last_index = 0;  // header.first_index - 1 when it has no entries
  std::uint64_t end_sector = 1;  // behind the last complete group
  std::uint64_t file_bytes = 0;
  std::vector<IndexMark> marks;
};

struct LogWalk {
  std::vector<WalkedSegment> segments;
  ChainEnd end;
  std::optional<TornTail> torn;
  std::vector<Damage> damage;  // in the order of the log
};

struct WalkedEntry {
  const std::string& file;  // name
  std::uint64_t offset;
  std::uint64_t synced_index;
  const Entry& entry;
};
using EntryVisitor = std::function<void(const WalkedEntry&)>;

// Calls `visit` (may be empty) for each entry whose checksums hold, in order. Goes on behind
// damage. `log_id`, if it is known, lets it read a segment whose header is damaged. May run beside
// a server: an append or a trim that it meets in the middle is looked at again. Fails when a file
// cannot be read (kIo) or has a format of the future (kUnsupported); damage is not a failure here.
Result<LogWalk> WalkLog(storage::FileSystem& files, const std::string& directory,
                        const std::optional<Id128>& log_id, const EntryVisitor& visit);

// What the first entry behind the snapshot must continue.
ChainEnd ChainEndOf(const SnapshotHeader& snapshot);

// Whether a log continues a snapshot: every entry behind the snapshot is there, and the entry that
// the snapshot ends with is the log's own.
class SnapshotFit {
 public:
  explicit SnapshotFit(const SnapshotHeader& snapshot) : snapshot_(snapshot) {}
  // With each entry of the walk.
  void Visit(const Entry& entry);
  // After a walk that found no damage. kCorrupt with the reason.
  Status Check(const std::string& directory, const LogWalk& log) const;

 private:
  SnapshotHeader snapshot_;
  std::optional<Id128> hash_in_log_;  // of the entry at the snapshot's index
};

// kCorrupt, with file and offset.
Error DamageError(const std::string& directory, const Damage& damage);

}  // namespace holdfast::journal
