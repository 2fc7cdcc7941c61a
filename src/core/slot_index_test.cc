#include "core/slot_index.h"

#include <string>

#include <gtest/gtest.h>

namespace holdfast::core {
namespace {

struct Item {
  std::string name;
  std::uint64_t hash = 0;
};

class SlotIndexTest : public testing::Test {
 protected:
  Slot Add(const std::string& name, std::uint64_t hash) {
    const Slot slot = slab_.Add();
    slab_[slot] = Item{name, hash};
    index_.Insert(hash, slot);
    return slot;
  }
  Slot Find(const std::string& name, std::uint64_t hash) const {
    return index_.Find(hash, [&](const Item& item) { return item.name == name; });
  }

  Slab<Item> slab_;
  SlotIndex<Item> index_{slab_};
};

TEST_F(SlotIndexTest, TellsApartWhatHasTheSameHash) {
  const Slot a = Add("a", 7);
  const Slot b = Add("b", 7);
  EXPECT_EQ(Find("a", 7), a);
  EXPECT_EQ(Find("b", 7), b);
  EXPECT_EQ(Find("c", 7), kNoSlot);
  EXPECT_EQ(Find("a", 8), kNoSlot);
  index_.Erase(7, a);
  EXPECT_EQ(Find("a", 7), kNoSlot);
  EXPECT_EQ(Find("b", 7), b);
  EXPECT_EQ(index_.size(), 1U);
}

TEST_F(SlotIndexTest, FindsEachInEveryShard) {
  for (std::uint64_t i = 0; i < 640; ++i) {
    Add(std::to_string(i), i << 58U | i);
  }
  for (std::uint64_t i = 0; i < 640; ++i) {
    ASSERT_NE(Find(std::to_string(i), i << 58U | i), kNoSlot);
  }
  EXPECT_EQ(index_.size(), 640U);
}

}  // namespace
}  // namespace holdfast::core
