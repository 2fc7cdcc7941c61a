// The identity file of a data directory: which log it holds, that the directory is the original and
// not a copy, and what an operator has declared about fencing tokens.
//
// Text, one `name value` per line, the last line a CRC-32C of the others. Written whole to a
// temporary file, synced and renamed.
#pragma once

#include <cstdint>
#include <string>

#include "base/id.h"
#include "base/time.h"
#include "holdfast/result.h"
#include "storage/file_system.h"

namespace holdfast::journal {

enum class DirectoryState {
  kCreating,   // being made: an empty log that nobody has used
  kReady,      // in use
  kRestoring,  // restore did not finish: not all of the log is here
  kBlocked,    // restored without a token floor, or recover did not finish: recover must be run
  kRecovered,  // recover was run, and the engine has not yet taken note of it
};

struct DirectoryIdentity {
  DirectoryState state = DirectoryState::kCreating;
  Id128 log_id{};
  storage::FileIdentity directory;  // of the directory when this was written
  storage::FileIdentity self;       // of this identity file
  std::uint64_t token_floor = 0;    // 0, or what recover declared: every new token is above it
  WallTime created{};               // of the log, for display
};

// kNotFound, kCorrupt, kUnsupported for a newer version.
Result<DirectoryIdentity> LoadIdentity(storage::FileSystem& files, const std::string& directory);

// Durable when it returns Ok. `directory` and `self` are filled in.
Status StoreIdentity(storage::FileSystem& files, const std::string& directory,
                     DirectoryIdentity identity);

// Whether a server may use the directory: kPermissionDenied with what to do, for a copy and for the
// states kRestoring and kBlocked.
Status CheckUsable(storage::FileSystem& files, const std::string& directory,
                   const DirectoryIdentity& identity);

// The error for files that are not those which this log was written to.
Error CopiedDirectory(const std::string& directory, const std::string& what);

}  // namespace holdfast::journal
