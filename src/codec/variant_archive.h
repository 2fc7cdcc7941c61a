// Variants as a tag (the alternative's place, from 1) and the fields of that alternative.
#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>

#include "base/archive.h"

namespace holdfast::codec {

template <typename Variant>
void WriteVariant(ArchiveWriter& writer, const Variant& variant) {
  writer(static_cast<std::uint64_t>(variant.index() + 1));
  std::visit([&](const auto& alternative) { writer(alternative); }, variant);
}

// False if the tag is unknown or the fields do not decode.
template <typename Variant, std::size_t kIndex = 0>
bool ReadAlternative(std::uint64_t tag, ArchiveReader& reader, Variant& variant) {
  if constexpr (kIndex == std::variant_size_v<Variant>) {
    return false;
  } else {
    if (tag != kIndex + 1) {
      return ReadAlternative<Variant, kIndex + 1>(tag, reader, variant);
    }
    reader(variant.template emplace<kIndex>());
    return reader.ok();
  }
}

template <typename Variant>
bool ReadVariant(ArchiveReader& reader, Variant& variant) {
  std::uint64_t tag = 0;
  reader(tag);
  return reader.ok() && ReadAlternative(tag, reader, variant);
}

}  // namespace holdfast::codec
