#include "journal/chain.h"

#include <fmt/core.h>

#include "base/check.h"

namespace holdfast::journal {

std::string WhyNotNext(const ChainEnd& end, const Entry& entry) {
  if (entry.index != end.last.index + 1) {
    return fmt::format("entry {} follows entry {}", entry.index, end.last.index);
  }
  if (entry.previous_hash != end.last.hash) {
    return fmt::format("entry {} does not carry the hash of the entry before it", entry.index);
  }
  if (entry.epoch < end.last.epoch) {
    return fmt::format("the epoch falls from {} to {} at entry {}", end.last.epoch, entry.epoch,
                       entry.index);
  }
  if (entry.time < end.time) {
    return fmt::format("state time falls at entry {}", entry.index);
  }
  if (entry.fragment >= entry.fragments) {
    return fmt::format("entry {} is fragment {} of {}", entry.index, entry.fragment,
                       entry.fragments);
  }
  if (entry.payload.empty() || entry.payload.size() > kEntryBytesMax) {
    return fmt::format("entry {} has a payload of {} bytes", entry.index, entry.payload.size());
  }
  return {};
}

void Advance(ChainEnd& end, const Entry& entry) {
  end.last = Position{entry.index, entry.epoch, EntryHash(entry)};
  end.time = entry.time;
}

ChainEnd CheckedAdvance(ChainEnd end, const std::vector<Entry>& entries) {
  for (const Entry& entry : entries) {
    const std::string why = WhyNotNext(end, entry);
    HF_CHECK(why.empty(), why.c_str());
    Advance(end, entry);
  }
  return end;
}

}  // namespace holdfast::journal
