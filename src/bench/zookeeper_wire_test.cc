#include "bench/zookeeper_wire.h"

#include <initializer_list>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace holdfast::bench {
namespace {

using namespace std::string_view_literals;

// xid 7, zxid 2, error 0, and the path /a.
constexpr std::string_view kCreated =
    "\0\0\0\x16\0\0\0\x07\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x02/a"sv;

std::string Children(std::initializer_list<std::string_view> names) {
  std::string body = {'\0', '\0', '\0', static_cast<char>(names.size())};
  for (const std::string_view name : names) {
    body += {'\0', '\0', '\0', static_cast<char>(name.size())};
    body += name;
  }
  return body;
}

TEST(ZooKeeperWire, ARequestIsAFrameOfBigEndianFields) {
  std::string out;
  AppendDelete(out, 258, "/a");
  EXPECT_EQ(out, "\0\0\0\x12\0\0\x01\x02\0\0\0\x02\0\0\0\x02/a\xff\xff\xff\xff"sv);
}

TEST(ZooKeeperWire, RequestsFollowEachOther) {
  std::string both;
  AppendGetChildren(both, 1, "/a");
  const std::size_t first = both.size();
  AppendCreate(both, 2, "/a/b-", NodeKind::kEphemeralSequential);
  std::string second;
  AppendCreate(second, 2, "/a/b-", NodeKind::kEphemeralSequential);
  EXPECT_EQ(both.substr(first), second);
  EXPECT_EQ(second.back(), '\x03') << "the flags come last";
}

TEST(ZooKeeperWire, TakesOneReplyAfterTheOther) {
  const std::string two = std::string(kCreated) + std::string(kCreated) + "rest";
  std::string_view in = two;
  for (int i = 0; i < 2; ++i) {
    const auto reply = TakeZooKeeperReply(in);
    ASSERT_TRUE(reply.ok() && reply->has_value());
    EXPECT_EQ((*reply)->xid, 7);
    EXPECT_EQ((*reply)->error, zookeeper_error::kNone);
    EXPECT_EQ(CreatedPath((*reply)->body), "/a");
  }
  EXPECT_EQ(in, "rest");
}

TEST(ZooKeeperWire, WaitsForTheRestOfAReply) {
  for (std::size_t size = 0; size < kCreated.size(); ++size) {
    std::string_view in = kCreated.substr(0, size);
    const auto reply = TakeZooKeeperReply(in);
    ASSERT_TRUE(reply.ok()) << size;
    EXPECT_FALSE(reply->has_value()) << size;
    EXPECT_EQ(in.size(), size);
  }
}

TEST(ZooKeeperWire, RefusesWhatIsNoReply) {
  for (std::string_view in : {"\xff\xff\xff\xff"sv, "HTTP/1.1 400"sv, "\0\0\0\x02\0\0"sv}) {
    const auto reply = TakeZooKeeperReply(in);
    ASSERT_FALSE(reply.ok());
    EXPECT_EQ(reply.error().code, ErrorCode::kInternal);
  }
  EXPECT_EQ(CreatedPath("\0\0\0\x09/a"sv), "") << "a string that is longer than its frame";
}

TEST(ZooKeeperWire, TheLowestChildIsTheOneWithTheLowestSequenceNumber) {
  const std::string children = Children({"bb-lock-0000000012", "aa-lock-0000000013"});
  EXPECT_TRUE(IsLowestChild(children, "/lock/bb-lock-0000000012"));
  EXPECT_FALSE(IsLowestChild(children, "/lock/aa-lock-0000000013"));
  EXPECT_TRUE(IsLowestChild(Children({"bb-lock-0000000012"}), "/lock/bb-lock-0000000012"));
}

TEST(ZooKeeperWire, AChildThatIsNotThereOwnsNothing) {
  EXPECT_FALSE(IsLowestChild(Children({}), "/lock/bb-lock-0000000012"));
  EXPECT_FALSE(IsLowestChild(Children({"aa-lock-0000000013"}), "/lock/bb-lock-0000000012"));
  const std::string cut = Children({"bb-lock-0000000012"}).substr(0, 12);
  EXPECT_FALSE(IsLowestChild(cut, "/lock/bb-lock-0000000012"));
}

TEST(ZooKeeperWire, NamesErrors) {
  EXPECT_EQ(ZooKeeperErrorName(zookeeper_error::kNoNode), "NO_NODE");
  EXPECT_EQ(ZooKeeperErrorName(-112), "SESSION_EXPIRED");
  EXPECT_EQ(ZooKeeperErrorName(-999), "ERROR-999");
}

}  // namespace
}  // namespace holdfast::bench
