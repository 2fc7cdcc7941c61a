// The ordered, durable log of opaque entries, as the engine sees it. It knows bytes, not commands.
//
// An entry is one slot: a whole batch, or fragment j of m of a batch that is larger than a slot.
// Entries have consecutive indexes from 1, carry the hash of the entry before them, and are trimmed
// only from the front.
//
// Implementations: FileJournal (file_journal.h), MemoryJournal (memory_journal.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/time.h"
#include "holdfast/result.h"

namespace holdfast::journal {

// Largest payload of one entry, in bytes. A batch that is larger is split by the engine.
inline constexpr std::size_t kEntryBytesMax = std::size_t{1} << 20U;

struct Entry {
  std::uint64_t index = 0;  // slot, from 1, no holes
  std::uint64_t epoch =
      0;  // leadership (replicated) or process start (embedded) that wrote it; never falls
  Timestamp time{};             // state time of the batch
  Id128 previous_hash{};        // EntryHash of entry index-1, zero for the first
  std::uint32_t fragment = 0;   // 0-based part of the batch
  std::uint32_t fragments = 1;  // parts of the batch
  std::string payload;          // 1..kEntryBytesMax bytes
};

// Over every field above; the link of the chain.
Id128 EntryHash(const Entry& entry);

// Where the log stands.
struct Position {
  std::uint64_t index = 0;  // of the last entry, 0 when there is none
  std::uint64_t epoch = 0;  // of the last entry
  Id128 hash{};             // EntryHash of the last entry
};

// Append and Trim are called by the engine's driver only (one at a time); Read may be called from
// one other thread for indexes that Append has already returned.
class Journal {
 public:
  virtual ~Journal() = default;

  // What recovery found, and what was appended since.
  virtual Position Last() const = 0;
  // The oldest entry that can be read; Last().index + 1 when there is none.
  virtual std::uint64_t FirstIndex() const = 0;

  // Makes the entries durable, all of them before it returns Ok. They must continue Last():
  // consecutive indexes, chained hashes. kDiskFull: nothing was written that counts, the same call
  // may be made again. A failed fdatasync does not return: the process ends (HF_CHECK), and replay
  // tells what is there.
  virtual Status Append(const std::vector<Entry>& entries) = 0;

  // Entries from `index` on, at least one if there is any, at most about `bytes_max`. kNotFound
  // when trimmed.
  virtual Result<std::vector<Entry>> Read(std::uint64_t index, std::size_t bytes_max) const = 0;

  // Forgets entries below `index` (whole segments only; it may keep more). Never the last entry.
  virtual Status Trim(std::uint64_t index) = 0;
};

}  // namespace holdfast::journal
