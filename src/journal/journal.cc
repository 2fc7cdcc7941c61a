#include "journal/journal.h"

#include <array>

#include "journal/little_endian.h"

namespace holdfast::journal {

// The payload goes in by its own hash, so that it is not copied behind the other fields.
Id128 EntryHash(const Entry& entry) {
  std::array<char, 8 + 8 + 8 + 16 + 4 + 4 + 8 + 16> fields{};
  FixedWriter out(fields.data());
  out.U64(entry.index);
  out.U64(entry.epoch);
  out.I64(entry.time.time_since_epoch().count());
  out.Id(entry.previous_hash);
  out.U32(entry.fragment);
  out.U32(entry.fragments);
  out.U64(entry.payload.size());
  out.Id(Hash128(entry.payload));
  return Hash128(std::string_view(fields.data(), fields.size()));
}

}  // namespace holdfast::journal
