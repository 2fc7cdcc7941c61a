#include "journal/backup.h"

#include <functional>
#include <memory>
#include <utility>

#include <fmt/core.h>

#include "base/archive.h"
#include "journal/chain.h"
#include "journal/chunk_file.h"
#include "journal/identity.h"
#include "journal/layout.h"
#include "journal/log_walk.h"
#include "journal/recover.h"
#include "journal/segment_builder.h"

namespace holdfast::journal {

template <typename A>
void Archive(A& archive, Entry& entry) {
  archive(entry.index, entry.epoch, entry.time, entry.previous_hash, entry.fragment,
          entry.fragments, entry.payload);
}

namespace {

constexpr std::size_t kPieceBytes = std::size_t{256} << 10U;

struct BackupHeader {
  Id128 log_id{};
  std::uint64_t token_floor = 0;
  WallTime created{};
  SnapshotHeader snapshot;
};

template <typename A>
void ArchiveHeader(A& archive, BackupHeader& header) {
  archive(header.log_id, header.token_floor, header.created, header.snapshot,
          header.snapshot.payload_bytes);
}

std::string DirectoryOf(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) {
    return ".";
  }
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Writes snapshot and entries to `file`. kCorrupt also when a running server trimmed the log
// between the look at the snapshot and the look at the entries.
Result<BackupSummary> WriteBackup(storage::FileSystem& files, const std::string& directory,
                                  const DirectoryIdentity& identity, storage::File& file) {
  auto snapshot = SnapshotStore(files, directory).LoadNewest();
  if (!snapshot.ok()) {
    return snapshot.error();
  }
  ChunkWriter chunks(file, kBackupMagic);
  ByteWriter bytes;
  ArchiveWriter archive(bytes);
  BackupHeader header{identity.log_id, identity.token_floor, identity.created, snapshot->header};
  ArchiveHeader(archive, header);
  Status done = chunks.Put(ChunkKind::kHeader, bytes.bytes());
  for (std::string_view rest = snapshot->payload; done.ok() && !rest.empty();) {
    const std::string_view piece = rest.substr(0, kPieceBytes);
    rest.remove_prefix(piece.size());
    done = chunks.Put(ChunkKind::kPayload, piece);
  }
  BackupSummary summary{identity.log_id, snapshot->header, 0, snapshot->header.index,
                        identity.token_floor};
  SnapshotFit fit(snapshot->header);
  const auto log = WalkLog(files, directory, identity.log_id, [&](const WalkedEntry& walked) {
    fit.Visit(walked.entry);
    if (done.ok() && walked.entry.index > snapshot->header.index) {
      Entry entry = walked.entry;
      bytes.Clear();
      archive(entry);
      done = chunks.Put(ChunkKind::kEntry, bytes.bytes());
      ++summary.entries;
      summary.last_index = entry.index;
    }
  });
  if (!log.ok()) {
    return log.error();
  }
  if (!log->damage.empty()) {
    return DamageError(directory, log->damage.front());
  }
  if (Status fits = fit.Check(directory, *log); !fits.ok()) {
    return fits.error();
  }
  if (done.ok()) {
    done = chunks.Finish();
  }
  return done.ok() ? Result<BackupSummary>(summary) : done.error();
}

// What a reader of a backup does with its parts; each may fail.
struct BackupParts {
  std::function<Status(const BackupHeader&)> header;
  std::function<Status(std::string_view)> payload;
  std::function<Status(const Entry&)> entry;
};

// One pass over a backup, which checks everything that can be checked.
class BackupReader {
 public:
  BackupReader(const storage::File& file, std::string path, const BackupParts& parts)
      : path_(std::move(path)), chunks_(file, path_, kBackupMagic), parts_(parts) {}

