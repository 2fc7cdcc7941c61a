// Finds objects of a slab by key. Holds only slots, so a look-up touches little memory beside the
// object itself; the key and its hash (`T::hash`) stay in the object. Many small tables instead of
// one: growing one of them is short, and a table of a million entries must not stop the engine
// while it doubles.
#pragma once

#include <array>
#include <cstdint>

#include "absl/container/flat_hash_set.h"
#include "core/slab.h"

namespace holdfast::core {

template <typename T>
class SlotIndex {
 public:
  // `slab` must outlive the index.
  explicit SlotIndex(const Slab<T>& slab) : shards_(MakeShards(slab)) {}

  // The object with this hash for which `matches(object)` is true; kNoSlot without one.
  template <typename Matches>
  Slot Find(std::uint64_t hash, const Matches& matches) const {
    const Shard& shard = shards_[hash >> 58U];
    const auto found = shard.find(Probe<Matches>{hash, matches});
    return found == shard.end() ? kNoSlot : *found;
  }
  // The object's key and hash do not change while it is in the index.
  void Insert(std::uint64_t hash, Slot slot) {
    shards_[hash >> 58U].insert(slot);
    ++size_;
  }
  void Erase(std::uint64_t hash, Slot slot) {
    shards_[hash >> 58U].erase(slot);
    --size_;
  }
  std::size_t size() const { return size_; }

 private:
  template <typename Matches>
  struct Probe {
    std::uint64_t hash;
    const Matches& matches;
  };
  struct Hash {
    using is_transparent = void;
    const Slab<T>* slab;
    std::size_t operator()(Slot slot) const { return (*slab)[slot].hash; }
    template <typename Matches>
    std::size_t operator()(const Probe<Matches>& probe) const {
      return probe.hash;
    }
  };
  struct Equal {
    using is_transparent = void;
    const Slab<T>* slab;
    bool operator()(Slot a, Slot b) const { return a == b; }
    template <typename Matches>
    bool operator()(Slot a, const Probe<Matches>& probe) const {
      const T& object = (*slab)[a];
      return object.hash == probe.hash && probe.matches(object);
    }
  };
  using Shard = absl::flat_hash_set<Slot, Hash, Equal>;
  static constexpr std::size_t kShards = 64;  // by the six highest bits of the hash

  static std::array<Shard, kShards> MakeShards(const Slab<T>& slab) {
    std::array<Shard, kShards> shards;
    shards.fill(Shard(0, Hash{&slab}, Equal{&slab}));
    return shards;
  }

  std::array<Shard, kShards> shards_;
  std::size_t size_ = 0;
};

}  // namespace holdfast::core
