// One file that holds a whole log: the newest snapshot, the entries behind it, and which log it is.
// Format: docs/formats/snapshot.md, "Backup".
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/id.h"
#include "holdfast/result.h"
#include "journal/snapshot_store.h"
#include "storage/file_system.h"

namespace holdfast::journal {

struct BackupSummary {
  Id128 log_id{};
  SnapshotHeader snapshot;       // index 0: there was none
  std::uint64_t entries = 0;     // behind the snapshot
  std::uint64_t last_index = 0;  // the state up to here is in the backup
  std::uint64_t token_floor = 0;
};

// Writes the backup of `directory` to the new file `output` (kAlreadyExists), which appears only
// when it is complete and synced. Takes no lock and works beside a running server: what the server
// had answered when this was called is in it. kCorrupt when the directory is damaged.
Result<BackupSummary> Backup(storage::FileSystem& files, const std::string& directory,
                             const std::string& output);

// Reads all of a backup. kCorrupt names file and offset.
Result<BackupSummary> VerifyBackup(storage::FileSystem& files, const std::string& backup);

// Makes the new or empty `directory` from a backup, after verifying all of it. Tokens granted since
// the backup are unknown here: with `token_floor` (at least the highest token ever seen) the
// directory is as after `recover`; without it, it opens only after `recover`. If this does not
// finish, the directory says so and cannot be used.
Result<BackupSummary> Restore(storage::FileSystem& files, const std::string& backup,
                              const std::string& directory,
                              std::optional<std::uint64_t> token_floor);

}  // namespace holdfast::journal
