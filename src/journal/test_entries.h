// Entries that continue a chain, for tests.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "journal/chain.h"

namespace holdfast::journal {

// Makes consecutive entries with recognisable payloads.
class EntrySource {
 public:
  EntrySource() = default;
  explicit EntrySource(const ChainEnd& end) : end_(end) {}

  Entry Next(std::size_t payload_bytes) {
    Entry entry;
    entry.index = end_.last.index + 1;
    entry.epoch = std::max<std::uint64_t>(end_.last.epoch, 1);
    entry.time = end_.time + Millis(200);
    entry.previous_hash = end_.last.hash;
    entry.payload = "entry " + std::to_string(entry.index) + " ";
    entry.payload.resize(payload_bytes, static_cast<char>('a' + entry.index % 26));
    Advance(end_, entry);
    return entry;
  }
  std::vector<Entry> Batch(const std::vector<std::size_t>& sizes) {
    std::vector<Entry> entries;
    for (const std::size_t size : sizes) {
      entries.push_back(Next(size));
    }
    return entries;
  }
  const ChainEnd& end() const { return end_; }

 private:
  ChainEnd end_;
};

}  // namespace holdfast::journal
