// The last transitions of all resources, in one bounded ring: who held what, and how it ended. A
// lock that nobody uses any more costs nothing once its transitions have left the ring. It also
// answers "how did this lease end?" for late releases.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "base/check.h"
#include "base/id.h"
#include "base/time.h"
#include "core/limits.h"
#include "core/outcome.h"
#include "core/slab.h"

namespace holdfast::core {

struct Transition {
  std::uint64_t index = 0;  // of the batch
  WallTime at{};
  Token token = 0;
  Id128 lease_id{};
  std::string owner;
  std::unique_ptr<std::string> reason;  // only for breaks
  std::uint64_t previous = 0;           // position of the resource's transition before, 0: none
  Slot resource = kNoSlot;
  Cause cause = Cause::kNone;  // kAcquired and kHandedOver begin a lease, the others end it
};

class History {
 public:
  bool full() const { return size_ == kTransitionsMax; }
  // The next transition, to be filled; all its fields hold what an older one left there. Not while
  // full. Positions start at 1 and only rise.
  Transition& Add() {
    HF_CHECK(!full(), "the oldest transition is dropped first");
    const std::uint64_t position = first_ + size_++;
    auto& chunk = chunks_[ChunkOf(position)];
    if (chunk == nullptr) {
      chunk = std::make_unique<Chunk>();
    }
    return (*chunk)[position % kChunk];
  }
  bool Has(std::uint64_t position) const { return position >= first_ && position < first_ + size_; }
  const Transition& At(std::uint64_t position) const {
    return (*chunks_[ChunkOf(position)])[position % kChunk];
  }
  std::size_t size() const { return size_; }
  std::uint64_t first() const { return first_; }
  std::uint64_t last() const { return first_ + size_ - 1; }
  // Removes the oldest, and gives the resource that it belonged to.
  Slot DropOldest() {
    const Slot resource = At(first_).resource;
    ++first_;
    --size_;
    return resource;
  }
  void Restore(std::uint64_t first) { first_ = first; }

 private:
  static constexpr std::uint64_t kChunk = 1024;
  static constexpr std::uint64_t kChunks = kTransitionsMax / kChunk;
  static_assert(kTransitionsMax % kChunk == 0);
  using Chunk = std::array<Transition, kChunk>;
  static std::uint64_t ChunkOf(std::uint64_t position) { return position / kChunk % kChunks; }

  // A ring in chunks, so that growing moves nothing; what is dropped is written over.
  std::array<std::unique_ptr<Chunk>, kChunks> chunks_;
  std::uint64_t first_ = 1;
  std::size_t size_ = 0;
};

}  // namespace holdfast::core
