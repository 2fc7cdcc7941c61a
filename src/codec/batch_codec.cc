#include "codec/batch_codec.h"

#include <utility>
#include <variant>

#include "base/archive.h"
#include "codec/command_archive.h"
#include "codec/variant_archive.h"
#include "core/limits.h"

namespace holdfast::codec {
namespace {

// Flags before each command. A batch usually comes from few callers: what equals the command before
// is not repeated.
constexpr std::uint8_t kNewPrincipal = 1;
constexpr std::uint8_t kNewNamespace = 2;

Error Corrupt(const char* what) {
  return Error{ErrorCode::kCorrupt, std::string("a batch does not decode: ") + what, {}, {}};
}

}  // namespace

void EncodeBatch(const core::Batch& batch, std::uint32_t feature_level, ByteWriter& out) {
  ArchiveWriter writer(out);
  writer(kBatchFormat, feature_level, batch.epoch, batch.time, batch.wall);
  out.PutVarint(batch.commands.size());
  const std::string empty;
  const std::string* principal = &empty;
  const std::string* name_space = &empty;
  for (const core::Command& command : batch.commands) {
    std::uint8_t flags = 0;
    if (command.principal != *principal) {
      flags = kNewPrincipal;
    }
    if (command.name_space != *name_space) {
      flags = static_cast<std::uint8_t>(flags | kNewNamespace);
    }
    writer(flags);
    if ((flags & kNewPrincipal) != 0) {
      writer(command.principal);
      principal = &command.principal;
    }
    if ((flags & kNewNamespace) != 0) {
      writer(command.name_space);
      name_space = &command.name_space;
    }
    WriteVariant(writer, command.body);
  }
}

std::size_t EncodedSizeBound(const core::Command& command) {
  // Fixed parts: flags, tag, lengths, at most eight ten-byte integers and two ids; a policy patch
  // has 15 fields.
  std::size_t bytes = 256 + command.principal.size() + command.name_space.size();
  const auto strings = [&](const auto&... text) { bytes += (text.size() + ... + 0); };
  if (const auto* acquire = std::get_if<core::Acquire>(&command.body); acquire != nullptr) {
    strings(acquire->resource, acquire->request_id, acquire->owner, acquire->value,
            acquire->client.client_id);
    for (const core::MetadataEntry& entry : acquire->metadata) {
      bytes += 20 + entry.key.size() + entry.value.size();
    }
  } else if (const auto* renew = std::get_if<core::Renew>(&command.body); renew != nullptr) {
    strings(renew->resource);
  } else if (const auto* release = std::get_if<core::Release>(&command.body); release != nullptr) {
    strings(release->resource);
  } else if (const auto* cancel = std::get_if<core::Cancel>(&command.body); cancel != nullptr) {
    strings(cancel->resource, cancel->request_id, cancel->owner, cancel->client.client_id);
  } else if (const auto* broken = std::get_if<core::Break>(&command.body); broken != nullptr) {
    strings(broken->resource, broken->reason);
  } else if (const auto* proclaim = std::get_if<core::Proclaim>(&command.body);
             proclaim != nullptr) {
    strings(proclaim->resource, proclaim->value);
  } else if (const auto* open = std::get_if<core::OpenSession>(&command.body); open != nullptr) {
    strings(open->request_id, open->owner, open->client.client_id);
  } else if (const auto* change = std::get_if<core::ChangeNamespace>(&command.body);
             change != nullptr) {
    strings(change->name);
  }
  return bytes;
}

Result<DecodedBatch> DecodeBatch(std::string_view bytes) {
  ByteReader in(bytes);
  ArchiveReader reader(in);
  DecodedBatch decoded;
  core::Batch& batch = decoded.batch;
  std::uint32_t format = 0;
  reader(format, decoded.feature_level);
  if (in.ok() && (format != kBatchFormat || decoded.feature_level > core::kFeatureLevelMax)) {
    return Error{ErrorCode::kUnsupported,
                 "a batch has format " + std::to_string(format) + " and feature level " +
                     std::to_string(decoded.feature_level) + ", this build knows " +
                     std::to_string(kBatchFormat) + " and " +
                     std::to_string(core::kFeatureLevelMax),
                 {},
                 {}};
  }
  reader(batch.epoch, batch.time, batch.wall);
  const std::uint64_t count = in.Varint();
  std::string principal;
  std::string name_space;
  for (std::uint64_t i = 0; i < count && in.ok(); ++i) {
    std::uint8_t flags = 0;
    reader(flags);
    if ((flags & kNewPrincipal) != 0) {
      reader(principal);
    }
    if ((flags & kNewNamespace) != 0) {
      reader(name_space);
    }
    core::Command command{principal, name_space, {}};
    if (!ReadVariant(reader, command.body)) {
      return Corrupt("unknown or damaged command");
    }
    batch.commands.push_back(std::move(command));
  }
  if (!in.ok() || !in.AtEnd()) {
    return Corrupt("bytes are missing or left over");
  }
  return decoded;
}

}  // namespace holdfast::codec
