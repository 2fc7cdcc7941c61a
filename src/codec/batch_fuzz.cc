// Fuzz target: whatever bytes a log entry holds, decoding ends, and what decodes encodes to
// something that decodes again.
#include <cstdint>
#include <cstdlib>

#include "codec/batch_codec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto decoded =
      holdfast::codec::DecodeBatch(std::string_view(reinterpret_cast<const char*>(data), size));
  if (decoded.ok()) {
    holdfast::ByteWriter out;
    holdfast::codec::EncodeBatch(decoded->batch, decoded->feature_level, out);
    if (!holdfast::codec::DecodeBatch(out.bytes()).ok()) {
      std::abort();
    }
  }
  return 0;
}
