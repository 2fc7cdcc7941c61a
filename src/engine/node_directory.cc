#include "engine/node_directory.h"

#include <utility>

#include "journal/layout.h"

namespace holdfast::engine {
namespace {

constexpr std::size_t kSnapshotsKept = 2;
constexpr std::string_view kLogIdName = "log-id";

}  // namespace

NodeDirectory::NodeDirectory(storage::FileSystem& files, std::string directory)
    : files_(files), directory_(std::move(directory)) {}

Result<std::unique_ptr<NodeDirectory>> NodeDirectory::Open(storage::FileSystem& files,
                                                           const std::string& directory) {
  std::unique_ptr<NodeDirectory> opened(new NodeDirectory(files, directory));
  if (Status created = files.CreateDirectory(directory); !created.ok()) {
    return created.error();
  }
  Result<std::unique_ptr<storage::DirectoryLock>> lock = files.LockDirectory(directory);
  if (!lock.ok()) {
    return lock.error();
  }
  opened->lock_ = std::move(*lock);
  const Result<journal::DirectoryContent> content = journal::ReadDirectory(files, directory);
  if (!content.ok()) {
    return content.error();
  }
  if (content->identity || !content->segments.empty()) {
    return InvalidArgument("data_dir", "a directory of its own for a replicated node",
                           directory + " holds the journal of an embedded server");
  }
  for (const std::string& name : content->temporary) {
    if (Status removed = files.Remove(journal::PathIn(directory, name)); !removed.ok()) {
      return removed.error();
    }
  }
  const std::string path = journal::PathIn(directory, kLogIdName);
  if (files.Exists(path)) {
    const Result<std::unique_ptr<storage::File>> file = files.Open(path, true);
    if (!file.ok()) {
      return file.error();
    }
    const Result<std::string> text = (*file)->ReadAt(0, 64);
    const std::optional<Id128> id = text.ok() ? ParseId(*text) : std::nullopt;
    if (!id.has_value()) {
      return Error{ErrorCode::kCorrupt, path + " does not hold the id of a log", {}, {}};
    }
    opened->log_id_ = *id;
  }
  return opened;
}

Status NodeDirectory::SetLogId(const Id128& log_id) {
  const std::string path = journal::PathIn(directory_, kLogIdName);
  const std::string temporary = path + std::string(journal::kTemporarySuffix);
  if (files_.Exists(temporary)) {
    if (Status removed = files_.Remove(temporary); !removed.ok()) {
      return removed;
    }
  }
  Result<std::unique_ptr<storage::File>> file = files_.Create(temporary);
  if (!file.ok()) {
    return file.error();
  }
  if (Status written = (*file)->WriteAt(0, ToHex(log_id)); !written.ok()) {
    return written;
  }
  if (Status synced = (*file)->Sync(); !synced.ok()) {
    return synced;
  }
  if (Status renamed = files_.Rename(temporary, path); !renamed.ok()) {
    return renamed;
  }
  log_id_ = log_id;
  return files_.SyncDirectory(directory_);
}

Result<NodeDirectory::State> NodeDirectory::Load() {
  journal::SnapshotStore store(files_, directory_);
  Result<journal::Snapshot> snapshot = store.LoadNewest();
  if (!snapshot.ok()) {
    return snapshot.error();
  }
  if (snapshot->header.index == 0) {
    return State{std::make_unique<core::Machine>(), {}};
  }
  Result<std::unique_ptr<core::Machine>> machine = core::Machine::Load(snapshot->payload);
  if (!machine.ok()) {
    return machine.error();
  }
  return State{std::move(*machine), snapshot->header};
}

Status NodeDirectory::Save(const journal::SnapshotHeader& header,
                           const std::vector<std::string_view>& pieces,
                           const std::function<void()>& pause) {
  constexpr std::size_t kPiece = std::size_t{1} << 20U;
  journal::SnapshotStore store(files_, directory_);
  Result<std::unique_ptr<journal::SnapshotWriter>> writer = store.Begin(header);
  if (!writer.ok()) {
    return writer.error();
  }
  for (const std::string_view piece : pieces) {
    for (std::size_t at = 0; at < piece.size(); at += kPiece) {
      if (Status written = (*writer)->Write(piece.substr(at, kPiece)); !written.ok()) {
        return written;
      }
      if (pause) {
        pause();
      }
    }
  }
  if (Status finished = (*writer)->Finish(); !finished.ok()) {
    return finished;
  }
  return store.Retain(kSnapshotsKept);
}

}  // namespace holdfast::engine
