#include "core/validate.h"

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/limits.h"

namespace holdfast::core {
namespace {

std::string Repeated(std::size_t count, char c = 'a') {
  return std::string(count, c);
}

// "ok", or the field and what it may be.
std::string Verdict(const Status& status) {
  if (status.ok()) {
    return "ok";
  }
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(status.error().limit.empty()) << status.error().message;
  for (const char c : status.error().message) {
    EXPECT_TRUE(c >= ' ' && c <= '~')
        << "a message must be safe to print: " << status.error().message;
  }
  return status.error().field;
}

Command Of(CommandBody body) {
  return Command{"tester", "default", std::move(body)};
}

Acquire GoodAcquire() {
  Acquire acquire;
  acquire.resource = "a";
  acquire.request_id = "r1";
  return acquire;
}

TEST(Validate, ResourceNames) {
  for (const std::string& name : std::vector<std::string>{"a", "0", "a.b_c:d/e-f", "a/.../b",
                                                          "a/..b", "a.", "a-", Repeated(255)}) {
    EXPECT_TRUE(ValidateResource(name).ok()) << name;
  }
  for (const std::string& name :
       std::vector<std::string>{"",      "A",          "aB",   "-a",       ".a",
                                "_a",    ":a",         "/a",   "a/",       "a//b",
                                "a/./b", "a/../b",     "a/..", "a/.",      "a b",
                                "a\tb",  "a\n",        "a%b",  "\xc3\xa9", std::string("a\0b", 3),
                                "a\\b",  Repeated(256)}) {
    EXPECT_EQ(Verdict(ValidateResource(name)), "resource") << name;
  }
}

TEST(Validate, NamespaceNames) {
  for (const std::string& name : std::vector<std::string>{"a", "0-9", "default", Repeated(63)}) {
    EXPECT_TRUE(ValidateNamespace(name).ok()) << name;
  }
  for (const std::string& name :
       std::vector<std::string>{"", "A", "-a", "a.b", "a/b", "a_b", "a b", "\x7f", Repeated(64)}) {
    EXPECT_EQ(Verdict(ValidateNamespace(name)), "namespace") << name;
  }
}

TEST(Validate, RequestIds) {
  for (const std::string& id : std::vector<std::string>{"!", "~", "a B"}) {
    EXPECT_EQ(ValidateRequestId(id).ok(), id.find(' ') == std::string::npos) << id;
  }
  EXPECT_TRUE(ValidateRequestId(Repeated(64)).ok());
  for (const std::string& id : std::vector<std::string>{"", Repeated(65), "a\x7f", "a\x1b",
                                                        "\xc3\xa9", std::string("a\0", 2)}) {
    EXPECT_EQ(Verdict(ValidateRequestId(id)), "request_id") << id;
  }
}

// Text for people, on the example of the owner (at most 128 bytes).
TEST(Validate, TextIsUtf8WithoutControls) {
  const auto verdict = [](const std::string& owner) {
    Acquire acquire = GoodAcquire();
    acquire.owner = owner;
    return Verdict(Validate(Of(acquire)));
  };
  for (const std::string& text :
       std::vector<std::string>{"", "plain text", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x94\x92",
                                "\xc2\xa0", "\xed\x9f\xbf", "\xee\x80\x80", "\xf4\x8f\xbf\xbf",
                                Repeated(128), Repeated(126) + "\xc3\xa9"}) {
    EXPECT_EQ(verdict(text), "ok") << text;
  }
  for (const std::string& text : std::vector<std::string>{"\n",
                                                          "\t",
                                                          "\x1b[31m",
                                                          "\x7f",
                                                          std::string(1, '\0'),  // controls
                                                          "\xc2\x80",
                                                          "\xc2\x9b"
                                                          "31m",
                                                          "\xc2\x9f",  // controls above ASCII
                                                          "\x80",
                                                          "\xbf",
                                                          "\xc3",
                                                          "\xe2\x82",
                                                          "\xf0\x9f\x94",  // alone or cut off
                                                          "\xc0\x80",
                                                          "\xc1\xbf",
                                                          "\xe0\x9f\xbf",
                                                          "\xf0\x8f\xbf\xbf",  // longer than needed
                                                          "\xed\xa0\x80",
                                                          "\xf4\x90\x80\x80",
                                                          "\xf5\x80\x80\x80",
                                                          "\xff",
                                                          "\xfe",
                                                          "\xc3(",
                                                          Repeated(129),
                                                          Repeated(127) + "\xc3\xa9"}) {
    EXPECT_EQ(verdict(text), "owner") << text;
  }
}

struct BadCase {
  const char* name;
  std::function<void(Acquire&)> spoil;
  std::string field;
};

TEST(Validate, AcquireNamesTheFieldThatIsWrong) {
  const std::vector<BadCase> cases = {
      {"resource", [](Acquire& a) { a.resource = "A"; }, "resource"},
      {"no request id", [](Acquire& a) { a.request_id.clear(); }, "request_id"},
      {"owner too long", [](Acquire& a) { a.owner = Repeated(129); }, "owner"},
      {"negative ttl", [](Acquire& a) { a.ttl = Duration(-1); }, "ttl"},
      {"smallest ttl", [](Acquire& a) { a.ttl = Duration::min(); }, "ttl"},
      {"ttl with a session", [](Acquire& a) { a.ttl = Seconds(5), a.session[0] = 1; }, "ttl"},
      {"negative wait", [](Acquire& a) { a.wait = Seconds(-1); }, "wait"},
      {"value too long", [](Acquire& a) { a.value = Repeated(1025); }, "value"},
      {"value with a control", [](Acquire& a) { a.value = "\x01"; }, "value"},
      {"client without a sequence", [](Acquire& a) { a.client.client_id = "c"; },
       "client.sequence"},
      {"client id too long",
       [](Acquire& a) {
         a.client = ClientContext{Repeated(65), 1, 0};
       },
       "client.client_id"},
      {"client id with a space",
       [](Acquire& a) {
         a.client = ClientContext{"a b", 1, 0};
       },
       "client.client_id"},
      {"empty key",
       [](Acquire& a) {
         a.metadata = {{"", "x"}};
       },
       "metadata"},
      {"key twice",
       [](Acquire& a) {
         a.metadata = {{"k", "x"}, {"k", "y"}};
       },
       "metadata"},
      {"value with a control",
       [](Acquire& a) {
         a.metadata = {{"k", "\n"}};
       },
       "metadata"},
      {"key with a control",
       [](Acquire& a) {
         a.metadata = {{"k\n", ""}};
       },
       "metadata"},
      {"too many bytes",
       [](Acquire& a) {
         a.metadata = {{"k", Repeated(1024)}};
       },
       "metadata"},
      {"too many bytes in all",
       [](Acquire& a) {
         a.metadata = {{"k", Repeated(600)}, {"l", Repeated(600)}};
       },
       "metadata"},
      {"too many entries",
       [](Acquire& a) {
         for (char c = 'a'; c <= 'q'; ++c) {
           a.metadata.push_back({std::string(1, c), ""});
         }
       },
       "metadata"},
  };
  for (const BadCase& bad : cases) {
    Acquire acquire = GoodAcquire();
    bad.spoil(acquire);
    EXPECT_EQ(Verdict(Validate(Of(acquire))), bad.field) << bad.name;
  }
}

TEST(Validate, AcquireAtEveryLimit) {
  Acquire acquire = GoodAcquire();
  acquire.resource = Repeated(255);
  acquire.request_id = Repeated(64);
  acquire.owner = Repeated(128);
  acquire.value = Repeated(1024);
  acquire.wait = Duration::max();
  acquire.ttl = Duration::max();
  acquire.client = ClientContext{Repeated(64), 1, ~std::uint64_t{0}};
  for (char c = 'a'; c <= 'p'; ++c) {
    acquire.metadata.push_back({std::string(1, c), Repeated(63)});
  }
  EXPECT_EQ(Verdict(Validate(Of(acquire))), "ok");
}

TEST(Validate, OtherCommands) {
  struct Case {
    const char* name;
    Command command;
    std::string field;
  };
  const std::string long_principal = Repeated(256);
  Command no_namespace = Of(Renew{"a", {}});
  no_namespace.name_space.clear();
  Command principal_too_long = Of(Renew{"a", {}});
  principal_too_long.principal = long_principal;
  const std::vector<Case> cases = {
      {"renew", Of(Renew{"a", {}}), "ok"},
      {"renew without a name", Of(Renew{"", {}}), "resource"},
      {"release of a bad name", Of(Release{"a//b", {}}), "resource"},
      {"no namespace", no_namespace, "namespace"},
      {"principal", principal_too_long, "principal"},
      {"cancel", Of(Cancel{"a", "r", "o", {}}), "ok"},
      {"cancel without an id", Of(Cancel{"a", "", "o", {}}), "request_id"},
      {"cancel of a bad owner", Of(Cancel{"a", "r", "\n", {}}), "owner"},
      {"cancel of a bad client", Of(Cancel{"a", "r", "", {"c", 0, 0}}), "client.sequence"},
      {"break", Of(Break{"a", "why", false, false, false}), "ok"},
      {"break without a reason", Of(Break{"a", "", false, false, false}), "reason"},
      {"break with a long reason", Of(Break{"a", Repeated(257), false, false, false}), "reason"},
      {"break with the longest reason", Of(Break{"a", Repeated(256), false, false, false}), "ok"},
      {"proclaim", Of(Proclaim{"a", {}, Repeated(1024)}), "ok"},
      {"proclaim too much", Of(Proclaim{"a", {}, Repeated(1025)}), "value"},
      {"session", Of(OpenSession{"r", "o", Seconds(5), {}, {}}), "ok"},
      {"session without an id", Of(OpenSession{"", "o", Seconds(5), {}, {}}), "request_id"},
      {"session with a negative ttl", Of(OpenSession{"r", "o", Seconds(-5), {}, {}}), "ttl"},
      {"session of a long owner", Of(OpenSession{"r", Repeated(129), {}, {}, {}}), "owner"},
      {"namespace", Command{"p", "", ChangeNamespace{NamespaceVerb::kSet, "UP", {}}}, "namespace"},
      {"epoch", Command{"", "", EpochStart{1, Seconds(60)}}, "ok"},
      {"epoch with a long grace", Command{"", "", EpochStart{1, Seconds(61)}}, "failover_grace"},
      {"epoch with a negative grace", Command{"", "", EpochStart{1, Seconds(-1)}},
       "failover_grace"},
      {"level 0", Command{"", "", SetFeatureLevel{0}}, "level"},
      {"level of the future", Command{"", "", SetFeatureLevel{kFeatureLevelMax + 1}}, "level"},
      {"recovery", Command{"", "", RecoverState{kTokenMax, Seconds(1)}}, "ok"},
      {"recovery beyond the tokens", Command{"", "", RecoverState{kTokenMax + 1, Seconds(1)}},
       "token_floor"},
      {"recovery with a negative block", Command{"", "", RecoverState{1, Seconds(-1)}}, "block"},
      {"recovery for ever", Command{"", "", RecoverState{1, Duration::max()}}, "block"},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(Verdict(Validate(one.command)), one.field) << one.name;
  }
}

TEST(Validate, Queries) {
  EXPECT_EQ(Verdict(Validate(Query(Describe{"default", "a"}))), "ok");
  EXPECT_EQ(Verdict(Validate(Query(Describe{"", "a"}))), "namespace");
  EXPECT_EQ(Verdict(Validate(Query(Describe{"default", "A"}))), "resource");
  EXPECT_EQ(Verdict(Validate(Query(List{"default", "", 1000, ""}))), "ok");
  EXPECT_EQ(Verdict(Validate(Query(List{"default", Repeated(256), 0, ""}))), "prefix");
  EXPECT_EQ(Verdict(Validate(Query(List{"default", "", 1001, ""}))), "page_size");
  EXPECT_EQ(Verdict(Validate(Query(List{"default", "", 0, Repeated(256)}))), "page_token");
  EXPECT_EQ(Verdict(Validate(Query(CheckToken{"default", "a", kTokenMax + 1}))), "fencing_token");
  EXPECT_EQ(Verdict(Validate(Query(Leader{"default", ""}))), "resource");
  EXPECT_EQ(Verdict(Validate(Query(DescribeSession{"d d", {}}))), "namespace");
  EXPECT_EQ(Verdict(Validate(Query(GetNamespace{""}))), "namespace");
  EXPECT_EQ(Verdict(Validate(Query(ListNamespaces{}))), "ok");
}

TEST(ValidatePolicy, EveryField) {
  struct Case {
    const char* name;
    std::function<void(Policy&)> change;
    std::string field;
  };
  const Duration day = Seconds(86'400);
  const std::vector<Case> cases = {
      {"ttl_min", [](Policy& p) { p.ttl_min = Millis(99); }, "ttl_min"},
      {"ttl_min at its limit", [](Policy& p) { p.ttl_min = Millis(100); }, "ok"},
      {"ttl_max below ttl_min", [](Policy& p) { p.ttl_max = Millis(999); }, "ttl_max"},
      {"ttl_max", [=](Policy& p) { p.ttl_max = day + Duration(1); }, "ttl_max"},
      {"ttl_max at its limit", [=](Policy& p) { p.ttl_max = day; }, "ok"},
      {"ttl_default below", [](Policy& p) { p.ttl_default = Millis(999); }, "ttl_default"},
      {"ttl_default above", [](Policy& p) { p.ttl_default = Seconds(601); }, "ttl_default"},
      {"hold_max", [](Policy& p) { p.hold_max = Duration(-1); }, "hold_max"},
      {"hold_max too long", [=](Policy& p) { p.hold_max = 30 * day + Duration(1); }, "hold_max"},
      {"wait_max", [=](Policy& p) { p.wait_max = day + Duration(1); }, "wait_max"},
      {"negative wait_max", [](Policy& p) { p.wait_max = Duration(-1); }, "wait_max"},
      {"waiters_per_resource", [](Policy& p) { p.waiters_per_resource = 100'001; },
       "waiters_per_resource"},
      {"no waiters", [](Policy& p) { p.waiters_per_resource = 0; }, "ok"},
      {"waiters_per_tenant", [](Policy& p) { p.waiters_per_tenant = 1'000'001; },
       "waiters_per_tenant"},
      {"no holds", [](Policy& p) { p.holds_per_tenant = 0; }, "holds_per_tenant"},
      {"holds_per_tenant", [](Policy& p) { p.holds_per_tenant = 1'000'001; }, "holds_per_tenant"},
      {"sessions_per_tenant", [](Policy& p) { p.sessions_per_tenant = 1'000'001; },
       "sessions_per_tenant"},
      {"lock_delay", [](Policy& p) { p.lock_delay = Seconds(601); }, "lock_delay"},
      {"negative lock_delay", [](Policy& p) { p.lock_delay = Seconds(-1); }, "lock_delay"},
      {"request_memory", [](Policy& p) { p.request_memory = Millis(999); }, "request_memory"},
      {"request_memory too long", [=](Policy& p) { p.request_memory = day + Duration(1); },
       "request_memory"},
      {"request_bytes", [](Policy& p) { p.request_bytes_per_tenant = 65'535; },
       "request_bytes_per_tenant"},
      {"request_bytes too many",
       [](Policy& p) { p.request_bytes_per_tenant = (std::uint64_t{16} << 30U) + 1; },
       "request_bytes_per_tenant"},
      {"detach_grace", [](Policy& p) { p.detach_grace = Seconds(601); }, "detach_grace"},
      {"negative detach_grace", [](Policy& p) { p.detach_grace = Seconds(-1); }, "detach_grace"},
  };
  EXPECT_EQ(Verdict(ValidatePolicy(Policy{})), "ok");
  for (const Case& one : cases) {
    Policy policy;
    one.change(policy);
    EXPECT_EQ(Verdict(ValidatePolicy(policy)), one.field) << one.name;
  }
}

TEST(ValidateAgainst, TheLimitsOfThePolicy) {
  const Policy policy;
  const auto acquire = [&](Duration ttl, Duration wait) {
    Acquire body = GoodAcquire();
    body.ttl = ttl;
    body.wait = wait;
    return Verdict(ValidateAgainst(policy, Of(body)));
  };
  EXPECT_EQ(acquire(Duration{}, Duration{}), "ok");
  EXPECT_EQ(acquire(policy.ttl_min, policy.wait_max), "ok");
  EXPECT_EQ(acquire(policy.ttl_max, Duration{}), "ok");
  EXPECT_EQ(acquire(policy.ttl_min - Duration(1), Duration{}), "ttl");
  EXPECT_EQ(acquire(policy.ttl_max + Duration(1), Duration{}), "ttl");
  EXPECT_EQ(acquire(Duration{}, policy.wait_max + Duration(1)), "wait");
  EXPECT_EQ(Verdict(ValidateAgainst(
                policy, Of(OpenSession{"r", "", policy.ttl_max + Duration(1), {}, {}}))),
            "ttl");
  EXPECT_EQ(Verdict(ValidateAgainst(policy, Of(OpenSession{"r", "", Duration{}, {}, {}}))), "ok");
}

}  // namespace
}  // namespace holdfast::core
