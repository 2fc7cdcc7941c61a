#include "journal/snapshot_store.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "base/archive.h"
#include "base/log.h"
#include "journal/chunk_file.h"
#include "journal/layout.h"

namespace holdfast::journal {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{256} << 10U;

class FileSnapshotWriter final : public SnapshotWriter {
 public:
  FileSnapshotWriter(storage::FileSystem& files, std::string directory, SnapshotHeader header,
                     std::unique_ptr<storage::File> file)
      : files_(files),
        directory_(std::move(directory)),
        header_(header),
        file_(std::move(file)),
        chunks_(*file_, kSnapshotMagic) {}
  ~FileSnapshotWriter() override {
    if (!finished_) {
      // If this fails, the next start removes the file.
      [[maybe_unused]] const Status removed =
          files_.Remove(TemporaryPath(directory_, header_.index));
    }
  }
  FileSnapshotWriter(const FileSnapshotWriter&) = delete;
  FileSnapshotWriter& operator=(const FileSnapshotWriter&) = delete;

  static std::string TemporaryPath(const std::string& directory, std::uint64_t index) {
    return PathIn(directory, SnapshotName(index) + std::string(kTemporarySuffix));
  }

  Status WriteHeader() {
    ByteWriter bytes;
    ArchiveWriter archive(bytes);
    archive(header_);
    return chunks_.Put(ChunkKind::kHeader, bytes.bytes());
  }

  Status Write(std::string_view piece) override {
    while (!piece.empty()) {
      const std::size_t size = std::min(piece.size(), kPieceBytes - buffer_.size());
      buffer_.append(piece.substr(0, size));
      piece.remove_prefix(size);
      if (buffer_.size() == kPieceBytes) {
        if (Status put = PutBuffer(); !put.ok()) {
          return put;
        }
      }
    }
    return {};
  }

  Status Finish() override {
    Status done = buffer_.empty() ? Status() : PutBuffer();
    if (done.ok()) {
      done = chunks_.Finish();
    }
    if (done.ok()) {
      done = files_.Rename(TemporaryPath(directory_, header_.index),
                           PathIn(directory_, SnapshotName(header_.index)));
    }
    if (done.ok()) {
      finished_ = true;
      done = files_.SyncDirectory(directory_);
    }
    return done;
  }

 private:
  Status PutBuffer() {
    Status put = chunks_.Put(ChunkKind::kPayload, buffer_);
    buffer_.clear();
    return put;
  }

  storage::FileSystem& files_;
  std::string directory_;
  SnapshotHeader header_;
  std::unique_ptr<storage::File> file_;
  ChunkWriter chunks_;
  std::string buffer_;
  bool finished_ = false;
};

}  // namespace

SnapshotStore::SnapshotStore(storage::FileSystem& files, std::string directory)
    : files_(files), directory_(std::move(directory)) {}

Result<std::unique_ptr<SnapshotWriter>> SnapshotStore::Begin(const SnapshotHeader& header) {
  auto file = files_.Create(FileSnapshotWriter::TemporaryPath(directory_, header.index));
  if (!file.ok()) {
    return file.error();
  }
  auto writer = std::make_unique<FileSnapshotWriter>(files_, directory_, header, std::move(*file));
  if (Status written = writer->WriteHeader(); !written.ok()) {
    return written.error();
  }
  return std::unique_ptr<SnapshotWriter>(std::move(writer));
}

Result<std::vector<std::uint64_t>> SnapshotStore::List() {
  auto content = ReadDirectory(files_, directory_);
  if (!content.ok()) {
    if (content.error().code == ErrorCode::kNotFound) {
      return std::vector<std::uint64_t>();
    }
    return content.error();
  }
  return std::move(content->snapshots);
}

Result<Snapshot> SnapshotStore::Load(std::uint64_t index) {
  const std::string path = PathIn(directory_, SnapshotName(index));
  const auto file = files_.Open(path, true);
  if (!file.ok()) {
    return file.error();
  }
  ChunkReader reader(**file, path, kSnapshotMagic);
  const auto wrong = [&](std::uint64_t offset, const char* reason) {
    return Error{
        ErrorCode::kCorrupt, fmt::format("{} at offset {}: {}", path, offset, reason), {}, {}};
  };
  Snapshot snapshot;
  bool has_header = false;
  while (true) {
    const auto chunk = reader.Next();
    if (!chunk.ok()) {
      return chunk.error();
    }
    if (has_header != (chunk->kind != ChunkKind::kHeader)) {
      return wrong(chunk->offset, "the header is not where it should be");
    }
    switch (chunk->kind) {
      case ChunkKind::kHeader: {
        ByteReader bytes(chunk->bytes);
        ArchiveReader archive(bytes);
        archive(snapshot.header);
        if (!bytes.ok() || !bytes.AtEnd() || snapshot.header.index != index) {
          return wrong(chunk->offset, "the header cannot be decoded");
        }
        has_header = true;
        break;
      }
      case ChunkKind::kPayload:
        snapshot.payload.append(chunk->bytes);
        break;
      case ChunkKind::kFooter:
        snapshot.header.payload_bytes = snapshot.payload.size();
        return snapshot;
      case ChunkKind::kEntry:
        return wrong(chunk->offset, "a snapshot has no entries");
    }
  }
}

Result<Snapshot> SnapshotStore::LoadNewest() {
  const auto indexes = List();
  if (!indexes.ok()) {
    return indexes.error();
  }
  for (auto index = indexes->rbegin(); index != indexes->rend(); ++index) {
    auto snapshot = Load(*index);
    // Another process may have removed it since; damage is for the log to make good.
    if (snapshot.ok() || (snapshot.error().code != ErrorCode::kCorrupt &&
                          snapshot.error().code != ErrorCode::kNotFound)) {
      return snapshot;
    }
    log::Warning("a snapshot cannot be loaded error=\"{}\"", snapshot.error().message);
  }
  return Snapshot{};
}

Status SnapshotStore::Retain(std::size_t keep) {
  const auto indexes = List();
  if (!indexes.ok()) {
    return indexes.error();
  }
  for (std::size_t i = 0; i + keep < indexes->size(); ++i) {
    if (Status removed = files_.Remove(PathIn(directory_, SnapshotName((*indexes)[i])));
        !removed.ok()) {
      return removed;
    }
  }
  return {};
}

}  // namespace holdfast::journal
