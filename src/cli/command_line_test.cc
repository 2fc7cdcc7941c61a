#include "cli/command_line.h"

#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace holdfast::cli {
namespace {

// A program with one verb that has an option of each kind.
class CommandLineTest : public testing::Test {
 protected:
  struct Options {
    std::string name;
    std::optional<Duration> ttl;
    std::optional<std::uint64_t> count;
    std::vector<std::uint64_t> sizes;
    std::map<std::string, std::string> metadata;
    std::optional<std::string> color;
    std::vector<std::string> command;
    bool flag = false;
  };

  struct Ran {
    int code = 0;
    std::string out;
    std::string err;
    std::optional<Invocation> invocation;  // the verb was run
    Options options;
  };

  static Ran Run(std::vector<const char*> words) {
    Ran ran;
    CommandLine line;
    line.DescribeGroup("paint", "Group", "Colours.");
    line.OnService("other", "", "Takes a command.")
        .Text("NAME", ran.options.name, "What")
        .Required()
        .Command(ran.options.command)
        .Run([&ran](const Invocation& invocation) {
          ran.invocation = invocation;
          return 6;
        });
    line.OnService("paint wall", "", "Paints.")
        .Text("NAME", ran.options.name, "What")
        .Required()
        .Time("--ttl", ran.options.ttl, "How long")
        .Number("--count", ran.options.count, "How many")
        .Numbers("--sizes", ran.options.sizes, "How large")
        .Pairs("--metadata", ran.options.metadata, "More")
        .Choice("--color", ran.options.color, {"red", "blue"}, "Which")
        .Flag("--flag", ran.options.flag, "Whether")
        .Example("holdfast paint wall north")
        .Exits({kNotAcquired})
        .Run([&ran](const Invocation& invocation) {
          ran.invocation = invocation;
          return 5;
        });
    words.insert(words.begin(), "holdfast");
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    ran.code = line.Run(static_cast<int>(words.size()), words.data());
    ran.out = testing::internal::GetCapturedStdout();
    ran.err = testing::internal::GetCapturedStderr();
    return ran;
  }

