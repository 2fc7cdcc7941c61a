#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "server/call.h"
#include "server/mailbox.h"
#include "server/request_table.h"

namespace holdfast::server {
namespace {

// The table only keeps the address of the call.
RequestTable::Request RequestOf(int& place, std::uint32_t cookie) {
  return {.call = reinterpret_cast<Call*>(&place), .cookie = cookie};
}

TEST(RequestTableTest, FindsEachRequestOnce) {
  RequestTable table;
  int place = 0;
  const std::uint64_t first = table.Add(RequestOf(place, 7));
  const std::uint64_t second = table.Add(RequestOf(place, 8));
  EXPECT_NE(first, 0U);
  EXPECT_NE(first, second);
  EXPECT_EQ(table.size(), 2U);
  EXPECT_EQ(table.Remove(first)->cookie, 7U);
  EXPECT_FALSE(table.Remove(first).has_value());
  EXPECT_EQ(table.Tags(), std::vector<std::uint64_t>{second});
  EXPECT_EQ(table.size(), 1U);
}

TEST(RequestTableTest, ATagIsNeverUsedAgain) {
  RequestTable table;
  int place = 0;
  const std::uint64_t old = table.Add(RequestOf(place, 1));
  table.Remove(old);
  const std::uint64_t reused = table.Add(RequestOf(place, 2));
  EXPECT_NE(old, reused);
  EXPECT_FALSE(table.Remove(old).has_value());
  EXPECT_EQ(table.Remove(reused)->cookie, 2U);
  EXPECT_FALSE(table.Remove(12345).has_value());
}

std::vector<engine::Reply> Replies(std::uint64_t tag) {
  std::vector<engine::Reply> replies(1);
  replies.front().tag = tag;
  return replies;
}

TEST(MailboxTest, RingsOnceUntilItWasHeard) {
  int rings = 0;
  Mailbox mailbox([&] { ++rings; });
  std::thread([&] {
    mailbox.PostReplies(Replies(1));
    mailbox.PostReplies(Replies(2));
    mailbox.PostWake(5);
  }).join();
  EXPECT_EQ(rings, 1);
  const auto letters = mailbox.Take();
  ASSERT_EQ(letters.replies.size(), 2U);
  EXPECT_EQ(letters.replies[1].tag, 2U);
  EXPECT_EQ(letters.wakes, std::vector<std::uint64_t>{5});
  EXPECT_TRUE(mailbox.Take().empty());
  mailbox.PostStop();
  EXPECT_EQ(rings, 1) << "the first ring was not heard yet";
  mailbox.OnRung();
  mailbox.PostClose();
  EXPECT_EQ(rings, 2);
  const auto end = mailbox.Take();
  EXPECT_TRUE(end.stop);
  EXPECT_TRUE(end.close);
}

TEST(MailboxTest, ItsReaderNeedsNoRing) {
  int rings = 0;
  Mailbox mailbox([&] { ++rings; });
  mailbox.SetReader();
  mailbox.PostWake(1);
  EXPECT_EQ(rings, 0);
  EXPECT_FALSE(mailbox.Take().empty());
  std::thread([&] { mailbox.PostWake(1); }).join();
  EXPECT_EQ(rings, 1);
}

TEST(MailboxTest, IsSilentWhenClosed) {
  int rings = 0;
  Mailbox mailbox([&] { ++rings; });
  mailbox.Close();
  mailbox.PostReplies(Replies(1));
  EXPECT_EQ(rings, 0);
  EXPECT_TRUE(mailbox.Take().empty());
}

}  // namespace
}  // namespace holdfast::server
