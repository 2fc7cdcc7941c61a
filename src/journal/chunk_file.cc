#include "journal/chunk_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "journal/little_endian.h"

namespace holdfast::journal {
namespace {

constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kPreambleBytes = 16;     // magic, version, CRC of both
constexpr std::size_t kChunkHeaderBytes = 12;  // size, CRC, kind, three zeros
constexpr std::size_t kFooterBytes = 4 + 16;   // count and hash of the chunks before it
constexpr std::size_t kFlushBytes = std::size_t{1} << 20U;

// Over the number of the chunk, its kind and its bytes.
std::uint32_t ChunkCrc(std::uint32_t number, ChunkKind kind, std::string_view bytes) {
  std::array<char, 5> place{};
  FixedWriter out(place.data());
  out.U32(number);
  out.U8(static_cast<std::uint8_t>(kind));
  return Crc32c(bytes, Crc32c(std::string_view(place.data(), place.size())));
}

Id128 NextHash(const Id128& hash, ChunkKind kind, std::string_view bytes) {
  std::array<char, 16 + 1 + 16> fields{};
  FixedWriter out(fields.data());
  out.Id(hash);
  out.U8(static_cast<std::uint8_t>(kind));
  out.Id(Hash128(bytes));
  return Hash128(std::string_view(fields.data(), fields.size()));
}

std::array<char, kPreambleBytes> Preamble(std::string_view magic, std::uint32_t version) {
  std::array<char, kPreambleBytes> bytes{};
  std::memcpy(bytes.data(), magic.data(), magic.size());
  FixedWriter out(bytes.data() + magic.size());
  out.U32(version);
  out.U32(Crc32c(std::string_view(bytes.data(), kPreambleBytes - 4)));
  return bytes;
}

}  // namespace

ChunkWriter::ChunkWriter(storage::File& file, std::string_view magic) : file_(file) {
  const auto preamble = Preamble(magic, kVersion);
  buffer_.assign(preamble.data(), preamble.size());
}

Status ChunkWriter::Put(ChunkKind kind, std::string_view bytes) {
  hash_ = NextHash(hash_, kind, bytes);
  return WriteChunk(kind, bytes);
}

Status ChunkWriter::WriteChunk(ChunkKind kind, std::string_view bytes) {
  HF_CHECK(bytes.size() <= kChunkBytesMax, "a chunk is too long");
  std::array<char, kChunkHeaderBytes> header{};
  FixedWriter out(header.data());
  out.U32(static_cast<std::uint32_t>(bytes.size()));
  out.U32(ChunkCrc(chunks_, kind, bytes));
  out.U8(static_cast<std::uint8_t>(kind));
  ++chunks_;
  buffer_.append(header.data(), header.size());
  buffer_.append(bytes);
  return buffer_.size() >= kFlushBytes ? Flush() : Status();
}

Status ChunkWriter::Flush() {
  Status done = file_.WriteAt(offset_, buffer_);
  if (done.ok()) {
    done = file_.Sync();
  }
  offset_ += buffer_.size();
  buffer_.clear();
  return done;
}

Status ChunkWriter::Finish() {
  std::array<char, kFooterBytes> footer{};
  FixedWriter out(footer.data());
  out.U32(chunks_);
  out.Id(hash_);
  Status done = WriteChunk(ChunkKind::kFooter, std::string_view(footer.data(), footer.size()));
  return done.ok() ? Flush() : done;
}

ChunkReader::ChunkReader(const storage::File& file, std::string path, std::string_view magic)
    : file_(file), path_(std::move(path)), magic_(magic) {}

Error ChunkReader::Corrupt(std::uint64_t offset, const char* reason) const {
  return Error{
      ErrorCode::kCorrupt, fmt::format("{} at offset {}: {}", path_, offset, reason), {}, {}};
}

// The bytes at offset_, which moves behind them.
Result<std::string_view> ChunkReader::Bytes(std::uint64_t size) {
  if (offset_ + size > window_offset_ + window_.size()) {
    auto bytes =
        file_.ReadAt(offset_, static_cast<std::size_t>(std::max<std::uint64_t>(size, kFlushBytes)));
    if (!bytes.ok()) {
      return bytes.error();
    }
    window_ = std::move(*bytes);
    window_offset_ = offset_;
    if (window_.size() < size) {
      return Corrupt(offset_, "the file ends in the middle");
    }
  }
  const auto begin = static_cast<std::size_t>(offset_ - window_offset_);
  offset_ += size;
  return std::string_view(window_).substr(begin, static_cast<std::size_t>(size));
}

Status ChunkReader::ReadPreamble() {
  const auto bytes = Bytes(kPreambleBytes);
  if (!bytes.ok()) {
    return bytes.error();
  }
  const std::uint32_t version = FixedReader(bytes->data() + magic_.size()).U32();
  const auto expected = Preamble(magic_, version);
  if (*bytes != std::string_view(expected.data(), expected.size())) {
    return Corrupt(0, "the start of the file is damaged");
  }
  if (version != kVersion) {
    return Error{
        ErrorCode::kUnsupported,
        fmt::format("{} has format version {}, this program knows {}", path_, version, kVersion),
        {},
        {}};
  }
  return {};
}

Result<Chunk> ChunkReader::Next() {
  if (offset_ == 0) {
    if (Status preamble = ReadPreamble(); !preamble.ok()) {
      return preamble.error();
    }
  }
  Chunk chunk;
  chunk.offset = offset_;
  const auto header = Bytes(kChunkHeaderBytes);
  if (!header.ok()) {
    return header.error();
  }
  FixedReader in(header->data());
  const std::uint32_t size = in.U32();
  const std::uint32_t crc = in.U32();
  chunk.kind = static_cast<ChunkKind>(in.U8());
  if (size > kChunkBytesMax || in.U8() != 0 || in.U16() != 0) {
    return Corrupt(chunk.offset, "the header of a chunk is damaged");
  }
  const auto bytes = Bytes(size);
  if (!bytes.ok()) {
    return bytes.error();
  }
  if (ChunkCrc(chunks_, chunk.kind, *bytes) != crc) {
    return Corrupt(chunk.offset, "the checksum of a chunk does not match");
  }
  chunk.bytes = *bytes;
  if (chunk.kind != ChunkKind::kFooter) {
    ++chunks_;
    hash_ = NextHash(hash_, chunk.kind, chunk.bytes);
    return chunk;
  }
  FixedReader footer(chunk.bytes.data());
  if (size != kFooterBytes || footer.U32() != chunks_ || footer.Id() != hash_) {
    return Corrupt(chunk.offset, "the footer does not fit what is before it");
  }
  const auto length = file_.Size();
  if (!length.ok()) {
    return length.error();
  }
  if (*length != offset_) {
    return Corrupt(offset_, "something follows the footer");
  }
  return chunk;
}

}  // namespace holdfast::journal
