// Objects in chunks, addressed by small integers ("slots"), so that growing never moves or copies
// what is there: a table of a million entries must not stop the engine while it doubles. Slots are
// reused and never observable from outside.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/check.h"

namespace holdfast::core {

using Slot = std::uint32_t;
inline constexpr Slot kNoSlot = 0;

template <typename T>
class Slab {
 public:
  // A fresh, default-constructed object.
  Slot Add() {
    if (!free_.empty()) {
      const Slot slot = free_.back();
      free_.pop_back();
      return slot;
    }
    const Slot slot = ++used_;
    if (slot / kChunk >= chunks_.size()) {
      chunks_.push_back(std::make_unique<Chunk>());
    }
    return slot;
  }
  void Free(Slot slot) {
    (*this)[slot] = T{};
    free_.push_back(slot);
  }
  T& operator[](Slot slot) { return (*chunks_[slot / kChunk])[slot % kChunk]; }
  const T& operator[](Slot slot) const { return (*chunks_[slot / kChunk])[slot % kChunk]; }
  std::size_t size() const { return used_ - free_.size(); }

 private:
  static constexpr Slot kChunk = 1024;
  using Chunk = std::array<T, kChunk>;
  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::vector<Slot> free_;
  Slot used_ = 0;
};

// Ends of a doubly linked list of slots; the links are members of the objects.
struct SlotList {
  Slot first = kNoSlot;
  Slot last = kNoSlot;
  std::uint32_t size = 0;
  bool empty() const { return size == 0; }
};

struct SlotLink {
  Slot previous = kNoSlot;
  Slot next = kNoSlot;
};

template <typename T, SlotLink T::*kLink>
void PushBack(Slab<T>& slab, SlotList& list, Slot slot) {
  SlotLink& link = slab[slot].*kLink;
  link = SlotLink{list.last, kNoSlot};
  if (list.last != kNoSlot) {
    (slab[list.last].*kLink).next = slot;
  } else {
    list.first = slot;
  }
  list.last = slot;
  ++list.size;
}

template <typename T, SlotLink T::*kLink>
void Unlink(Slab<T>& slab, SlotList& list, Slot slot) {
  HF_CHECK(list.size > 0, "unlink from an empty list");
  SlotLink& link = slab[slot].*kLink;
  if (link.previous != kNoSlot) {
    (slab[link.previous].*kLink).next = link.next;
  } else {
    list.first = link.next;
  }
  if (link.next != kNoSlot) {
    (slab[link.next].*kLink).previous = link.previous;
  } else {
    list.last = link.previous;
  }
  link = SlotLink{};
  --list.size;
}

}  // namespace holdfast::core
