// The parts of the HTTP front that need no socket: paths, queries, problems, JSON, metrics.
#include <set>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "holdfast/v1/admin.pb.h"
#include "holdfast/v1/locks.pb.h"
#include "server/http_message.h"
#include "server/http_routes.h"

namespace holdfast::server {
namespace {

using nlohmann::json;

TEST(HttpRoutesTest, EveryVerbOfTheApiHasOnePath) {
  std::set<std::string> paths;
  std::set<std::string> verbs;
  for (const HttpRoute& route : HttpRoutes()) {
    EXPECT_TRUE(paths.insert(route.path).second) << route.path;
    EXPECT_TRUE(verbs.insert(route.verb).second) << route.verb;
    EXPECT_TRUE(route.get || route.post) << route.path;
    EXPECT_EQ(FindHttpRoute(route.path), &route);
  }
  for (const auto* file :
       {v1::AcquireRequest::descriptor()->file(), v1::GetStatusRequest::descriptor()->file()}) {
    for (int i = 0; i < file->service(0)->method_count(); ++i) {
      EXPECT_EQ(verbs.count(file->service(0)->method(i)->name()), 1U)
          << file->service(0)->method(i)->full_name();
    }
  }
  EXPECT_EQ(FindHttpRoute("/v1/locks/acquire/"), nullptr);
  EXPECT_EQ(FindHttpRoute(""), nullptr);
}

TEST(HttpRoutesTest, WhatChangesSomethingIsNotAGet) {
  for (const HttpRoute& route : HttpRoutes()) {
    if (route.kind == HttpRoute::Kind::kVerb && route.access == Access::kAdmin) {
      EXPECT_FALSE(route.get) << route.path;
    }
  }
  for (const char* path : {"/v1/locks/acquire", "/v1/locks/renew", "/v1/locks/release",
                           "/v1/locks/cancel", "/v1/sessions/open", "/v1/sessions/keep-alive",
                           "/v1/sessions/close", "/v1/elections/campaign", "/v1/elections/resign",
                           "/v1/elections/proclaim", "/v1/sessions/describe"}) {
    ASSERT_NE(FindHttpRoute(path), nullptr) << path;
    EXPECT_FALSE(FindHttpRoute(path)->get) << path;
  }
}

TEST(HttpMessageTest, AQueryIsAnObjectOfStrings) {
  EXPECT_EQ(*QueryToJson("/p"), "{}");
  EXPECT_EQ(*QueryToJson("/p?"), "{}");
  EXPECT_EQ(json::parse(*QueryToJson("/p?resource=a%2Fb&prefix=x+y&exact=true&empty=&none")),
            json({{"resource", "a/b"},
                  {"prefix", "x y"},
                  {"exact", "true"},
                  {"empty", ""},
                  {"none", ""}}));
  EXPECT_EQ(json::parse(*QueryToJson("/p?a=%22%5c%00%0A")),
            json({{"a", std::string("\"\\\0\n", 4)}}));
}

TEST(HttpMessageTest, BadQueriesAreRefused) {
  for (const char* target : {"/p?a=%", "/p?a=%2", "/p?a=%zz", "/p?a=%-1", "/p?%g0=a"}) {
    EXPECT_EQ(QueryToJson(target).error().field, "query") << target;
  }
  EXPECT_EQ(QueryToJson("/p?a=1&a=2").error().field, "a");
  EXPECT_EQ(QueryToJson("/p?a=1&%61=2").error().field, "a");
  EXPECT_EQ(QueryToJson("/p?a=%ff").error().limit, "UTF-8");
}

TEST(HttpMessageTest, ContentTypes) {
  for (const char* type : {"application/json", "Application/JSON",
                           "application/json; charset=utf-8", "application/json ;x"}) {
    EXPECT_TRUE(IsJson(type)) << type;
  }
  for (const char* type : {"", "text/plain", "application/jsonp", "application/jso", "json",
                           "application/x-www-form-urlencoded"}) {
    EXPECT_FALSE(IsJson(type)) << type;
  }
}

TEST(HttpMessageTest, AProblemNamesFieldAndLimit) {
  const HttpResponse response = ProblemResponse(InvalidArgument("ttl", "1s .. 600s", "too long"));
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.content_type, "application/problem+json");
  EXPECT_EQ(json::parse(response.body),
            json({{"type", "urn:problem-type:holdfast:invalid-argument"},
                  {"title", "Invalid argument"},
                  {"status", 400},
                  {"detail", "too long"},
                  {"reason", "INVALID_ARGUMENT"},
                  {"field", "ttl"},
                  {"limit", "1s .. 600s"}}));
}

TEST(HttpMessageTest, EachErrorHasAStatus) {
  const auto status = [](ErrorCode code) { return ProblemResponse({code, "m", "", ""}).status; };
  EXPECT_EQ(status(ErrorCode::kUnauthenticated), 401);
  EXPECT_EQ(status(ErrorCode::kPermissionDenied), 403);
  EXPECT_EQ(status(ErrorCode::kNotFound), 404);
  EXPECT_EQ(status(ErrorCode::kAlreadyExists), 409);
  EXPECT_EQ(status(ErrorCode::kUnsupported), 409);
  EXPECT_EQ(status(ErrorCode::kOverloaded), 429);
  EXPECT_EQ(status(ErrorCode::kUnavailable), 503);
  EXPECT_EQ(status(ErrorCode::kDiskFull), 503);
  EXPECT_EQ(status(ErrorCode::kUnknownOutcome), 500);
  EXPECT_EQ(status(ErrorCode::kInternal), 500);
}

TEST(HttpMessageTest, WhatMayBeAskedAgainSaysWhen) {
  const HttpResponse response = ProblemResponse({ErrorCode::kOverloaded, "m", "", ""});
  EXPECT_EQ(json::parse(response.body)["retry_after"], "0.100s");
  ASSERT_EQ(response.headers.size(), 1U);
  EXPECT_EQ(response.headers.front(), std::pair(std::string("Retry-After"), std::string("1")));
  EXPECT_EQ(ProblemResponse({ErrorCode::kUnauthenticated, "m", "", ""}).headers.front().first,
            "WWW-Authenticate");
}

TEST(HttpMessageTest, AProblemIsJsonWhateverItRepeats) {
  const HttpResponse response = ProblemResponse(InvalidArgument("f", "l", "\xff\"\n"));
  EXPECT_TRUE(json::accept(response.body));
}

TEST(HttpMessageTest, AResponseHasItsLengthAndSaysWhetherItIsTheLast) {
  HttpResponse response;
  response.body = "{}";
  response.headers.emplace_back("Allow", "GET");
  EXPECT_EQ(Serialize(response),
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
            "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nAllow: GET\r\n"
            "Connection: keep-alive\r\n\r\n{}");
  response.close = true;
  EXPECT_NE(Serialize(response).find("\r\nConnection: close\r\n\r\n{}"), std::string::npos);
}

TEST(HttpMessageTest, Dates) {
  EXPECT_EQ(HttpDate(WallTime(Seconds(784'111'777) + Millis(999))),
            "Sun, 06 Nov 1994 08:49:37 GMT");
}

TEST(HttpJsonTest, ErrorsNameTheField) {
  const auto field = [](const std::string& text) {
    v1::AcquireRequest request;
    const Status status = JsonToMessage(text, request);
    return status.ok() ? std::string("none") : status.error().field;
  };
  EXPECT_EQ(field(R"({"resource":"a","ttl":"1.5s","client":{"sequence":"7"}})"), "none");
  EXPECT_EQ(field(R"({"requestId":"camel case is the mapping's other spelling"})"), "none");
  EXPECT_EQ(field(R"({"resourc":"a"})"), "resourc");
  EXPECT_EQ(field(R"({"client":{"no":1}})"), "client.no");
  EXPECT_EQ(field(R"({"client":{"sequence":-5}})"), "client.sequence");
  EXPECT_EQ(field(R"({"ttl":"5x"})"), "ttl");
  EXPECT_EQ(field(R"({"ttl":5})"), "ttl");
  EXPECT_EQ(field(R"({"resource":5})"), "resource");
  for (const char* text : {"", "{", "[]", "null", "\"a\"", "{} {}", "{'resource':'a'}",
                           "{resource:\"a\"}", "{\"resource\":\"\xff\"}"}) {
    EXPECT_EQ(field(text), "body") << text;
  }
  EXPECT_EQ(field(std::string(100'000, '[')), "body");
  EXPECT_EQ(field(R"({"metadata":)" + std::string(50'000, '[') + std::string(50'000, ']') + "}"),
            "body");
}

TEST(HttpJsonTest, AnswersShowWhatIsFalse) {
  v1::ReleaseResponse response;
  response.set_resource("a");
  EXPECT_EQ(json::parse(MessageToJson(response)),
            json({{"released", false}, {"cause", "CAUSE_UNSPECIFIED"}, {"resource", "a"}}));
  v1::AcquireResponse acquired;
  acquired.mutable_granted()->set_fencing_token((std::uint64_t{1} << 53U) - 1);
  EXPECT_EQ(json::parse(MessageToJson(acquired))["granted"]["fencing_token"], "9007199254740991");
}

}  // namespace
}  // namespace holdfast::server
