#include "journal/layout.h"

#include <algorithm>
#include <charconv>

#include <fmt/core.h>

namespace holdfast::journal {
namespace {

constexpr std::string_view kSegmentPrefix = "segment-";
constexpr std::string_view kSegmentSuffix = ".hfj";
constexpr std::string_view kSnapshotPrefix = "snapshot-";
constexpr std::string_view kSnapshotSuffix = ".hfs";

// Twenty digits hold every index, so that names sort like numbers.
std::string NumberedName(std::string_view prefix, std::uint64_t number, std::string_view suffix) {
  return fmt::format("{}{:020}{}", prefix, number, suffix);
}

std::optional<std::uint64_t> ParseNumberedName(std::string_view name, std::string_view prefix,
                                               std::string_view suffix) {
  if (name.substr(0, prefix.size()) != prefix) {
    return std::nullopt;
  }
  std::uint64_t number = 0;
  const char* begin = name.data() + prefix.size();
  const auto parsed = std::from_chars(begin, name.data() + name.size(), number);
  if (parsed.ec != std::errc() || NumberedName(prefix, number, suffix) != name) {
    return std::nullopt;
  }
  return number;
}

}  // namespace

std::string SegmentName(std::uint64_t first_index) {
  return NumberedName(kSegmentPrefix, first_index, kSegmentSuffix);
}

std::string SnapshotName(std::uint64_t index) {
  return NumberedName(kSnapshotPrefix, index, kSnapshotSuffix);
}

std::optional<std::uint64_t> ParseSegmentName(std::string_view name) {
  return ParseNumberedName(name, kSegmentPrefix, kSegmentSuffix);
}

std::optional<std::uint64_t> ParseSnapshotName(std::string_view name) {
  return ParseNumberedName(name, kSnapshotPrefix, kSnapshotSuffix);
}

Result<DirectoryContent> ReadDirectory(storage::FileSystem& files, const std::string& directory) {
  auto names = files.List(directory);
  if (!names.ok()) {
    return names.error();
  }
  DirectoryContent content;
  for (const std::string& name : *names) {
    if (const auto first = ParseSegmentName(name); first.has_value()) {
      content.segments.push_back(*first);
    } else if (const auto index = ParseSnapshotName(name); index.has_value()) {
      content.snapshots.push_back(*index);
    } else if (name == kIdentityName) {
      content.identity = true;
    } else if (name.size() > kTemporarySuffix.size() &&
               name.substr(name.size() - kTemporarySuffix.size()) == kTemporarySuffix) {
      content.temporary.push_back(name);
    }
  }
  std::sort(content.segments.begin(), content.segments.end());
  std::sort(content.snapshots.begin(), content.snapshots.end());
  return content;
}

}  // namespace holdfast::journal
