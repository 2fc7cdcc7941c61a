#include "journal/segment_writer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace holdfast::journal {
namespace {

constexpr std::size_t kCopyBytes = std::size_t{1} << 20U;

std::uint64_t SectorsOf(const std::vector<Entry>& entries) {
  std::uint64_t bytes = 0;
  for (const Entry& entry : entries) {
    bytes += kRecordHeaderBytes + entry.payload.size();
  }
  return (bytes + kSectorContentBytes - 1) / kSectorContentBytes;
}

// Lays a stream of bytes into the content parts of consecutive sectors.
class SectorStream {
 public:
  explicit SectorStream(char* first_sector) : sector_(first_sector) {}

  void Put(std::string_view bytes) {
    while (!bytes.empty()) {
      if (used_ == kSectorContentBytes) {
        sector_ += kSectorBytes;
        used_ = 0;
      }
      const std::size_t size = std::min(bytes.size(), kSectorContentBytes - used_);
      std::memcpy(sector_ + used_, bytes.data(), size);
      used_ += size;
      bytes.remove_prefix(size);
    }
  }
  // Clears the rest of the last sector; the bytes used in it.
  std::size_t Finish() {
    std::memset(sector_ + used_, 0, kSectorContentBytes - used_);
    return used_;
  }

 private:
  char* sector_;
  std::size_t used_ = 0;
};

SectorKind KindOf(std::uint64_t number, std::uint64_t count) {
  if (count == 1) {
    return SectorKind::kOnly;
  }
  if (number == 0) {
    return SectorKind::kFirst;
  }
  return number + 1 == count ? SectorKind::kLast : SectorKind::kMiddle;
}

// Syncs every megabyte, so that little is dirty at any time and other syncs do not wait for much.
Status FillWithZeros(storage::File& file, std::uint64_t bytes) {
  const std::string zeros(static_cast<std::size_t>(std::min<std::uint64_t>(bytes, kCopyBytes)),
                          '\0');
  for (std::uint64_t offset = 0; offset < bytes; offset += zeros.size()) {
    const std::uint64_t size = std::min<std::uint64_t>(zeros.size(), bytes - offset);
    Status done = file.WriteAt(offset, std::string_view(zeros).substr(0, size));
    if (done.ok()) {
      done = file.Sync();
    }
    if (!done.ok()) {
      return done;
    }
  }
  return {};
}

}  // namespace

std::uint64_t GroupBytes(const std::vector<Entry>& entries) {
  return SectorsOf(entries) * kSectorBytes;
}

SegmentWriter::SegmentWriter(std::shared_ptr<storage::File> file, std::string path,
                             storage::FileIdentity identity)
    : file_(std::move(file)), path_(std::move(path)), identity_(identity), frame_({}, 0) {}

Result<SegmentWriter> SegmentWriter::Create(storage::FileSystem& files, std::string path,
                                            std::uint64_t fill_bytes) {
  auto file = files.Create(path);
  if (!file.ok()) {
    return file.error();
  }
  Status filled = FillWithZeros(**file, fill_bytes);
  if (filled.ok()) {
    auto identity = files.Identity(path);
    if (identity.ok()) {
      return SegmentWriter(std::move(*file), std::move(path), *identity);
    }
    filled = identity.error();
  }
  // If this fails as well, the next start removes the file.
  [[maybe_unused]] const Status removed = files.Remove(path);
  return filled.error();
}

void SegmentWriter::Start(SegmentHeader header) {
  header_ = header;
  header_.file = identity_;
  frame_ = SectorFrame(header.log_id, header.first_index);
}

void SegmentWriter::EncodeGroup(const std::vector<Entry>& entries, std::uint64_t synced_index) {
  const std::uint64_t count = SectorsOf(entries);
  const std::size_t begin = buffer_.size();
  buffer_.resize(begin + static_cast<std::size_t>(count) * kSectorBytes);
  SectorStream stream(buffer_.data() + begin);
  std::array<char, kRecordHeaderBytes> header{};
  for (const Entry& entry : entries) {
    EncodeRecordHeader(entry, synced_index, header.data());
    stream.Put(std::string_view(header.data(), header.size()));
    stream.Put(entry.payload);
  }
  const std::size_t used_in_last = stream.Finish();
  const std::uint64_t first = std::max<std::uint64_t>(end_sector_, 1);
  for (std::uint64_t i = 0; i < count; ++i) {
    frame_.Seal(buffer_.data() + begin + i * kSectorBytes, first + i, KindOf(i, count),
                i + 1 == count ? used_in_last : kSectorContentBytes);
  }
}

Status SegmentWriter::WriteGroup(const std::vector<Entry>& entries, std::uint64_t synced_index) {
  buffer_.clear();
  if (end_sector_ == 0) {
    buffer_ = EncodeSegmentHeader(header_);
  }
  EncodeGroup(entries, synced_index);
  return WriteBuffer();
}

Status SegmentWriter::WriteHeader() {
  buffer_ = EncodeSegmentHeader(header_);
  return WriteBuffer();
}

Status SegmentWriter::WriteBuffer() {
  Status written = file_->WriteAt(end_sector_ * kSectorBytes, buffer_);
  if (written.ok()) {
    end_sector_ += buffer_.size() / kSectorBytes;
  } else {
    failed_ = true;
  }
  return written;
}

Status SegmentWriter::CopyGroups(const storage::File& source, std::uint64_t end_sector) {
  if (Status written = WriteHeader(); !written.ok()) {
    return written;
  }
  while (end_sector_ < end_sector) {
    const std::uint64_t bytes =
        std::min<std::uint64_t>(kCopyBytes, (end_sector - end_sector_) * kSectorBytes);
    auto piece = source.ReadAt(end_sector_ * kSectorBytes, static_cast<std::size_t>(bytes));
    if (!piece.ok()) {
      return piece.error();
    }
    if (piece->size() != bytes) {
      return Error{
          ErrorCode::kIo, path_ + ": its source became shorter while it was copied", {}, {}};
    }
    buffer_ = std::move(*piece);
    if (Status written = WriteBuffer(); !written.ok()) {
      return written;
    }
  }
  return {};
}

}  // namespace holdfast::journal
