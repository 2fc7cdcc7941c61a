#include "gateway/resp_verbs.h"

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "gateway/resp_session.h"

namespace holdfast::gateway {
namespace {

using Words = std::vector<std::string_view>;

constexpr const char* kLease = "0123456789abcdef0123456789abcdef";

Result<RespRequest> Read(const char* name, const Words& arguments) {
  return ReadCall(*FindVerb(name), arguments, "me");
}

template <typename Body>
Body CommandOf(const Result<RespRequest>& call) {
  return std::get<Body>(std::get<core::Command>(call.value().request).body);
}

std::string Written(core::Outcome outcome, int version, const std::string& request_id = {}) {
  engine::Reply reply;
  reply.answer = std::move(outcome);
  std::string out;
  RespWriter writer(out, version);
  WriteReply(*FindVerb("HOLDFAST.ACQUIRE"), request_id, reply, writer);
  return out;
}

TEST(RespVerbs, AcquireWithEveryOption) {
  const auto call =
      Read("holdfast.acquire", {"orders/1", "ttl",    "5000", "WAIT", "250", "OWNER",     "o",
                                "REQUEST",  "r1",     "META", "b",    "2",   "META",      "a",
                                "1",        "CLIENT", "c",    "7",    "5",   "NAMESPACE", "shop"});
  ASSERT_TRUE(call.ok()) << call.error().message;
  const auto& command = std::get<core::Command>(call->request);
  EXPECT_EQ(command.principal, "me");
  EXPECT_EQ(command.name_space, "shop");
  const auto& acquire = CommandOf<core::Acquire>(call);
  EXPECT_EQ(acquire.resource, "orders/1");
  EXPECT_EQ(acquire.ttl, Seconds(5));
  EXPECT_EQ(acquire.wait, Millis(250));
  EXPECT_EQ(acquire.owner, "o");
  EXPECT_EQ(acquire.request_id, "r1");
  EXPECT_EQ(acquire.metadata, (std::vector<core::MetadataEntry>{{"a", "1"}, {"b", "2"}}));
  EXPECT_EQ(acquire.client.client_id, "c");
  EXPECT_EQ(acquire.client.sequence, 7U);
  EXPECT_EQ(acquire.client.answered_below, 5U);
  EXPECT_TRUE(call->waits);
  EXPECT_FALSE(call->async);
}

TEST(RespVerbs, ARequestIdIsMadeWhereNoneIsGiven) {
  const auto one = Read("HOLDFAST.ACQUIRE", {"a"});
  const auto two = Read("HOLDFAST.ACQUIRE", {"a"});
  EXPECT_EQ(one->request_id.size(), 32U);
  EXPECT_EQ(one->request_id, CommandOf<core::Acquire>(one).request_id);
  EXPECT_NE(one->request_id, two->request_id);
}

TEST(RespVerbs, EveryVerbReadsItsArguments) {
  EXPECT_EQ(CommandOf<core::Renew>(Read("HOLDFAST.RENEW", {"a", kLease})).resource, "a");
  EXPECT_EQ(ToHex(CommandOf<core::Release>(Read("HOLDFAST.RELEASE", {"a", kLease})).lease_id),
            kLease);
  EXPECT_EQ(ToHex(CommandOf<core::Release>(Read("HOLDFAST.RESIGN", {"a", kLease})).lease_id),
            kLease);
  EXPECT_EQ(CommandOf<core::Proclaim>(Read("HOLDFAST.PROCLAIM", {"a", kLease, "v"})).value, "v");
  EXPECT_EQ(CommandOf<core::Cancel>(Read("HOLDFAST.CANCEL", {"a", "r", "OWNER", "o"})).owner, "o");
  const auto& broken =
      CommandOf<core::Break>(Read("HOLDFAST.BREAK", {"a", "REASON", "why", "NOW", "UNSAFE"}));
  EXPECT_TRUE(broken.reason == "why" && broken.now && broken.unsafe && !broken.dry_run);
  EXPECT_EQ(CommandOf<core::OpenSession>(Read("HOLDFAST.SESSION.OPEN", {"TTL", "2000"})).ttl,
            Seconds(2));
  EXPECT_EQ(
      ToHex(CommandOf<core::KeepAlive>(Read("HOLDFAST.SESSION.KEEPALIVE", {kLease})).session_id),
      kLease);
  EXPECT_EQ(
      ToHex(CommandOf<core::CloseSession>(Read("HOLDFAST.SESSION.CLOSE", {kLease})).session_id),
      kLease);
  const auto campaign = Read("HOLDFAST.CAMPAIGN", {"a", "VALUE", "here"});
  EXPECT_TRUE(CommandOf<core::Acquire>(campaign).campaign);
  EXPECT_EQ(CommandOf<core::Acquire>(campaign).value, "here");
  const auto check = Read("HOLDFAST.CHECK", {"a", "42"});
  EXPECT_EQ(std::get<core::CheckToken>(std::get<core::Query>(check->request)).token, 42U);
  const auto list = Read("HOLDFAST.LIST", {"PREFIX", "p", "LIMIT", "5"});
  EXPECT_EQ(std::get<core::List>(std::get<core::Query>(list->request)).page_size, 5U);
}

struct Refusal {
  const char* verb;
  Words arguments;
  const char* field;
};

TEST(RespVerbs, RefusesWithFieldAndLimit) {
  const Refusal refusals[] = {
      {"HOLDFAST.ACQUIRE", {}, "arguments"},
      {"HOLDFAST.ACQUIRE", {"UPPER"}, "resource"},
      {"HOLDFAST.ACQUIRE", {"a", "TTL"}, "ttl"},
      {"HOLDFAST.ACQUIRE", {"a", "TTL", "0"}, "ttl"},
      {"HOLDFAST.ACQUIRE", {"a", "TTL", "-5"}, "ttl"},
      {"HOLDFAST.ACQUIRE", {"a", "TTL", "1e3"}, "ttl"},
      {"HOLDFAST.ACQUIRE", {"a", "TTL", "99999999999999999999"}, "ttl"},
      {"HOLDFAST.ACQUIRE", {"a", "TTL", "5000", "SESSION", kLease}, "ttl"},
      {"HOLDFAST.ACQUIRE", {"a", "SESSION", "xyz"}, "session_id"},
      {"HOLDFAST.ACQUIRE", {"a", "TTX", "1"}, "TTX"},
      {"HOLDFAST.ACQUIRE", {"a", "NAMESPACE", "No"}, "namespace"},
      {"HOLDFAST.RENEW", {"a"}, "arguments"},
      {"HOLDFAST.RENEW", {"a", "0"}, "lease_id"},
      {"HOLDFAST.RENEW", {"a", kLease, "x"}, "x"},
      {"HOLDFAST.CHECK", {"a", "one"}, "fencing_token"},
      {"HOLDFAST.BREAK", {"a"}, "reason"},
  };
  for (const Refusal& refusal : refusals) {
    const auto call = Read(refusal.verb, refusal.arguments);
    ASSERT_FALSE(call.ok()) << refusal.verb << " " << refusal.field;
    EXPECT_EQ(call.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(call.error().field, refusal.field) << call.error().message;
    EXPECT_NE(call.error().limit, "") << call.error().message;
  }
}

TEST(RespVerbs, AGrantIsAMapInVersion3AndFlatInVersion2) {
  core::Granted granted;
  granted.lease_id = *ParseId(kLease);
  granted.token = 42;
  granted.ttl = Seconds(30);
  granted.remaining = Millis(29'990);
  const std::string body =
      "$7\r\noutcome\r\n$7\r\nGRANTED\r\n$13\r\nfencing_token\r\n:42\r\n$8\r\nlease_id\r\n$32\r\n" +
      std::string(kLease) +
      "\r\n$6\r\nttl_ms\r\n:30000\r\n$12\r\nremaining_ms\r\n:29990\r\n$9\r\nguarantee\r\n$"
      "8\r\nADVISORY\r\n"
      "$10\r\nrequest_id\r\n$1\r\nr\r\n";
  EXPECT_EQ(Written(granted, 2, "r"), "*14\r\n" + body);
  EXPECT_EQ(Written(granted, 3, "r"), "%7\r\n" + body);
}

TEST(RespVerbs, ARefusalNamesTheHolder) {
  core::Refused refused;
  refused.code = core::RefusalCode::kHeld;
  refused.queue_length = 3;
  refused.retry_after = Seconds(1);
  refused.holder = std::make_unique<core::HolderView>();
  refused.holder->owner = "you";
  const std::string text = Written(std::move(refused), 3);
  EXPECT_NE(text.find("$4\r\nHELD\r\n"), std::string::npos) << text;
  EXPECT_NE(text.find("$12\r\nholder_owner\r\n$3\r\nyou\r\n"), std::string::npos) << text;
  EXPECT_NE(text.find("$14\r\nretry_after_ms\r\n:1000\r\n"), std::string::npos) << text;
}

TEST(RespVerbs, ErrorsAreOneLineWithFieldAndLimit) {
  std::string out;
  RespWriter writer(out, 2);
  WriteError(InvalidArgument("ttl", "1 s .. 10 min", "ttl is\r\ntoo long"), writer);
  EXPECT_EQ(out, "-INVALIDARG ttl is  too long (field ttl, limit: 1 s .. 10 min)\r\n");
  EXPECT_NE(Written(core::NoSuchNamespace{}, 2).find("-NOTFOUND "), std::string::npos);
}

class RespSessionTest : public ::testing::Test {
 protected:
  explicit RespSessionTest(bool open = true) {
    server::AuthenticatorOptions options;
    if (!open) {
      server::Identity identity;
      identity.name = "svc";
      identity.token_sha256 =  // of "secret"
          "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
      options.identities = {identity};
    }
    authenticator_ = std::make_unique<server::Authenticator>(
        std::move(server::Authenticator::Create(options).value()));
    if (open) {
      session_.caller = *authenticator_->Authenticate({});
    }
  }

  std::string Ask(const Words& words) {
    std::string out;
    EXPECT_TRUE(AnswerSessionCommand(*authenticator_, words, session_, out));
    return out;
  }

  std::unique_ptr<server::Authenticator> authenticator_;
  RespSession session_;
};

TEST_F(RespSessionTest, AnswersWhatClientsAsk) {
  EXPECT_EQ(Ask({"ping"}), "+PONG\r\n");
  EXPECT_EQ(Ask({"PING", "hi"}), "$2\r\nhi\r\n");
  EXPECT_EQ(Ask({"ECHO", "hi"}), "$2\r\nhi\r\n");
  EXPECT_EQ(Ask({"CLIENT", "SETNAME", "worker"}), "+OK\r\n");
  EXPECT_EQ(Ask({"CLIENT", "GETNAME"}), "$6\r\nworker\r\n");
  EXPECT_EQ(Ask({"SELECT", "0"}), "+OK\r\n");
  EXPECT_EQ(Ask({"SELECT", "1"}).substr(0, 4), "-ERR");
  EXPECT_EQ(Ask({"AUTH", "x"}).substr(0, 4), "-ERR");
  EXPECT_NE(Ask({"INFO"}).find("loading:0"), std::string::npos);
  EXPECT_EQ(Ask({"COMMAND", "COUNT"}), ":" + std::to_string(AllVerbs().size()) + "\r\n");
  EXPECT_NE(Ask({"COMMAND"}).find("holdfast.acquire"), std::string::npos);
  EXPECT_EQ(Ask({"COMMAND", "INFO", "nothing"}), "*1\r\n$-1\r\n");
  EXPECT_EQ(Ask({"QUIT"}), "+OK\r\n");
  EXPECT_TRUE(session_.quit);
  std::string out;
  EXPECT_FALSE(AnswerSessionCommand(*authenticator_, {"GET", "x"}, session_, out));
  EXPECT_EQ(out, "");
}

TEST_F(RespSessionTest, HelloChangesTheVersion) {
  EXPECT_EQ(Ask({"HELLO"}).substr(0, 3), "*14");
  EXPECT_EQ(Ask({"HELLO", "3", "SETNAME", "n"}).substr(0, 2), "%7");
  EXPECT_EQ(session_.version, 3);
  EXPECT_EQ(session_.name, "n");
  EXPECT_EQ(Ask({"HELLO", "4"}).substr(0, 8), "-NOPROTO");
  EXPECT_EQ(session_.version, 3);
}

class ClosedRespSessionTest : public RespSessionTest {
 protected:
  ClosedRespSessionTest() : RespSessionTest(false) {}
};

TEST_F(ClosedRespSessionTest, NothingWithoutAToken) {
  EXPECT_EQ(Ask({"PING"}).substr(0, 7), "-NOAUTH");
  EXPECT_EQ(Ask({"HELLO", "3"}).substr(0, 7), "-NOAUTH");
  EXPECT_EQ(session_.version, 2);
  EXPECT_EQ(Ask({"AUTH", "wrong"}).substr(0, 10), "-WRONGPASS");
  EXPECT_EQ(session_.caller, nullptr);
  EXPECT_EQ(Ask({"HELLO", "3", "AUTH", "any", "secret"}).substr(0, 2), "%7");
  ASSERT_NE(session_.caller, nullptr);
  EXPECT_EQ(session_.caller->principal, "svc");
  EXPECT_EQ(Ask({"PING"}), "+PONG\r\n");
}

}  // namespace
}  // namespace holdfast::gateway
