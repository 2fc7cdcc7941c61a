// The embedded journal: append-only segments in one directory, fdatasync before Append returns.
// Format and recovery rules: docs/formats/journal.md.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "journal/journal.h"
#include "journal/snapshot_store.h"
#include "storage/file_system.h"

namespace holdfast::journal {

struct FileJournalOptions {
  std::uint64_t segment_bytes = std::uint64_t{32} << 20U;  // 64 KiB .. 1 GiB
};

// Counters for metrics and status; read from any thread.
struct JournalStats {
  std::uint64_t appends = 0;
  std::uint64_t bytes_appended = 0;
  std::uint64_t syncs = 0;
  std::uint64_t sync_ns_total = 0;
  std::uint64_t segments = 0;
};

class FileJournal : public Journal {
 public:
  // Takes the directory lock (kBusy if another server has it), creates an empty journal in an empty
  // or absent directory, or recovers what is there: verifies every record, cuts a torn unattested
  // tail, rewrites the recovered tail into a new synced file before returning. `snapshot` is the
  // newest loadable snapshot (all zero if none): the log must reach back to it. Errors: kCorrupt
  // (file and offset), kPermissionDenied for a copied-back directory (identity file does not match:
  // run `holdfast recover --token-floor N`), kUnsupported for a newer format, kIo.
  static Result<std::unique_ptr<FileJournal>> Open(storage::FileSystem& files,
                                                   const std::string& directory,
                                                   const SnapshotHeader& snapshot,
                                                   const FileJournalOptions& options);

  // Creates and zero-fills the next segment ahead of need, so that Append never does. Safe beside
  // Append, from one thread.
  virtual Status PrepareSegment() = 0;

  virtual JournalStats Stats() const = 0;
  // The token floor that `recover` wrote into the identity file; 0 if there never was one.
  virtual std::uint64_t TokenFloor() const = 0;
};

}  // namespace holdfast::journal
