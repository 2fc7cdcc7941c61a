// A look at a data directory that changes nothing: for `holdfast journal inspect|verify`. Works on
// damaged directories and beside a running server; takes no lock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "journal/identity.h"
#include "journal/log_walk.h"
#include "storage/file_system.h"

namespace holdfast::journal {

struct SnapshotReport {
  std::string file;
  std::uint64_t index = 0;
  std::uint64_t payload_bytes = 0;
  std::optional<Error> error;  // why it cannot be loaded
};

struct DirectoryReport {
  std::optional<DirectoryIdentity> identity;
  std::optional<Error> identity_error;  // missing, damaged, of a copy, or waiting for `recover`
  LogWalk log;
  std::uint64_t entries = 0;
  std::uint64_t first_index = 0;  // 0 when there are no entries
  std::uint64_t last_index = 0;
  std::vector<SnapshotReport> snapshots;  // oldest first
  // Why entries and snapshots do not fit together, for instance a gap between them; else empty.
  std::string gap;

  // Everything is as a server needs it. A torn tail is: the next start cuts it.
  bool Sound() const;
};

// Calls `visit` (may be empty) with each entry that can be read. Payloads carry capabilities:
// whoever prints them must redact. Fails only when the directory cannot be read.
Result<DirectoryReport> InspectDirectory(storage::FileSystem& files, const std::string& directory,
                                         const EntryVisitor& visit);

}  // namespace holdfast::journal
