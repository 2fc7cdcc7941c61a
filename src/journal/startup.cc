#include "journal/startup.h"

#include <optional>
#include <utility>

#include <fmt/core.h>

#include "base/log.h"
#include "base/planted.h"
#include "journal/layout.h"

namespace holdfast::journal {
namespace {

Error Corrupt(std::string message) {
  return Error{ErrorCode::kCorrupt, std::move(message), {}, {}};
}

// A log without entries. The identity says kCreating until all of it is there, so that a start that
// finds it half made begins again.
Result<DirectoryIdentity> CreateLog(storage::FileSystem& files, const std::string& directory,
                                    const FileJournalOptions& options) {
  DirectoryIdentity identity;
  identity.log_id = IsZero(options.log_id) ? RandomId() : options.log_id;
  identity.created = options.created;
  if (Status stored = StoreIdentity(files, directory, identity); !stored.ok()) {
    return stored.error();
  }
  SegmentHeader header;
  header.log_id = identity.log_id;
  header.first_index = 1;
  const auto segment = ReplaceSegment(files, directory, header, nullptr, 1, 0);
  if (!segment.ok()) {
    return segment.error();
  }
  identity.state = DirectoryState::kReady;
  if (Status stored = StoreIdentity(files, directory, identity); !stored.ok()) {
    return stored.error();
  }
  // To learn what StoreIdentity filled in.
  return LoadIdentity(files, directory);
}

Result<DirectoryIdentity> LoadOrCreate(storage::FileSystem& files, const std::string& directory,
                                       const FileJournalOptions& options) {
  const auto content = ReadDirectory(files, directory);
  if (!content.ok()) {
    return content.error();
  }
  const bool empty = content->segments.empty() && content->snapshots.empty();
  if (!content->identity) {
    if (empty) {
      return CreateLog(files, directory, options);
    }
    return Corrupt(fmt::format(
        "{}: missing, but the directory has entries or snapshots: run `holdfast recover {} "
        "--token-floor N` with N at least the highest token ever seen",
        PathIn(directory, kIdentityName), directory));
  }
  auto identity = LoadIdentity(files, directory);
  if (!identity.ok() || identity->state != DirectoryState::kCreating) {
    return identity;
  }
  const bool unused = content->snapshots.empty() && content->segments.size() <= 1 &&
                      (content->segments.empty() || content->segments.front() == 1);
  if (!unused) {
    return Corrupt(
        fmt::format("{}: says that nobody has used the log yet, but there are more files",
                    PathIn(directory, kIdentityName)));
  }
  return CreateLog(files, directory, options);
}

struct CheckedLog {
  LogWalk walk;
  std::vector<std::unique_ptr<storage::File>> opened;  // one per segment
};

Result<CheckedLog> CheckLog(storage::FileSystem& files, const std::string& directory,
                            const DirectoryIdentity& identity, const SnapshotHeader& snapshot) {
  SnapshotFit fit(snapshot);
  auto walk = WalkLog(files, directory, identity.log_id,
                      [&](const WalkedEntry& walked) { fit.Visit(walked.entry); });
  if (!walk.ok()) {
    return walk.error();
  }
  if (!walk->damage.empty()) {
    return DamageError(directory, walk->damage.front());
  }
  if (Status fits = fit.Check(directory, *walk); !fits.ok()) {
    return fits.error();
  }
  CheckedLog checked{std::move(*walk), {}};
  for (const WalkedSegment& segment : checked.walk.segments) {
    auto file = files.Open(PathIn(directory, segment.name), true);
    if (!file.ok()) {
      return file.error();
    }
    checked.opened.push_back(std::move(*file));
  }
  return checked;
}

// Segments carry their own identity too: a backup tool that copies only what differs may leave the
// identity file alone. Only the last segment is compared, since `recover` renews only that one.
Status CheckTailIsOriginal(storage::FileSystem& files, const std::string& directory,
                           const WalkedSegment& tail) {
  const auto actual = files.Identity(PathIn(directory, tail.name));
  if (!actual.ok()) {
    return actual.error();
  }
  if (actual->inode != tail.header.file.inode ||
      actual->birth_time_ns != tail.header.file.birth_time_ns) {
    return CopiedDirectory(directory, tail.name);
  }
  return {};
}

}  // namespace

std::string BlankSegmentPath(const std::string& directory, std::uint64_t number) {
  return PathIn(directory, fmt::format("blank-{}{}", number, kTemporarySuffix));
}

Status RemoveTemporaryFiles(storage::FileSystem& files, const std::string& directory) {
  const auto content = ReadDirectory(files, directory);
  if (!content.ok()) {
    return content.error();
  }
  for (const std::string& name : content->temporary) {
    if (Status removed = files.Remove(PathIn(directory, name)); !removed.ok()) {
      return removed;
    }
  }
  return {};
}

Result<SegmentWriter> ReplaceSegment(storage::FileSystem& files, const std::string& directory,
                                     const SegmentHeader& header, const storage::File* source,
                                     std::uint64_t end_sector, std::uint64_t segment_bytes) {
  const std::string temporary = BlankSegmentPath(directory, 0);
  auto writer = SegmentWriter::Create(files, temporary, segment_bytes);
  if (!writer.ok() && writer.error().code == ErrorCode::kDiskFull) {
    // The entries themselves may still fit.
    writer = SegmentWriter::Create(files, temporary, 0);
  }
  if (!writer.ok()) {
    return writer;
  }
  writer->Start(header);
  Status done = source == nullptr ? writer->WriteHeader() : writer->CopyGroups(*source, end_sector);
  if (done.ok() && !Planted(Bug::kTrustsPageCache)) {
    done = writer->Sync();
  }
  if (done.ok()) {
    done = files.Rename(temporary, PathIn(directory, SegmentName(header.first_index)));
  }
  if (!done.ok()) {
    [[maybe_unused]] const Status removed = files.Remove(temporary);
    return done.error();
  }
  if (!Planted(Bug::kTrustsPageCache)) {
    done = files.SyncDirectory(directory);
  }
  return done.ok() ? std::move(writer) : Result<SegmentWriter>(done.error());
}

Result<OpenedLog> OpenLog(storage::FileSystem& files, const std::string& directory,
                          const SnapshotHeader& snapshot, const FileJournalOptions& options) {
  if (Status created = files.CreateDirectory(directory); !created.ok()) {
    return created.error();
  }
  auto lock = files.LockDirectory(directory);
  if (!lock.ok()) {
    return lock.error();
  }
  if (Status removed = RemoveTemporaryFiles(files, directory); !removed.ok()) {
    return removed.error();
  }
  const auto identity = LoadOrCreate(files, directory, options);
  if (!identity.ok()) {
    return identity.error();
  }
  if (Status usable = CheckUsable(files, directory, *identity); !usable.ok()) {
    return usable.error();
  }
  auto checked = CheckLog(files, directory, *identity, snapshot);
  if (!checked.ok()) {
    return checked.error();
  }
  WalkedSegment& last = checked->walk.segments.back();
  if (Status original = CheckTailIsOriginal(files, directory, last); !original.ok()) {
    return original.error();
  }
  if (const auto& torn = checked->walk.torn; torn.has_value()) {
    log::Warning("cut an append that a crash left incomplete file={} offset={}",
                 PathIn(directory, torn->file), torn->offset);
  }
  SegmentHeader header = last.header;
  header.synced_index = checked->walk.end.last.index;
  auto tail = ReplaceSegment(files, directory, header, checked->opened.back().get(),
                             last.end_sector, options.segment_bytes);
  if (!tail.ok()) {
    return tail.error();
  }
  last.header = tail->header();
  OpenedLog opened{std::move(*lock), *identity, {}, std::move(*tail), checked->walk.end};
  for (std::size_t i = 0; i < checked->walk.segments.size(); ++i) {
    opened.segments.push_back(
        OpenedSegment{std::move(checked->walk.segments[i]), std::move(checked->opened[i])});
  }
  opened.segments.back().file = opened.tail.file();
  return opened;
}

}  // namespace holdfast::journal
