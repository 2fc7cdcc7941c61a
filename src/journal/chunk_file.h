// A checksummed file of chunks, written once from front to back: the container of snapshots and
// backups. It ends with a footer that counts and hashes all chunks, so an incomplete file is never
// taken for a complete one. Layout: docs/formats/snapshot.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/id.h"
#include "holdfast/result.h"
#include "storage/file_system.h"

namespace holdfast::journal {

// 8 bytes at the start of the file.
inline constexpr std::string_view kSnapshotMagic = "HFSNAPSH";
inline constexpr std::string_view kBackupMagic = "HFBACKUP";
inline constexpr std::size_t kChunkBytesMax = std::size_t{2} << 20U;

enum class ChunkKind : std::uint8_t {
  kHeader = 'h',
  kPayload = 'p',  // a piece of a snapshot's payload
  kEntry = 'e',    // one entry of a backup
  kFooter = 'f',
};

struct Chunk {
  ChunkKind kind = ChunkKind::kHeader;
  std::string_view bytes;  // valid until the next call
  std::uint64_t offset = 0;
};

class ChunkWriter {
 public:
  // `file` is empty and must outlive the writer.
  ChunkWriter(storage::File& file, std::string_view magic);

  // `bytes` has at most kChunkBytesMax. Syncs now and then, so that the last sync has little to do.
  Status Put(ChunkKind kind, std::string_view bytes);
  // Writes the footer and syncs.
  Status Finish();

 private:
  Status WriteChunk(ChunkKind kind, std::string_view bytes);
  Status Flush();

  storage::File& file_;
  std::uint64_t offset_ = 0;  // of buffer_ in the file
  std::string buffer_;
  std::uint32_t chunks_ = 0;
  Id128 hash_{};  // over all chunks so far
};

class ChunkReader {
 public:
  // `path` is for messages; `file` must outlive the reader.
  ChunkReader(const storage::File& file, std::string path, std::string_view magic);

  // The next chunk. The footer is checked here, and with it that nothing is missing and nothing
  // follows; it is the last chunk. kCorrupt names the offset, kUnsupported a newer version.
  Result<Chunk> Next();

 private:
  Status ReadPreamble();
  Result<std::string_view> Bytes(std::uint64_t size);
  Error Corrupt(std::uint64_t offset, const char* reason) const;

  const storage::File& file_;
  std::string path_;
  std::string_view magic_;
  std::uint64_t offset_ = 0;
  std::string window_;  // bytes of the file from window_offset_ on
  std::uint64_t window_offset_ = 0;
  std::uint32_t chunks_ = 0;
  Id128 hash_{};
};

}  // namespace holdfast::journal
