#include "server/config.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "server/config_values.h"

namespace holdfast::server {
namespace {

class ConfigTest : public testing::Test {
 protected:
  ~ConfigTest() override { std::filesystem::remove(path_); }

  Result<Config> Load(const std::string& text, const std::vector<std::string>& overrides = {}) {
    std::ofstream(path_) << text;
    return LoadConfig(path_, overrides);
  }
  Error Refused(const std::string& text) {
    const auto config = Load(text);
    EXPECT_FALSE(config.ok()) << text;
    return config.ok() ? Error{} : config.error();
  }

  const std::string path_ = testing::TempDir() + "config." +
                            testing::UnitTest::GetInstance()->current_test_info()->name() + ".toml";
};

TEST_F(ConfigTest, DefaultsNeedNoFile) {
  const auto config = LoadConfig("", {});
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(*config, Config());
}

TEST_F(ConfigTest, ReadsEveryKindOfValue) {
  const auto config = Load(R"(
data_dir = "data"
insecure = true
listen = "0.0.0.0:0"
tick = "50ms"
segment_bytes = "1MiB"
queue_max = 1000
[keepalive]
time = "1m"
[[identity]]
name = "ops"
role = "admin"
token_sha256 = "aa"
namespaces = ["a", "b"]
[[identity]]
name = "reader"
token_file = "t"
)");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->data_dir, "data");
  EXPECT_TRUE(config->insecure);
  EXPECT_EQ(config->tick, Millis(50));
  EXPECT_EQ(config->segment_bytes, 1U << 20U);
  EXPECT_EQ(config->queue_max, 1000U);
  EXPECT_EQ(config->keepalive_time, Seconds(60));
  ASSERT_EQ(config->identities.size(), 2U);
  EXPECT_EQ(config->identities[0], (Identity{"ops", Role::kAdmin, "aa", "", {"a", "b"}}));
  EXPECT_EQ(config->identities[1], (Identity{"reader", Role::kUser, "", "t", {}}));
}

TEST_F(ConfigTest, FlagsOverrideTheFile) {
  const auto config = Load("tick = \"50ms\"\nqueue_max = 1000",
                           {"tick=100ms", "keepalive.timeout=3s", "data_dir=a=b"});
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->tick, Millis(100));
  EXPECT_EQ(config->queue_max, 1000U);
  EXPECT_EQ(config->keepalive_timeout, Seconds(3));
  EXPECT_EQ(config->data_dir, "a=b");
}

TEST_F(ConfigTest, UnknownKeysNameTheNearest) {
  const Error error = Refused("segment_byte = 1");
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(error.field, "segment_byte");
  EXPECT_NE(error.message.find("did you mean segment_bytes?"), std::string::npos) << error.message;
  EXPECT_NE(Refused("[keepalive]\ntimout = \"1s\"").message.find("did you mean keepalive.timeout?"),
            std::string::npos);
  EXPECT_NE(Refused("[[identity]]\ntoken = \"x\"").message.find("token_file"), std::string::npos);
  const auto flag = LoadConfig("", {"lisen=x"});
  ASSERT_FALSE(flag.ok());
  EXPECT_NE(flag.error().message.find("did you mean listen?"), std::string::npos);
  EXPECT_FALSE(LoadConfig("", {"listen"}).ok());
}

TEST_F(ConfigTest, RangesAreCheckedWithFieldAndLimit) {
  struct Case {
    const char* text;
    const char* field;
    const char* limit;
  };
  for (const Case& bad :
       {Case{"tick = \"1ms\"", "tick", "10ms .. 500ms"},
        Case{"tick = \"1s\"", "tick", "10ms .. 500ms"},
        Case{"tick = 200", "tick", "10ms .. 500ms"},
        Case{"tick = \"-1s\"", "tick", "10ms .. 500ms"},
        Case{"segment_bytes = \"1KiB\"", "segment_bytes", "64KiB .. 1GiB"},
        Case{"segment_bytes = \"99999999999GiB\"", "segment_bytes", "64KiB .. 1GiB"},
        Case{"queue_max = 1", "queue_max", "64 .. 10000000"},
        Case{"queue_max = -5", "queue_max", "64 .. 10000000"},
        Case{"queue_max = \"1k\"", "queue_max", "64 .. 10000000"},
        Case{"insecure = 1", "insecure", "true or false"},
        Case{"tick = [1]", "tick", "a string, a number or a boolean"},
        Case{"log_level = \"loud\"", "log_level", "debug, info, warning or error"},
        Case{"listen = \"host\"", "listen", "HOST:PORT"},
        Case{"listen = \"host:65536\"", "listen", "HOST:PORT"},
        Case{"listen = \":1\"", "listen", "HOST:PORT"},
        Case{"http_listen = \"host\"", "http_listen", "HOST:PORT"},
        Case{"http_listen = \"10.0.0.1:80\"", "http_listen",
             "a loopback address, or tls.cert and tls.key, or insecure"},
        Case{"[http]\nbody_bytes = \"1GiB\"", "http.body_bytes", "1KiB .. 4MiB"},
        Case{"[[identity]]\nrole = \"root\"", "identity.role", "admin or user"},
        Case{"[[identity]]\nnamespaces = \"a\"", "identity.namespaces", "a list of names"},
        Case{"identity = 1", "identity", "tables [[identity]]"}}) {
    const Error error = Refused(bad.text);
    EXPECT_EQ(error.code, ErrorCode::kInvalidArgument) << bad.text;
    EXPECT_EQ(error.field, bad.field) << bad.text;
    EXPECT_EQ(error.limit, bad.limit) << bad.text;
  }
}

TEST_F(ConfigTest, SyntaxErrorsNameTheLine) {
  EXPECT_NE(Refused("tick = \"50ms\"\nlisten = ").message.find(path_ + ":2"), std::string::npos);
  const auto missing = LoadConfig(path_ + ".not-there", {});
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kIo);
}

