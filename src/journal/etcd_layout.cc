#include "journal/etcd_layout.h"

#include <array>

#include <fmt/core.h>

#include "base/crc32c.h"
#include "journal/little_endian.h"

namespace holdfast::journal::etcd {
namespace {

constexpr std::size_t kCrcBytes = 4;

Error Corrupt(const KeyValue& pair, const char* what) {
  return Error{
      ErrorCode::kCorrupt, fmt::format("{} in etcd is damaged: {}", pair.key, what), {}, {}};
}

}  // namespace

std::string Layout::Slot(std::uint64_t index) const {
  return fmt::format("{}/log/{:016x}", prefix_, index);
}

std::string Seal(std::string bytes) {
  std::array<char, kCrcBytes> crc{};
  FixedWriter(crc.data()).U32(Crc32c(bytes));
  bytes.append(crc.data(), crc.size());
  return bytes;
}

Result<std::string_view> Unseal(const KeyValue& pair) {
  const std::string_view value = pair.value;
  if (value.size() < kCrcBytes) {
    return Corrupt(pair, "too short");
  }
  const std::string_view bytes = value.substr(0, value.size() - kCrcBytes);
  std::array<char, kCrcBytes> crc{};
  FixedWriter(crc.data()).U32(Crc32c(bytes));
  if (value.substr(bytes.size()) != std::string_view(crc.data(), crc.size())) {
    return Corrupt(pair, "checksum");
  }
  return bytes;
}

std::string EncodeEntry(const Entry& entry) {
  ByteWriter out;
  ArchiveWriter writer(out);
  writer(entry.index, entry.epoch, entry.time, entry.previous_hash, entry.fragment, entry.fragments,
         entry.payload);
  return Seal(out.Take());
}

Result<Entry> DecodeEntry(const Layout& layout, const KeyValue& pair) {
  const Result<std::string_view> bytes = Unseal(pair);
  if (!bytes.ok()) {
    return bytes.error();
  }
  ByteReader in(*bytes);
  ArchiveReader reader(in);
  Entry entry;
  reader(entry.index, entry.epoch, entry.time, entry.previous_hash, entry.fragment, entry.fragments,
         entry.payload);
  if (!in.ok() || !in.AtEnd()) {
    return Corrupt(pair, "bytes are missing or left over");
  }
  if (layout.Slot(entry.index) != pair.key) {
    return Corrupt(pair, "it holds another entry");
  }
  return entry;
}

}  // namespace holdfast::journal::etcd