  Result<BackupSummary> Read() {
    bool has_header = false;
    while (true) {
      const auto chunk = chunks_.Next();
      if (!chunk.ok()) {
        return chunk.error();
      }
      if (has_header != (chunk->kind != ChunkKind::kHeader)) {
        return Corrupt(chunk->offset, "the header is not where it should be");
      }
      has_header = true;
      Status done = Take(*chunk);
      if (!done.ok()) {
        return done.error();
      }
      if (chunk->kind == ChunkKind::kFooter) {
        summary_.last_index = end_.last.index;
        return summary_;
      }
    }
  }

 private:
  Error Corrupt(std::uint64_t offset, const std::string& reason) const {
    return Error{
        ErrorCode::kCorrupt, fmt::format("{} at offset {}: {}", path_, offset, reason), {}, {}};
  }

  Status Take(const Chunk& chunk) {
    switch (chunk.kind) {
      case ChunkKind::kHeader:
        return TakeHeader(chunk);
      case ChunkKind::kPayload:
        payload_bytes_ += chunk.bytes.size();
        return parts_.payload(chunk.bytes);
      case ChunkKind::kEntry:
        return TakeEntry(chunk);
      case ChunkKind::kFooter:
        return payload_bytes_ == summary_.snapshot.payload_bytes
                   ? Status()
                   : Corrupt(chunk.offset, "the snapshot in it is not complete");
    }
    return Corrupt(chunk.offset, "a chunk of an unknown kind");
  }

  Status TakeHeader(const Chunk& chunk) {
    ByteReader bytes(chunk.bytes);
    ArchiveReader archive(bytes);
    BackupHeader header;
    ArchiveHeader(archive, header);
    const bool has_payload = header.snapshot.payload_bytes > 0;
    if (!bytes.ok() || !bytes.AtEnd() || (has_payload && header.snapshot.index == 0)) {
      return Corrupt(chunk.offset, "the header cannot be decoded");
    }
    summary_.log_id = header.log_id;
    summary_.token_floor = header.token_floor;
    summary_.snapshot = header.snapshot;
    end_ = ChainEndOf(header.snapshot);
    return parts_.header(header);
  }

  Status TakeEntry(const Chunk& chunk) {
    ByteReader bytes(chunk.bytes);
    ArchiveReader archive(bytes);
    Entry entry;
    archive(entry);
    if (!bytes.ok() || !bytes.AtEnd()) {
      return Corrupt(chunk.offset, "an entry cannot be decoded");
    }
    const std::string why = WhyNotNext(end_, entry);
    if (!why.empty()) {
      return Corrupt(chunk.offset, why);
    }
    Advance(end_, entry);
    ++summary_.entries;
    return parts_.entry(entry);
  }

