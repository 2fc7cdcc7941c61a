// Batches to bytes and back: the payload of log entries. Format: docs/formats/batch.md.
//
// Pure; any thread. Decoding is bounded by the input: it never reads beyond it, never allocates
// much more than it, and refuses what does not decode completely.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "core/command.h"
#include "holdfast/result.h"

namespace holdfast::codec {

// The format version that this build writes, the only one that it reads.
inline constexpr std::uint32_t kBatchFormat = 1;

// Appends the encoding of the whole batch except its index, which is the log's.
void EncodeBatch(const core::Batch& batch, std::uint32_t feature_level, ByteWriter& out);

// About how many bytes the command takes in a batch; never less than it does.
std::size_t EncodedSizeBound(const core::Command& command);

struct DecodedBatch {
  core::Batch batch;  // `index` is left 0
  std::uint32_t feature_level = 0;
};

// kUnsupported for a newer format or feature level (the log was written by a newer build), kCorrupt
// otherwise.
Result<DecodedBatch> DecodeBatch(std::string_view bytes);

}  // namespace holdfast::codec
