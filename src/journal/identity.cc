#include "journal/identity.h"

#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>

#include <fmt/core.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "journal/layout.h"

namespace holdfast::journal {
namespace {

constexpr std::string_view kTitle = "holdfast-identity";
constexpr int kVersion = 1;
constexpr std::size_t kFileBytesMax = 4096;

struct StateName {
  DirectoryState state;
  std::string_view name;
};
constexpr std::array<StateName, 5> kStates{{
    {DirectoryState::kCreating, "creating"},
    {DirectoryState::kReady, "ready"},
    {DirectoryState::kRestoring, "restoring"},
    {DirectoryState::kBlocked, "blocked"},
    {DirectoryState::kRecovered, "recovered"},
}};

std::string_view NameOf(DirectoryState state) {
  for (const StateName& known : kStates) {
    if (known.state == state) {
      return known.name;
    }
  }
  HF_CHECK(false, "a directory state without a name");
}

std::string Encode(const DirectoryIdentity& identity) {
  std::string text = fmt::format(
      "{} {}\n"
      "state {}\n"
      "log {}\n"
      "directory_inode {}\n"
      "directory_birth_ns {}\n"
      "file_inode {}\n"
      "file_birth_ns {}\n"
      "token_floor {}\n"
      "created_ns {}\n",
      kTitle, kVersion, NameOf(identity.state), ToHex(identity.log_id), identity.directory.inode,
      identity.directory.birth_time_ns, identity.self.inode, identity.self.birth_time_ns,
      identity.token_floor, identity.created.time_since_epoch().count());
  text += fmt::format("crc32c {:08x}\n", Crc32c(text));
  return text;
}

template <typename Number>
bool ParseNumber(std::string_view text, Number& number) {
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
}

std::map<std::string_view, std::string_view> SplitLines(std::string_view text) {
  std::map<std::string_view, std::string_view> lines;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t space = line.find(' ');
    if (space != std::string_view::npos) {
      lines[line.substr(0, space)] = line.substr(space + 1);
    }
  }
  return lines;
}

std::optional<DirectoryIdentity> Parse(std::string_view text) {
  auto lines = SplitLines(text);
  DirectoryIdentity identity;
  std::int64_t created_ns = 0;
  const auto log_id = ParseId(lines["log"]);
  if (!log_id.has_value() || !ParseNumber(lines["directory_inode"], identity.directory.inode) ||
      !ParseNumber(lines["directory_birth_ns"], identity.directory.birth_time_ns) ||
      !ParseNumber(lines["file_inode"], identity.self.inode) ||
      !ParseNumber(lines["file_birth_ns"], identity.self.birth_time_ns) ||
      !ParseNumber(lines["token_floor"], identity.token_floor) ||
      !ParseNumber(lines["created_ns"], created_ns)) {
    return std::nullopt;
  }
  for (const StateName& known : kStates) {
    if (lines["state"] == known.name) {
      identity.state = known.state;
    }
  }
  identity.log_id = *log_id;
  identity.created = WallTime(Duration(created_ns));
  // There is one way to write each identity, so this checks order, checksum and all the rest.
  return Encode(identity) == text ? std::optional(identity) : std::nullopt;
}

bool Same(const storage::FileIdentity& a, const storage::FileIdentity& b) {
  return a.inode == b.inode && a.birth_time_ns == b.birth_time_ns;
}

}  // namespace

Result<DirectoryIdentity> LoadIdentity(storage::FileSystem& files, const std::string& directory) {
  const std::string path = PathIn(directory, kIdentityName);
  auto file = files.Open(path, true);
  if (!file.ok()) {
    return file.error();
  }
  auto text = (*file)->ReadAt(0, kFileBytesMax);
  if (!text.ok()) {
    return text.error();
  }
  int version = 0;
  if (ParseNumber(SplitLines(*text)[kTitle], version) && version > kVersion) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("{} has version {}, this program knows {}", path, version, kVersion),
                 {},
                 {}};
  }
  const auto identity = Parse(*text);
  if (!identity.has_value()) {
    return Error{ErrorCode::kCorrupt, fmt::format("{} is damaged", path), {}, {}};
  }
  return *identity;
}

Status StoreIdentity(storage::FileSystem& files, const std::string& directory,
                     DirectoryIdentity identity) {
  const std::string path = PathIn(directory, kIdentityName);
  const std::string temporary = path + std::string(kTemporarySuffix);
  if (files.Exists(temporary)) {
    if (Status removed = files.Remove(temporary); !removed.ok()) {
      return removed;
    }
  }
  auto file = files.Create(temporary);
  if (!file.ok()) {
    return file.error();
  }
  const auto self = files.Identity(temporary);
  const auto parent = files.Identity(directory);
  if (!self.ok() || !parent.ok()) {
    return self.ok() ? parent.error() : self.error();
  }
  identity.self = *self;
  identity.directory = *parent;
  Status done = (*file)->WriteAt(0, Encode(identity));
  if (done.ok()) {
    done = (*file)->Sync();
  }
  if (done.ok()) {
    done = files.Rename(temporary, path);
  }
  if (done.ok()) {
    done = files.SyncDirectory(directory);
  }
  return done;
}

Status CheckUsable(storage::FileSystem& files, const std::string& directory,
                   const DirectoryIdentity& identity) {
  if (identity.state == DirectoryState::kRestoring) {
    return Error{
        ErrorCode::kPermissionDenied,
        fmt::format("{}: a restore into this directory did not finish: remove the directory "
                    "and restore again",
                    directory),
        {},
        {}};
  }
  if (identity.state == DirectoryState::kBlocked) {
    return Error{
        ErrorCode::kPermissionDenied,
        fmt::format("{0}: nobody has said yet which fencing tokens may be out: run `holdfast "
                    "recover {0} --token-floor N` with N at least the highest token ever seen",
                    directory),
        {},
        {}};
  }
  const auto self = files.Identity(PathIn(directory, kIdentityName));
  if (!self.ok()) {
    return self.error();
  }
  const auto parent = files.Identity(directory);
  if (!parent.ok()) {
    return parent.error();
  }
  if (!Same(*self, identity.self)) {
    return CopiedDirectory(directory, "its identity file");
  }
  if (!Same(*parent, identity.directory)) {
    return CopiedDirectory(directory, "the directory");
  }
  return {};
}

Error CopiedDirectory(const std::string& directory, const std::string& what) {
  return Error{
      ErrorCode::kPermissionDenied,
      fmt::format(
          "{0} is a copy of a data directory ({1} is not the one that the server wrote), so "
          "newer fencing tokens may be out: run `holdfast recover {0} --token-floor N` with N "
          "at least the highest token ever seen",
          directory, what),
      {},
      {}};
}

}  // namespace holdfast::journal