TEST_F(ConfigTest, AReachableListenerNeedsTlsAndNames) {
  EXPECT_EQ(Refused("listen = \"0.0.0.0:1\"").field, "listen");
  EXPECT_TRUE(Load("listen = \"0.0.0.0:1\"\ninsecure = true").ok());
  const std::string tls = "listen = \"0.0.0.0:1\"\n[tls]\ncert = \"c\"\nkey = \"k\"\n";
  EXPECT_NE(Refused(tls).message.find("identities"), std::string::npos);
  EXPECT_TRUE(Load(tls + "client_ca = \"ca\"").ok());
  EXPECT_TRUE(Load(tls + "[[identity]]\nname = \"a\"").ok());
  EXPECT_EQ(Refused("[tls]\ncert = \"c\"").field, "tls.key");
  EXPECT_EQ(Refused("[tls]\nclient_ca = \"c\"").field, "tls.client_ca");
}

TEST_F(ConfigTest, ThePrintedConfigurationLoadsBack) {
  Config config;
  EXPECT_EQ(*Load(PrintConfig(config)), config);
  config.data_dir = "with \"quotes\" and \\ and \n";
  config.tls_cert = "c";
  config.tls_key = "k";
  config.tick = Millis(10);
  config.batch_bytes = 65'537;
  config.audit_renewals = true;
  config.max_calls = 7;
  config.identities = {{"ops", Role::kAdmin, "aa", "", {}},
                       {"reader", Role::kUser, "", "t", {"a", "b"}}};
  const auto loaded = Load(PrintConfig(config));
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(*loaded, config);
}

TEST_F(ConfigTest, EveryPrintedOptionHasAMeaning) {
  const std::string text = PrintConfig(Config());
  std::string before;
  int options = 0;
  std::size_t start = 0;
  while (start < text.size()) {
    const std::size_t end = text.find('\n', start);
    const std::string line = text.substr(start, end - start);
    start = end + 1;
    if (line.find(" = ") != std::string::npos && line[0] != '#') {
      ++options;
      EXPECT_EQ(before.rfind("# ", 0), 0U) << line;
    }
    before = line;
  }
  EXPECT_GT(options, 15);
  EXPECT_LT(options, 60);
}

TEST_F(ConfigTest, ReadsAndPrintsUnits) {
  EXPECT_EQ(ParseDuration("1500us"), Duration(1'500'000));
  EXPECT_EQ(ParseDuration("0"), Duration(0));
  EXPECT_EQ(ParseDuration("5"), std::nullopt);
  EXPECT_EQ(ParseDuration("5 s"), std::nullopt);
  EXPECT_EQ(ParseDuration("99999999999999h"), std::nullopt);
  EXPECT_EQ(FormatDuration(Seconds(7200)), "2h");
  EXPECT_EQ(FormatDuration(Millis(1500)), "1500ms");
  EXPECT_EQ(ParseBytes("3KiB"), 3072U);
  EXPECT_EQ(ParseBytes("3KB"), std::nullopt);
  EXPECT_EQ(FormatBytes(std::uint64_t{3} << 30U), "3GiB");
  EXPECT_EQ(FormatBytes(1025), "1025");
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3U);
  EXPECT_EQ(EditDistance("", "abc"), 3U);
}

}  // namespace
}  // namespace holdfast::server
