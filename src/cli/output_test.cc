#include "cli/output.h"

#include <string>

#include <gtest/gtest.h>

namespace holdfast::cli {
namespace {

Object Answer() {
  return {
      {"outcome", "HELD"},
      {"holder",
       Object{{"owner", "a\nb"}, {"lease_left_ms", std::int64_t{1250}}, {"metadata", Object{}}}},
      {"retry_after_ms", std::uint64_t{61'000}},
      {"limit", ""},
      {"revoking", false},
      {"queue", std::vector<Object>{{{"owner", "x"}, {"wait_ms", 5}}, {{"owner", "yy"}}}}};
}

std::string Printed(Format format, const Object& answer) {
  testing::internal::CaptureStdout();
  Print(format, answer);
  return testing::internal::GetCapturedStdout();
}

TEST(Output, JsonKeepsOrderAndUnits) {
  EXPECT_EQ(Printed(Format::kJson, Answer()),
            R"({"outcome":"HELD","holder":{"owner":"a\nb","lease_left_ms":1250,"metadata":{}},)"
            R"("retry_after_ms":61000,"limit":"","revoking":false,)"
            R"("queue":[{"owner":"x","wait_ms":5},{"owner":"yy"}]})"
            "\n");
}

TEST(Output, TextShowsDurationsTablesAndNoControlCharacters) {
  EXPECT_EQ(Printed(Format::kText, Answer()),
            "outcome      HELD\n"
            "holder:\n"
            "  owner       a\\x0ab\n"
            "  lease_left  1.25s\n"
            "retry_after  1m 1s\n"
            "revoking     no\n"
            "queue:\n"
            "  owner  wait\n"
            "  x      5ms\n"
            "  yy\n");
}

TEST(Output, JsonOfBytesThatAreNoUtf8) {
  EXPECT_EQ(ToJson({{"owner", std::string("\xff")}}), "{\"owner\":\"\xef\xbf\xbd\"}");
}

TEST(Output, LineLeavesOutWhatSaysNothing) {
  const Object item = {{"kind", "GRANTED"},
                       {"resource", "a"},
                       {"value", ""},
                       {"detached", false},
                       {"token", Token(7)}};
  EXPECT_EQ(ToLine(item), "GRANTED  a  token=7");
  EXPECT_EQ(ToLine({{"kind", "GAP"}, {"resource", ""}, {"index", 9}}), "GAP  index=9");
}

TEST(Output, ErrorNamesFieldAndLimit) {
  const Error error = InvalidArgument("ttl", "1s to 10s", "ttl is 1ms");
  testing::internal::CaptureStderr();
  PrintError(Format::kText, error);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "holdfast: ttl is 1ms (field=ttl, limit=1s to 10s)\n");
  testing::internal::CaptureStdout();
  PrintError(Format::kJson, error, {{"request_id", "r"}});
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            R"({"error":{"code":"INVALID_ARGUMENT","message":"ttl is 1ms","field":"ttl",)"
            R"("limit":"1s to 10s"},"request_id":"r"})"
            "\n");
}

TEST(Output, Durations) {
  EXPECT_EQ(ShowDuration(Millis(0)), "0ms");
  EXPECT_EQ(ShowDuration(Millis(999)), "999ms");
  EXPECT_EQ(ShowDuration(Seconds(30)), "30s");
  EXPECT_EQ(ShowDuration(Millis(29'980)), "29.98s");
  EXPECT_EQ(ShowDuration(Seconds(3605)), "1h 0m");
}

TEST(Output, Times) {
  EXPECT_EQ(ShowTime(WallTime(Millis(1'769'860'800'250))), "2026-01-31T12:00:00.250Z");
}

TEST(Output, WriteFileNamesTheFile) {
  const Status status = WriteFile("/nowhere/at/all", "x");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
  EXPECT_NE(status.error().message.find("/nowhere/at/all"), std::string::npos);
}

}  // namespace
}  // namespace holdfast::cli
