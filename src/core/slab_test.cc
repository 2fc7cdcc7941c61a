#include "core/slab.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace holdfast::core {
namespace {

struct Item {
  std::string name;
  SlotLink link;
};

std::vector<std::string> Names(const Slab<Item>& slab, const SlotList& list) {
  std::vector<std::string> forward;
  for (Slot slot = list.first; slot != kNoSlot; slot = slab[slot].link.next) {
    forward.push_back(slab[slot].name);
  }
  std::vector<std::string> backward;
  for (Slot slot = list.last; slot != kNoSlot; slot = slab[slot].link.previous) {
    backward.insert(backward.begin(), slab[slot].name);
  }
  EXPECT_EQ(forward, backward);
  EXPECT_EQ(forward.size(), list.size);
  return forward;
}

TEST(Slab, GrowingMovesNothingAndNoSlotIsZero) {
  Slab<Item> slab;
  const Slot first = slab.Add();
  slab[first].name = "first";
  const Item* address = &slab[first];
  for (int i = 0; i < 5000; ++i) {
    EXPECT_NE(slab.Add(), kNoSlot);
  }
  EXPECT_EQ(&slab[first], address);
  EXPECT_EQ(slab[first].name, "first");
  EXPECT_EQ(slab.size(), 5001U);
}

TEST(Slab, AReusedSlotIsFresh) {
  Slab<Item> slab;
  const Slot slot = slab.Add();
  slab[slot].name = "old";
  slab.Free(slot);
  EXPECT_EQ(slab.size(), 0U);
  EXPECT_EQ(slab.Add(), slot);
  EXPECT_EQ(slab[slot].name, "");
}

TEST(SlotList, KeepsOrderWhenFrontMiddleAndBackLeave) {
  Slab<Item> slab;
  SlotList list;
  std::vector<Slot> slots;
  for (const char* name : {"a", "b", "c", "d"}) {
    slots.push_back(slab.Add());
    slab[slots.back()].name = name;
    PushBack<Item, &Item::link>(slab, list, slots.back());
  }
  EXPECT_EQ(Names(slab, list), (std::vector<std::string>{"a", "b", "c", "d"}));
  Unlink<Item, &Item::link>(slab, list, slots[1]);
  EXPECT_EQ(Names(slab, list), (std::vector<std::string>{"a", "c", "d"}));
  Unlink<Item, &Item::link>(slab, list, slots[0]);
  EXPECT_EQ(Names(slab, list), (std::vector<std::string>{"c", "d"}));
  Unlink<Item, &Item::link>(slab, list, slots[3]);
  EXPECT_EQ(Names(slab, list), (std::vector<std::string>{"c"}));
  PushBack<Item, &Item::link>(slab, list, slots[1]);
  EXPECT_EQ(Names(slab, list), (std::vector<std::string>{"c", "b"}));
  Unlink<Item, &Item::link>(slab, list, slots[2]);
  Unlink<Item, &Item::link>(slab, list, slots[1]);
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list.first, kNoSlot);
  EXPECT_EQ(list.last, kNoSlot);
}

}  // namespace
}  // namespace holdfast::core