  const std::string path_;
  ChunkReader chunks_;
  const BackupParts& parts_;
  BackupSummary summary_;
  ChainEnd end_;
  std::uint64_t payload_bytes_ = 0;
};

Result<BackupSummary> ReadBackup(storage::FileSystem& files, const std::string& backup,
                                 const BackupParts& parts) {
  const auto file = files.Open(backup, true);
  if (!file.ok()) {
    return file.error();
  }
  return BackupReader(**file, backup, parts).Read();
}

// The files of the log, into a directory whose identity says kRestoring.
Status WriteLog(storage::FileSystem& files, const std::string& backup, const std::string& directory,
                const BackupSummary& summary) {
  SnapshotStore store(files, directory);
  std::unique_ptr<SnapshotWriter> snapshot;
  if (summary.snapshot.index > 0) {
    auto begun = store.Begin(summary.snapshot);
    if (!begun.ok()) {
      return begun.error();
    }
    snapshot = std::move(*begun);
  }
  const SegmentHeader header = HeaderBehind(summary.snapshot, summary.log_id, summary.last_index);
  auto segment =
      SegmentBuilder::Create(files, PathIn(directory, SegmentName(header.first_index)), header);
  if (!segment.ok()) {
    return segment.error();
  }
  const auto read =
      ReadBackup(files, backup,
                 BackupParts{[](const BackupHeader&) { return Status(); },
                             [&](std::string_view piece) { return snapshot->Write(piece); },
                             [&](const Entry& entry) { return segment->Add(entry); }});
  if (!read.ok()) {
    return read.error();
  }
  if (snapshot != nullptr) {
    if (Status finished = snapshot->Finish(); !finished.ok()) {
      return finished;
    }
  }
  return segment->Finish();
}

}  // namespace

Result<BackupSummary> Backup(storage::FileSystem& files, const std::string& directory,
                             const std::string& output) {
  const auto identity = LoadIdentity(files, directory);
  if (!identity.ok()) {
    return identity.error();
  }
  if (identity->state == DirectoryState::kRestoring) {
    return CheckUsable(files, directory, *identity).error();
  }
  if (files.Exists(output)) {
    return Error{ErrorCode::kAlreadyExists, output + " exists", {}, {}};
  }
  const std::string temporary = output + std::string(kTemporarySuffix);
  constexpr int kTries = 5;
  for (int tried = 1;; ++tried) {
    auto file = files.Create(temporary);
    if (!file.ok()) {
      return file.error();
    }
    auto written = WriteBackup(files, directory, *identity, **file);
    if (written.ok()) {
      Status done = files.Rename(temporary, output);
      if (done.ok()) {
        done = files.SyncDirectory(DirectoryOf(output));
      }
      return done.ok() ? written : done.error();
    }
    if (Status removed = files.Remove(temporary); !removed.ok()) {
      return removed.error();
    }
    if (written.error().code != ErrorCode::kCorrupt || tried == kTries) {
      return written.error();
    }
  }
}

Result<BackupSummary> VerifyBackup(storage::FileSystem& files, const std::string& backup) {
  return ReadBackup(files, backup,
                    BackupParts{[](const BackupHeader&) { return Status(); },
                                [](std::string_view) { return Status(); },
                                [](const Entry&) { return Status(); }});
}

Result<BackupSummary> Restore(storage::FileSystem& files, const std::string& backup,
                              const std::string& directory,
                              std::optional<std::uint64_t> token_floor) {
  if (token_floor.has_value()) {
    if (Status valid = CheckTokenFloor(*token_floor); !valid.ok()) {
      return valid.error();
    }
  }
  DirectoryIdentity identity;
  const auto verified = ReadBackup(files, backup,
                                   BackupParts{[&](const BackupHeader& header) {
                                                 identity.created = header.created;
                                                 return Status();
                                               },
                                               [](std::string_view) { return Status(); },
                                               [](const Entry&) { return Status(); }});
  if (!verified.ok()) {
    return verified.error();
  }
  if (Status created = files.CreateDirectory(directory); !created.ok()) {
    return created.error();
  }
  const auto lock = files.LockDirectory(directory);
  if (!lock.ok()) {
    return lock.error();
  }
  const auto content = ReadDirectory(files, directory);
  if (!content.ok()) {
    return content.error();
  }
  if (content->identity || !content->segments.empty() || !content->snapshots.empty()) {
    return Error{ErrorCode::kAlreadyExists,
                 directory + " has a log already: restore into a new directory",
                 {},
                 {}};
  }
  identity.state = DirectoryState::kRestoring;
  identity.log_id = verified->log_id;
  identity.token_floor = std::max(verified->token_floor, token_floor.value_or(0));
  Status done = StoreIdentity(files, directory, identity);
  if (done.ok()) {
    done = WriteLog(files, backup, directory, *verified);
  }
  if (done.ok()) {
    done = files.SyncDirectory(directory);
  }
  if (done.ok()) {
    identity.state =
        token_floor.has_value() ? DirectoryState::kRecovered : DirectoryState::kBlocked;
    done = StoreIdentity(files, directory, identity);
  }
  return done.ok() ? verified : done.error();
}

}  // namespace holdfast::journal
