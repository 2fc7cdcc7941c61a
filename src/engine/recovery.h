// From a data directory to a state: the newest snapshot that loads, and the log after it.
#pragma once

#include <memory>
#include <string>

#include "core/machine.h"
#include "holdfast/result.h"
#include "journal/file_journal.h"
#include "journal/snapshot_store.h"
#include "storage/file_system.h"

namespace holdfast::engine {

struct Recovered {
  std::unique_ptr<core::Machine> machine;
  std::unique_ptr<journal::FileJournal> journal;
  journal::SnapshotHeader snapshot;  // all zero: from the beginning of the log
};

// Opens the journal (see FileJournal::Open for its errors) and replays it. A snapshot that does not
// load is passed over with a warning as long as the log reaches back to an older one. kUnsupported:
// written by a newer build.
Result<Recovered> Recover(storage::FileSystem& files, const std::string& directory,
                          const journal::FileJournalOptions& options);

// Feeds log entries to a machine, in order: puts fragments together and applies whole batches. An
// incomplete run of fragments is void when another batch begins after it.
class Replayer {
 public:
  explicit Replayer(core::Machine& machine) : machine_(machine) {}
  // kCorrupt or kUnsupported if a batch does not decode; nothing is applied then.
  Status Feed(const journal::Entry& entry);
  // Whether the last Feed completed and applied a batch; then the others are about it.
  bool completed() const { return completed_; }
  const core::Batch& last_batch() const { return batch_; }
  const core::Applied& last_applied() const { return applied_; }
  // For a watch hub to take.
  std::vector<core::Event>& events() { return applied_.events; }

 private:
  core::Machine& machine_;
  std::string bytes_;
  std::uint32_t next_fragment_ = 0;
  bool completed_ = false;
  core::Batch batch_;
  core::Applied applied_;
};

}  // namespace holdfast::engine
