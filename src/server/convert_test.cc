#include "server/convert.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "holdfast/v1/admin.pb.h"
#include "holdfast/v1/elections.pb.h"
#include "holdfast/v1/locks.pb.h"
#include "holdfast/v1/sessions.pb.h"
#include "holdfast/v1/stream.pb.h"

namespace holdfast::server {
namespace {

const std::string kId = "00112233445566778899aabbccddeeff";
const std::string kPrincipal = "tester";

engine::Reply ReplyOf(core::Outcome&& outcome) {
  engine::Reply reply;
  reply.answer = std::move(outcome);
  reply.index = 17;
  return reply;
}

engine::Reply ReplyOf(core::View&& view) {
  engine::Reply reply;
  reply.answer = std::move(view);
  reply.index = 17;
  return reply;
}

engine::Reply ReplyOf(Error error) {
  engine::Reply reply;
  reply.answer = std::move(error);
  return reply;
}

template <typename Body>
Body BodyOf(Result<EngineRequest>&& request) {
  return std::get<Body>(std::move(std::get<core::Command>(*request).body));
}

v1::AcquireRequest GoodAcquire() {
  v1::AcquireRequest request;
  request.set_resource("jobs/1");
  return request;
}

// ---------------------------------------------------------------- what is refused, field by field

struct BadAcquire {
  const char* name;
  const char* field;
  std::function<void(v1::AcquireRequest&)> spoil;
};

class BadAcquireTest : public testing::TestWithParam<BadAcquire> {};

TEST_P(BadAcquireTest, NamesFieldAndLimit) {
  v1::AcquireRequest request = GoodAcquire();
  GetParam().spoil(request);
  const auto read = kAcquire.read(request, kPrincipal);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(read.error().field, GetParam().field);
  EXPECT_NE(read.error().limit, "");
  EXPECT_NE(read.error().message, "");
}

void AddMetadata(v1::AcquireRequest& request, int entries, std::size_t bytes) {
  for (int i = 0; i < entries; ++i) {
    (*request.mutable_metadata())["key" + std::to_string(i)] = std::string(bytes, 'v');
  }
}

const std::vector<BadAcquire> kBadAcquires{
    {"ResourceEmpty", "resource", [](auto& r) { r.clear_resource(); }},
    {"ResourceUpperCase", "resource", [](auto& r) { r.set_resource("Jobs"); }},
    {"ResourceTooLong", "resource", [](auto& r) { r.set_resource(std::string(256, 'a')); }},
    {"ResourceDots", "resource", [](auto& r) { r.set_resource("a/../b"); }},
    {"ResourceControlByte", "resource", [](auto& r) { r.set_resource("a\nb"); }},
    {"NamespaceCharset", "namespace", [](auto& r) { r.set_namespace_("no_underscore"); }},
    {"NamespaceTooLong", "namespace", [](auto& r) { r.set_namespace_(std::string(64, 'a')); }},
    {"RequestIdTooLong", "request_id", [](auto& r) { r.set_request_id(std::string(65, 'a')); }},
    {"RequestIdSpace", "request_id", [](auto& r) { r.set_request_id("a b"); }},
    {"OwnerTooLong", "owner", [](auto& r) { r.set_owner(std::string(129, 'a')); }},
    {"OwnerControlByte", "owner", [](auto& r) { r.set_owner("a\x07"); }},
    {"TtlNegative", "ttl", [](auto& r) { r.mutable_ttl()->set_seconds(-1); }},
    {"TtlZero", "ttl", [](auto& r) { r.mutable_ttl(); }},
    {"TtlNanosTooLarge", "ttl", [](auto& r) { r.mutable_ttl()->set_nanos(1'000'000'000); }},
    {"TtlNanosNegative", "ttl",
     [](auto& r) {
       r.mutable_ttl()->set_seconds(5);
       r.mutable_ttl()->set_nanos(-1);
     }},
    {"TtlWithSession", "ttl",
     [](auto& r) {
       r.mutable_ttl()->set_seconds(5);
       r.set_session_id(kId);
     }},
    {"SessionNotHex", "session_id", [](auto& r) { r.set_session_id("xyz"); }},
    {"SessionUpperCase", "session_id",
     [](auto& r) { r.set_session_id("00112233445566778899AABBCCDDEEFF"); }},
    {"SessionAllZero", "session_id", [](auto& r) { r.set_session_id(std::string(32, '0')); }},
    {"WaitNegative", "wait", [](auto& r) { r.mutable_wait()->set_seconds(-3); }},
    {"WaitNanos", "wait", [](auto& r) { r.mutable_wait()->set_nanos(-1'000'000'000); }},
    {"MetadataEntries", "metadata", [](auto& r) { AddMetadata(r, 17, 1); }},
    {"MetadataBytes", "metadata", [](auto& r) { AddMetadata(r, 2, 600); }},
    {"MetadataEmptyKey", "metadata", [](auto& r) { (*r.mutable_metadata())[""] = "v"; }},
    {"ClientId", "client.client_id",
     [](auto& r) {
       r.mutable_client()->set_client_id("a b");
       r.mutable_client()->set_sequence(1);
     }},
    {"ClientSequence", "client.sequence", [](auto& r) { r.mutable_client()->set_client_id("a"); }},
};

template <typename Case>
std::string CaseName(const testing::TestParamInfo<Case>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Fields, BadAcquireTest, testing::ValuesIn(kBadAcquires),
                         CaseName<BadAcquire>);

// The other verbs, through the stream: the same functions, and one table for all.
struct BadOperation {
  const char* name;
  const char* field;
  std::function<void(v1::Operation&)> fill;
};

class BadOperationTest : public testing::TestWithParam<BadOperation> {};

TEST_P(BadOperationTest, NamesFieldAndLimit) {
  v1::Operation operation;
  GetParam().fill(operation);
  const auto read = ReadOperation(operation, kPrincipal);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(read.error().field, GetParam().field);
  EXPECT_NE(read.error().limit, "");
}

const std::vector<BadOperation> kBadOperations{
    {"Nothing", "request", [](auto& /*o*/) {}},
    {"RenewResource", "resource", [](auto& o) { o.mutable_renew()->set_lease_id(kId); }},
    {"RenewLease", "lease_id", [](auto& o) { o.mutable_renew()->set_resource("a"); }},
    {"RenewZeroLease", "lease_id",
     [](auto& o) {
       o.mutable_renew()->set_resource("a");
       o.mutable_renew()->set_lease_id(std::string(32, '0'));
     }},
    {"ReleaseLease", "lease_id",
     [](auto& o) {
       o.mutable_release()->set_resource("a");
       o.mutable_release()->set_lease_id(kId + "0");
     }},
    {"ReleaseNamespace", "namespace",
     [](auto& o) {
       o.mutable_release()->set_namespace_("-a");
       o.mutable_release()->set_lease_id(kId);
     }},
    {"CancelWithoutId", "request_id", [](auto& o) { o.mutable_cancel()->set_resource("a"); }},
    {"DescribeResource", "resource", [](auto& o) { o.mutable_describe()->set_resource("a//b"); }},
    {"CheckTokenTooLarge", "fencing_token",
     [](auto& o) {
       o.mutable_check_token()->set_resource("a");
       o.mutable_check_token()->set_fencing_token(std::uint64_t{1} << 53U);
     }},
    {"OpenSessionTtl", "ttl",
     [](auto& o) { o.mutable_open_session()->mutable_ttl()->set_seconds(-1); }},
    {"OpenSessionOwner", "owner", [](auto& o) { o.mutable_open_session()->set_owner("\x01"); }},
    {"KeepAliveId", "session_id", [](auto& o) { o.mutable_keep_alive()->set_session_id("1"); }},
    {"CloseId", "session_id", [](auto& o) { o.mutable_close_session(); }},
    {"CampaignValue", "value",
     [](auto& o) {
       o.mutable_campaign()->mutable_acquire()->set_resource("a");
       o.mutable_campaign()->set_value(std::string(1025, 'v'));
     }},
    {"CampaignResource", "resource", [](auto& o) { o.mutable_campaign(); }},
    {"ProclaimValue", "value",
     [](auto& o) {
       o.mutable_proclaim()->set_resource("a");
       o.mutable_proclaim()->set_lease_id(kId);
       o.mutable_proclaim()->set_value("a\tb");
     }},
    {"ProclaimLease", "lease_id", [](auto& o) { o.mutable_proclaim()->set_resource("a"); }},
    {"LeaderResource", "resource", [](auto& o) { o.mutable_leader()->set_resource("."); }},
};

INSTANTIATE_TEST_SUITE_P(Fields, BadOperationTest, testing::ValuesIn(kBadOperations),
                         CaseName<BadOperation>);

template <typename Request, typename Response>
std::string RefusedField(const Verb<Request, Response>& verb, Request request) {
  const auto read = verb.read(request, kPrincipal);
  return read.ok() ? "accepted" : read.error().field;
}

TEST(ConvertTest, RefusesBadAdministration) {
  v1::SetNamespaceRequest request;
  EXPECT_EQ(RefusedField(kCreateNamespace, request), "name");
  request.set_name("Upper");
  EXPECT_EQ(RefusedField(kSetNamespace, request), "name");
  request.set_name("jobs");
  request.mutable_policy()->mutable_ttl_max()->set_seconds(-1);
  EXPECT_EQ(RefusedField(kCreateNamespace, request), "ttl_max");
  request.mutable_policy()->Clear();
  request.mutable_policy()->set_protection(static_cast<v1::Guarantee>(9));
  EXPECT_EQ(RefusedField(kCreateNamespace, request), "protection");
  EXPECT_EQ(RefusedField(kGetNamespace, v1::GetNamespaceRequest()), "name");
  EXPECT_EQ(RefusedField(kDeleteNamespace, v1::GetNamespaceRequest()), "name");
  EXPECT_EQ(RefusedField(kSetFeatureLevel, v1::SetFeatureLevelRequest()), "level");
  v1::BreakRequest without_reason;
  without_reason.set_resource("a");
  EXPECT_EQ(RefusedField(kBreak, without_reason), "reason");
  without_reason.set_reason(std::string(257, 'r'));
  EXPECT_EQ(RefusedField(kBreak, without_reason), "reason");
}

TEST(ConvertTest, RefusesBadLists) {
  v1::ListRequest request;
  request.set_page_size(1001);
  EXPECT_EQ(RefusedField(kList, request), "page_size");
  request.set_page_size(1000);
  request.set_page_token("Not a resource");
  EXPECT_EQ(RefusedField(kList, request), "page_token");
  request.set_page_token("jobs/1");
  EXPECT_EQ(RefusedField(kList, request), "accepted");
  request.set_prefix(std::string(256, 'p'));
  EXPECT_EQ(RefusedField(kList, request), "prefix");
}

TEST(ConvertTest, RefusesBadWatches) {
  v1::WatchRequest request;
  request.set_exact(true);
  EXPECT_EQ(ReadWatch(request).error().field, "prefix");
  request.set_prefix("jobs/1");
  EXPECT_TRUE(ReadWatch(request).ok());
  request.set_namespace_("A");
  EXPECT_EQ(ReadWatch(request).error().field, "namespace");
}

// ---------------------------------------------------------------- what is accepted

TEST(ConvertTest, ReadsAnAcquire) {
  v1::AcquireRequest request = GoodAcquire();
  request.set_namespace_("batch");
  request.set_request_id("r-1");
  request.set_owner("worker 7");
  request.mutable_ttl()->set_seconds(30);
  request.mutable_ttl()->set_nanos(5);
  request.mutable_wait()->set_nanos(250'000'000);
  (*request.mutable_metadata())["b"] = "2";
  (*request.mutable_metadata())["a"] = "1";
  request.mutable_client()->set_client_id("c");
  request.mutable_client()->set_sequence(9);
  request.mutable_client()->set_answered_below(4);
  auto read = kAcquire.read(request, kPrincipal);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(std::get<core::Command>(*read).principal, kPrincipal);
  EXPECT_EQ(std::get<core::Command>(*read).name_space, "batch");
  const auto acquire = BodyOf<core::Acquire>(std::move(read));
  EXPECT_EQ(acquire.resource, "jobs/1");
  EXPECT_EQ(acquire.request_id, "r-1");
  EXPECT_EQ(acquire.owner, "worker 7");
  EXPECT_EQ(acquire.ttl, Seconds(30) + Duration(5));
  EXPECT_EQ(acquire.wait, Millis(250));
  EXPECT_EQ(acquire.metadata, (std::vector<core::MetadataEntry>{{"a", "1"}, {"b", "2"}}));
  EXPECT_EQ(acquire.client.client_id, "c");
  EXPECT_EQ(acquire.client.sequence, 9U);
  EXPECT_EQ(acquire.client.answered_below, 4U);
  EXPECT_FALSE(acquire.campaign);
}

TEST(ConvertTest, FillsInNamespaceAndRequestId) {
  v1::AcquireRequest request = GoodAcquire();
  ASSERT_TRUE(kAcquire.read(request, kPrincipal).ok());
  EXPECT_EQ(request.namespace_(), "default");
  EXPECT_TRUE(ParseId(request.request_id()).has_value());
  v1::AcquireRequest another = GoodAcquire();
  ASSERT_TRUE(kAcquire.read(another, kPrincipal).ok());
  EXPECT_NE(request.request_id(), another.request_id());
}

TEST(ConvertTest, LeavesHugeDurationsToThePolicy) {
  v1::AcquireRequest request = GoodAcquire();
  request.mutable_ttl()->set_seconds(std::numeric_limits<std::int64_t>::max());
  auto read = kAcquire.read(request, kPrincipal);
  ASSERT_TRUE(read.ok());
  EXPECT_GT(BodyOf<core::Acquire>(std::move(read)).ttl, Seconds(20L * 365 * 24 * 3600));
}

TEST(ConvertTest, ReadsACampaign) {
  v1::CampaignRequest request;
  *request.mutable_acquire() = GoodAcquire();
  request.set_value("10.0.0.1:80");
  const auto acquire = BodyOf<core::Acquire>(kCampaign.read(request, kPrincipal));
  EXPECT_TRUE(acquire.campaign);
  EXPECT_EQ(acquire.value, "10.0.0.1:80");
}

TEST(ConvertTest, ReadsOnlyTheFieldsOfAPolicyThatAreThere) {
  v1::SetNamespaceRequest request;
  request.set_name("jobs");
  request.mutable_policy()->set_protection(v1::FENCED);
  request.mutable_policy()->mutable_hold_max();
  request.mutable_policy()->set_waiters_per_resource(0);
  const auto change = BodyOf<core::ChangeNamespace>(kSetNamespace.read(request, kPrincipal));
  EXPECT_EQ(change.verb, core::NamespaceVerb::kSet);
  EXPECT_EQ(change.patch.protection, core::Guarantee::kFenced);
  EXPECT_EQ(change.patch.hold_max, Duration::zero());
  EXPECT_EQ(change.patch.waiters_per_resource, 0U);
  EXPECT_FALSE(change.patch.ttl_max.has_value());
  EXPECT_FALSE(change.patch.strict.has_value());
}

// ---------------------------------------------------------------- answers

TEST(ConvertTest, WritesAGrant) {
  core::Granted granted;
  granted.lease_id = *ParseId(kId);
  granted.token = 42;
  granted.ttl = Seconds(30);
  granted.remaining = Millis(29'990);
  granted.provisional = true;
  granted.guarantee = core::Guarantee::kFenced;
  v1::AcquireRequest request = GoodAcquire();
  request.set_request_id("r");
  engine::Reply reply = ReplyOf(core::Outcome(std::move(granted)));
  v1::AcquireResponse response;
  ASSERT_TRUE(kAcquire.write(request, reply, response).ok());
  EXPECT_EQ(response.resource(), "jobs/1");
  EXPECT_EQ(response.request_id(), "r");
  EXPECT_EQ(response.granted().lease_id(), kId);
  EXPECT_EQ(response.granted().lease_fp(), Fingerprint(kId));
  EXPECT_EQ(response.granted().fencing_token(), 42U);
  EXPECT_EQ(response.granted().remaining().seconds(), 29);
  EXPECT_EQ(response.granted().remaining().nanos(), 990'000'000);
  EXPECT_TRUE(response.granted().provisional());
  EXPECT_EQ(response.granted().guarantee(), v1::FENCED);
}

TEST(ConvertTest, WritesARefusalWithoutCapabilities) {
  core::Refused refused;
  refused.code = core::RefusalCode::kHeld;
  refused.retry_after = Seconds(2);
  refused.queue_length = 3;
  refused.holder = std::make_unique<core::HolderView>();
  refused.holder->owner = "other";
  refused.holder->lease_id = *ParseId(kId);
  refused.holder->session = *ParseId(kId);
  refused.holder->metadata = {{"a", "1"}};
  engine::Reply reply = ReplyOf(core::Outcome(std::move(refused)));
  v1::AcquireResponse response;
  ASSERT_TRUE(kAcquire.write(GoodAcquire(), reply, response).ok());
  EXPECT_EQ(response.refused().code(), v1::HELD);
  EXPECT_EQ(response.refused().retry_after().seconds(), 2);
  EXPECT_EQ(response.refused().queue_length(), 3U);
  EXPECT_EQ(response.refused().holder().lease_fp(), Fingerprint(kId));
  EXPECT_EQ(response.refused().holder().on_session_fp(), Fingerprint(kId));
  EXPECT_EQ(response.refused().holder().metadata().at("a"), "1");
  EXPECT_EQ(response.SerializeAsString().find(kId), std::string::npos);
}

// The numbers of the core's enumerations are those of the API.
TEST(ConvertTest, EnumerationsAgree) {
  for (int i = 1; i < v1::Cause_ARRAYSIZE; ++i) {
    EXPECT_EQ(v1::Cause_Name(i), core::CauseName(static_cast<core::Cause>(i)));
  }
  EXPECT_FALSE(core::EnumInRange(static_cast<core::Cause>(v1::Cause_ARRAYSIZE)));
  for (int i = 1; i < v1::RefusalCode_ARRAYSIZE; ++i) {
    const std::string name = i == v1::ACQUIRE_CANCELLED ? "CANCELLED" : v1::RefusalCode_Name(i);
    EXPECT_EQ(name, core::RefusalName(static_cast<core::RefusalCode>(i)));
  }
  EXPECT_FALSE(core::EnumInRange(static_cast<core::RefusalCode>(v1::RefusalCode_ARRAYSIZE)));
  EXPECT_EQ(static_cast<int>(core::Guarantee::kFenced), v1::FENCED);
  EXPECT_EQ(static_cast<int>(core::CancelResult::kMemoryFull), v1::CancelResponse::MEMORY_FULL);
  EXPECT_EQ(static_cast<int>(core::CancelResult::kStillGranted), v1::CancelResponse::STILL_GRANTED);
  EXPECT_EQ(static_cast<int>(core::BreakResult::kUnsafeRefused), v1::BreakResponse::UNSAFE_REFUSED);
  EXPECT_EQ(static_cast<int>(core::BreakResult::kWouldBreak), v1::BreakResponse::WOULD_BREAK);
  EXPECT_EQ(static_cast<int>(core::TokenVerdict::kNeverIssued),
            v1::CheckTokenResponse::NEVER_ISSUED);
  EXPECT_EQ(static_cast<int>(core::ResourceState::kDelayed), v1::DescribeResponse::IN_DELAY);
  EXPECT_EQ(static_cast<int>(core::NamespaceResult::kLimit),
            v1::NamespaceResponse::NAMESPACE_LIMIT);
  EXPECT_EQ(static_cast<int>(core::SessionRefusal::kGrantsBlocked),
            v1::OpenSessionResponse::OPEN_GRANTS_BLOCKED);
  EXPECT_EQ(static_cast<int>(core::EventKind::kConfirmed), v1::WatchEvent::RENEWED_CONFIRMED);
  EXPECT_EQ(static_cast<int>(core::EventKind::kRevoking), v1::WatchEvent::REVOKED);
}

TEST(ConvertTest, WritesADescription) {
  core::ResourceView view;
  view.state = core::ResourceState::kDelayed;
  view.delay_left = Millis(1500);
  view.queue_length = 2;
  view.queue.push_back({"w", "p", Seconds(1), Seconds(2), true});
  view.transitions.push_back({5, WallTime(Millis(1500)), core::Cause::kExpired, 41, "o", ""});
  engine::Reply reply = ReplyOf(core::View(std::move(view)));
  v1::DescribeRequest request;
  request.set_namespace_("default");
  request.set_resource("a");
  v1::DescribeResponse response;
  ASSERT_TRUE(kDescribe.write(request, reply, response).ok());
  EXPECT_EQ(response.state(), v1::DescribeResponse::IN_DELAY);
  EXPECT_EQ(response.delay_left().nanos(), 500'000'000);
  EXPECT_TRUE(response.queue(0).detached());
  EXPECT_EQ(response.transitions(0).cause(), v1::EXPIRED);
  EXPECT_EQ(response.transitions(0).at().seconds(), 1);
  EXPECT_EQ(response.index(), 17U);
  EXPECT_FALSE(response.has_holder());
}

TEST(ConvertTest, WritesPageTokens) {
  core::ListView view;
  view.items.emplace_back().resource = "a";
  view.items.emplace_back().resource = "b";
  view.more = true;
  engine::Reply reply = ReplyOf(core::View(std::move(view)));
  v1::ListResponse response;
  ASSERT_TRUE(kList.write(v1::ListRequest(), reply, response).ok());
  EXPECT_EQ(response.items(1).resource(), "b");
  EXPECT_EQ(response.next_page_token(), "b");
}

TEST(ConvertTest, AVacantElectionHasNoLeader) {
  engine::Reply reply = ReplyOf(core::View(core::LeaderView{}));
  v1::LeaderResponse response;
  ASSERT_TRUE(kLeader.write(v1::LeaderRequest(), reply, response).ok());
  EXPECT_TRUE(response.vacant());
  EXPECT_FALSE(response.has_since());
}

TEST(ConvertTest, AnUnknownNamespaceIsAnError) {
  v1::RenewRequest request;
  request.set_namespace_("nowhere");
  engine::Reply reply = ReplyOf(core::Outcome(core::NoSuchNamespace{}));
  v1::RenewResponse response;
  const Status status = kRenew.write(request, reply, response);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(status.error().field, "namespace");
  EXPECT_NE(status.error().message.find("nowhere"), std::string::npos);
}

TEST(ConvertTest, PutsErrorsIntoResultsOfTheStream) {
  v1::Operation operation;
  operation.set_tag(99);
  operation.mutable_renew()->set_resource("a");
  engine::Reply reply = ReplyOf(Error{ErrorCode::kOverloaded, "the queue is full", "", ""});
  v1::OperationResult result;
  WriteResult(operation, reply, result);
  EXPECT_EQ(result.tag(), 99U);
  EXPECT_FALSE(result.has_renew());
  EXPECT_EQ(result.problem().code(), v1::Problem::OVERLOADED);
  EXPECT_TRUE(result.problem().has_retry_after());
}

TEST(ConvertTest, KnowsWhichOperationsMayWait) {
  v1::Operation operation;
  operation.mutable_acquire()->set_resource("a");
  EXPECT_FALSE(MayWait(operation));
  operation.mutable_acquire()->mutable_wait()->set_nanos(1);
  EXPECT_TRUE(MayWait(operation));
  operation.mutable_campaign()->mutable_acquire()->mutable_wait()->set_seconds(1);
  EXPECT_TRUE(MayWait(operation));
  operation.mutable_leader();
  EXPECT_FALSE(MayWait(operation));
}

TEST(ConvertTest, WritesWatchItems) {
  auto event = std::make_shared<core::Event>();
  event->kind = core::EventKind::kEnded;
  event->cause = core::Cause::kExpired;
  event->resource = "a";
  event->token = 7;
  v1::WatchResponse response;
  WriteWatchItem(engine::WatchedEvent{12, WallTime(Seconds(3)), event}, response);
  EXPECT_EQ(response.event().index(), 12U);
  EXPECT_EQ(response.event().kind(), v1::WatchEvent::ENDED);
  EXPECT_EQ(response.event().cause(), v1::EXPIRED);
  EXPECT_EQ(response.event().fencing_token(), 7U);
  WriteWatchItem(engine::WatchGap{20}, response);
  EXPECT_EQ(response.gap().index(), 20U);
}

TEST(ConvertTest, ProblemsTravelInTheDetails) {
  v1::RpcStatus status;
  ASSERT_TRUE(
      status.ParseFromString(RpcDetails(InvalidArgument("ttl", "1s to 600s", "ttl is 0s"))));
  EXPECT_EQ(status.code(), 3);
  v1::Problem problem;
  ASSERT_TRUE(status.details(0).UnpackTo(&problem));
  EXPECT_EQ(problem.code(), v1::Problem::INVALID_ARGUMENT);
  EXPECT_EQ(problem.field(), "ttl");
  EXPECT_EQ(problem.limit(), "1s to 600s");
}

}  // namespace
}  // namespace holdfast::server