  static void ExpectRefused(const std::vector<const char*>& words, const std::string& message) {
    const Ran ran = Run(words);
    EXPECT_EQ(ran.code, kUsage) << ran.err;
    EXPECT_FALSE(ran.invocation.has_value());
    EXPECT_EQ(ran.err, "holdfast: " + message + "\n");
    EXPECT_EQ(ran.out, "");
  }
};

TEST_F(CommandLineTest, ReadsEveryKindOfOption) {
  const Ran ran = Run({"paint",   "wall",         "north",  "--ttl",      "90s",  "--count",
                       "7",       "--sizes",      "1,2",    "--metadata", "a=b",  "--metadata",
                       "c=d=e",   "--color=blue", "--flag", "-o",         "json", "--endpoints",
                       "h:1,i:2", "-n",           "ns",     "--timeout",  "5m"});
  ASSERT_TRUE(ran.invocation.has_value()) << ran.err;
  EXPECT_EQ(ran.code, 5);
  EXPECT_EQ(ran.options.name, "north");
  EXPECT_EQ(ran.options.ttl, Seconds(90));
  EXPECT_EQ(ran.options.count, 7U);
  EXPECT_EQ(ran.options.sizes, (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(ran.options.metadata, (std::map<std::string, std::string>{{"a", "b"}, {"c", "d=e"}}));
  EXPECT_EQ(ran.options.color, "blue");
  EXPECT_TRUE(ran.options.flag);
  EXPECT_EQ(ran.invocation->format, Format::kJson);
  EXPECT_EQ(ran.invocation->connection.endpoints, (std::vector<std::string>{"h:1", "i:2"}));
  EXPECT_EQ(ran.invocation->connection.name_space, "ns");
  EXPECT_EQ(ran.invocation->connection.timeout, Seconds(300));
}

TEST_F(CommandLineTest, HasDefaults) {
  const Ran ran = Run({"paint", "wall", "north"});
  ASSERT_TRUE(ran.invocation.has_value()) << ran.err;
  EXPECT_EQ(ran.invocation->format, Format::kText);
  EXPECT_EQ(ran.invocation->connection.endpoints, std::vector<std::string>{"127.0.0.1:7420"});
  EXPECT_EQ(ran.options.ttl, std::nullopt);
}

TEST_F(CommandLineTest, RefusesTimesThatAreNone) {
  const std::string limit = " (field=ttl, limit=a whole number with a unit: ms, s, m or h)";
  ExpectRefused({"paint", "wall", "n", "--ttl", "30"},
                "ttl \"30\" has no unit: write 30s or 30ms" + limit);
  ExpectRefused({"paint", "wall", "n", "--ttl=-5s"},
                "ttl \"-5s\" is not a duration such as 30s, 500ms, 5m or 1h" + limit);
  ExpectRefused(
      {"paint", "wall", "n", "--ttl", "99999999999999999999s"},
      "ttl \"99999999999999999999s\" is not a duration such as 30s, 500ms, 5m or 1h" + limit);
}

TEST_F(CommandLineTest, RefusesOtherValues) {
  ExpectRefused(
      {"paint", "wall", "n", "--count", "-1"},
      "count \"-1\" is not a whole number from 0 (field=count, limit=a whole number from 0)");
  ExpectRefused({"paint", "wall", "n", "--color", "green"},
                "color \"green\" is not red or blue (field=color, limit=red or blue)");
  ExpectRefused({"paint", "wall", "n", "--metadata", "x"},
                "metadata \"x\" is not KEY=VALUE (field=metadata, limit=KEY=VALUE)");
}

TEST_F(CommandLineTest, ErrorsAreJsonIfThatWasAskedFor) {
  const Ran ran = Run({"paint", "wall", "n", "--ttl", "30", "-o", "json"});
  EXPECT_EQ(ran.code, kUsage);
  EXPECT_EQ(ran.err, "");
  EXPECT_EQ(ran.out.substr(0, 37), R"({"error":{"code":"INVALID_ARGUMENT",")");
}

TEST_F(CommandLineTest, UnknownVerbNamesTheNearest) {
  ExpectRefused({"piant"}, "there is no verb piant; did you mean paint? (see --help)");
}

TEST_F(CommandLineTest, HelpOfAVerbHasExampleAndExitCodes) {
  const Ran ran = Run({"paint", "wall", "--help"});
  EXPECT_EQ(ran.code, kDone);
  for (const char* part : {"Paints.", "--ttl TIME", "Example:\n  holdfast paint wall north\n",
                           "Exit codes:\n  0   done\n", "  75  not acquired"}) {
    EXPECT_NE(ran.out.find(part), std::string::npos) << part << "\n" << ran.out;
  }
}

TEST_F(CommandLineTest, TakesTheWordsOfACommandAsTheyAre) {
  const auto ran =
      Run({"other", "n", "--timeout", "5m", "--", "run", "--timeout", "", "--", "[a,b]"});
  ASSERT_EQ(ran.code, 6) << ran.err;
  EXPECT_EQ(ran.options.name, "n");
  EXPECT_EQ(ran.options.command, (std::vector<std::string>{"run", "--timeout", "", "--", "[a,b]"}));
  EXPECT_EQ(ran.invocation->connection.timeout, Seconds(300));
  EXPECT_EQ(ran.invocation->words.size(), 10u);
  EXPECT_EQ(Run({"other", "--", "run"}).code, kUsage);  // NAME is missing
}

TEST_F(CommandLineTest, AnOptionGoesBeforeTheEnvironment) {
  ASSERT_EQ(setenv("HOLDFAST_ENDPOINTS", "env:1", 1), 0);  // NOLINT(concurrency-mt-unsafe)
  const auto given = Run({"paint", "wall", "n", "--endpoints", "option:2"});
  const auto absent = Run({"paint", "wall", "n"});
  unsetenv("HOLDFAST_ENDPOINTS");  // NOLINT(concurrency-mt-unsafe)
  ASSERT_TRUE(given.invocation.has_value() && absent.invocation.has_value());
  EXPECT_EQ(given.invocation->connection.endpoints, std::vector<std::string>{"option:2"});
  EXPECT_EQ(absent.invocation->connection.endpoints, std::vector<std::string>{"env:1"});
}

}  // namespace
}  // namespace holdfast::cli
