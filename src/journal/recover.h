// What `holdfast recover` does: makes a directory usable that a server refuses, because an operator
// says which fencing tokens may be out and, if there is damage, that its loss is accepted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "holdfast/result.h"
#include "storage/file_system.h"

namespace holdfast::journal {

struct RecoverOptions {
  // At least the highest fencing token that anybody may have seen: every later one is above it.
  std::uint64_t token_floor = 0;
  // Go on with what is whole before the damage, and put the damaged files aside (*.damaged).
  // Without it damage is an error.
  bool accept_damage = false;
};

struct RecoverReport {
  std::uint64_t snapshot_index = 0;  // of the snapshot that the log continues; 0 without one
  std::uint64_t last_index = 0;      // the log now ends here
  // Entries behind the damage that could still be read and are no longer part of the log.
  std::uint64_t entries_dropped = 0;
  std::vector<std::string> put_aside;  // names of files
};

// A directory that is a copy, was restored without a token floor, has lost its identity file, or is
// damaged. The next start reports Recovered(). Takes the directory lock (kBusy). May be run again
// if it did not finish. kCorrupt: there is damage and accept_damage is not set, or nothing is left
// to begin from.
Result<RecoverReport> Recover(storage::FileSystem& files, const std::string& directory,
                              const RecoverOptions& options);

// 1 to 2^53 - 1, the range of tokens.
Status CheckTokenFloor(std::uint64_t token_floor);

}  // namespace holdfast::journal
