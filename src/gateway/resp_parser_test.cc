#include "gateway/resp_parser.h"

#include <string>

#include <gtest/gtest.h>

namespace holdfast::gateway {
namespace {

using Result = RespParser::Result;
using Words = std::vector<std::string_view>;

TEST(RespParser, ReadsAnArrayOfBulkStrings) {
  const std::string input = "*3\r\n$3\r\nSET\r\n$0\r\n\r\n$4\r\na\r\nb\r\n*1\r\n$4\r\nPING\r\n";
  RespParser parser;
  ASSERT_EQ(parser.Parse(input), Result::kCommand);
  EXPECT_EQ(parser.arguments(), (Words{"SET", "", "a\r\nb"}));
  ASSERT_EQ(parser.Parse(std::string_view(input).substr(parser.consumed())), Result::kCommand);
  EXPECT_EQ(parser.arguments(), Words{"PING"});
}

TEST(RespParser, WaitsForTheRestAtEveryByte) {
  const std::string input = "*2\r\n$4\r\nECHO\r\n$11\r\nhello world\r\n";
  for (std::size_t size = 0; size < input.size(); ++size) {
    RespParser parser;
    EXPECT_EQ(parser.Parse(std::string_view(input).substr(0, size)), Result::kNeedMore) << size;
  }
}

TEST(RespParser, ReadsInlineCommands) {
  RespParser parser;
  ASSERT_EQ(parser.Parse("  PING \t hello\r\nrest"), Result::kCommand);
  EXPECT_EQ(parser.arguments(), (Words{"PING", "hello"}));
  EXPECT_EQ(parser.consumed(), 16U);
  ASSERT_EQ(parser.Parse("\r\n"), Result::kCommand);
  EXPECT_TRUE(parser.arguments().empty());
  ASSERT_EQ(parser.Parse("*0\r\n"), Result::kCommand);
  EXPECT_TRUE(parser.arguments().empty());
  EXPECT_EQ(parser.Parse("PIN"), Result::kNeedMore);
}

struct Bad {
  const char* what;
  std::string input;
};

TEST(RespParser, RefusesWhatIsBrokenOrTooLarge) {
  const Bad bad[] = {
      {"negative count", "*-1\r\n"},
      {"count that is no number", "*x\r\n"},
      {"count above the limit", "*1025\r\n"},
      {"endless count", "*" + std::string(40, '1')},
      {"no bulk string", "*1\r\n:1\r\n"},
      {"negative length", "*1\r\n$-1\r\n"},
      {"length above the limit", "*1\r\n$65537\r\n"},
      {"no end of the bulk string", "*1\r\n$1\r\nabc"},
      {"endless inline command", std::string(5000, 'a')},
      {"too many inline words",
       [] {
         std::string words;
         for (int i = 0; i < 1025; ++i) {
           words += "a ";
         }
         return words + "\n";
       }()},
      {"more bytes than a command may have",
       [] {
         std::string text = "*8\r\n";
         for (int i = 0; i < 8; ++i) {
           text += "$65536\r\n" + std::string(65536, 'x') + "\r\n";
         }
         return text;
       }()},
  };
  for (const Bad& each : bad) {
    RespParser parser;
    EXPECT_EQ(parser.Parse(each.input), Result::kBroken) << each.what;
    EXPECT_STRNE(parser.error(), "") << each.what;
  }
}

}  // namespace
}  // namespace holdfast::gateway
