// The embedded journal: append-only segments in one directory, fdatasync before Append returns.
// Format and recovery rules: docs/formats/journal.md.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/histogram.h"
#include "journal/journal.h"
#include "journal/snapshot_store.h"
#include "storage/file_system.h"

namespace holdfast::journal {

struct FileJournalOptions {
  std::uint64_t segment_bytes = std::uint64_t{32} << 20U;  // 64 KiB .. 1 GiB
  // For a log that does not exist yet: its creation time (display only) and its identity (zero:
  // from the CSPRNG; the simulator gives one, to be deterministic).
  WallTime created{};
  Id128 log_id{};
  // Called when a sync failed, and nobody can know any more what is on the disk. Nothing: the
  // process ends (HF_CHECK). A simulated process, which ends otherwise, may return; then the
  // journal answers every further call with that error.
  std::function<void(const Error&)> on_sync_failure;
};

// Counters for metrics and status; read from any thread.
struct JournalStats {
  std::uint64_t appends = 0;
  std::uint64_t bytes_appended = 0;
  std::uint64_t syncs = 0;
  HistogramData sync_seconds;
  std::uint64_t segments = 0;
};

// Beyond Journal's rules: PrepareSegment and Trim may run beside Append, from one other thread.
// After a crash, the entries of one Append call are all there or none is.
class FileJournal : public Journal {
 public:
  // Takes the directory lock (kBusy if another server has it), creates an empty journal in an empty
  // or absent directory, or recovers what is there: verifies every record, cuts a torn unattested
  // tail, rewrites the recovered tail into a new synced file before returning. `snapshot` is the
  // newest loadable snapshot (all zero if none): the log must reach back to it.
  // Errors: kCorrupt (file and offset), kPermissionDenied for a directory that may not be written,
  // a copied-back directory (identity does not match) or one that was restored without a token
  // floor (run `holdfast recover --token-floor N`), kUnsupported for a newer format, kDiskFull,
  // kIo.
  static Result<std::unique_ptr<FileJournal>> Open(storage::FileSystem& files,
                                                   const std::string& directory,
                                                   const SnapshotHeader& snapshot,
                                                   const FileJournalOptions& options);

  // Creates and zero-fills the next segment ahead of need, so that Append never does. Does nothing
  // if one is ready: call it now and then, from one thread.
  virtual Status PrepareSegment() = 0;

  virtual JournalStats Stats() const = 0;
  // Stays the same over copies, backups and restarts of this log.
  virtual Id128 LogId() const = 0;
  // The token floor that `recover` wrote into the identity file; 0 if there never was one.
  virtual std::uint64_t TokenFloor() const = 0;
  // Recovered and ClearRecovery: one thread at a time.
  // True from `holdfast recover` until ClearRecovery: acknowledged entries may be missing, so
  // nothing may be granted until the longest ttl has passed, and every new token must be above
  // TokenFloor.
  virtual bool Recovered() const = 0;
  // The engine has made the recovery durable in the log. Durable when it returns Ok.
  virtual Status ClearRecovery() = 0;
};

}  // namespace holdfast::journal
