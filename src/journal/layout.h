// The names of the files in a data directory.
//
//   LOCK                                 held by the process that uses the directory
//   identity                             which log this is, and which directory (identity.h)
//   segment-<first index>.hfj            entries (docs/formats/journal.md)
//   snapshot-<index>.hfs                 state up to an entry (docs/formats/snapshot.md)
//   *.tmp                                unfinished; removed by the next start
//   *.damaged, *.damaged-2, ...          put aside by `holdfast recover`, ignored
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/result.h"
#include "storage/file_system.h"

namespace holdfast::journal {

inline constexpr std::string_view kIdentityName = "identity";
inline constexpr std::string_view kTemporarySuffix = ".tmp";

std::string SegmentName(std::uint64_t first_index);
std::string SnapshotName(std::uint64_t index);
// The index in the name; nothing if it is not such a name.
std::optional<std::uint64_t> ParseSegmentName(std::string_view name);
std::optional<std::uint64_t> ParseSnapshotName(std::string_view name);

inline std::string PathIn(const std::string& directory, std::string_view name) {
  return directory + "/" + std::string(name);
}

struct DirectoryContent {
  std::vector<std::uint64_t> segments;   // first indexes, ascending
  std::vector<std::uint64_t> snapshots;  // indexes, ascending
  std::vector<std::string> temporary;    // names
  bool identity = false;
};

Result<DirectoryContent> ReadDirectory(storage::FileSystem& files, const std::string& directory);

}  // namespace holdfast::journal
