#include "client/wire.h"

#include <gtest/gtest.h>

#include "holdfast/v1/admin.pb.h"
#include "holdfast/v1/locks.pb.h"
#include "holdfast/v1/types.pb.h"

namespace holdfast::client {
namespace {

std::string DetailsOf(const v1::Problem& problem) {
  v1::RpcStatus status;
  google::protobuf::Any& any = *status.add_details();
  any.set_type_url("type.googleapis.com/holdfast.v1.Problem");
  any.set_value(problem.SerializeAsString());
  return status.SerializeAsString();
}

TEST(Classify, TheServicesOwnWordCounts) {
  struct Case {
    v1::Problem::Code code;
    FailureKind kind;
    ErrorCode error;
  };
  const Case cases[] = {
      {v1::Problem::INVALID_ARGUMENT, FailureKind::kFinal, ErrorCode::kInvalidArgument},
      {v1::Problem::NOT_FOUND, FailureKind::kFinal, ErrorCode::kNotFound},
      {v1::Problem::ALREADY_EXISTS, FailureKind::kFinal, ErrorCode::kAlreadyExists},
      {v1::Problem::UNAUTHENTICATED, FailureKind::kFinal, ErrorCode::kUnauthenticated},
      {v1::Problem::PERMISSION_DENIED, FailureKind::kFinal, ErrorCode::kPermissionDenied},
      {v1::Problem::FAILED_PRECONDITION, FailureKind::kFinal, ErrorCode::kUnsupported},
      {v1::Problem::OVERLOADED, FailureKind::kNothingDone, ErrorCode::kOverloaded},
      {v1::Problem::UNAVAILABLE, FailureKind::kNothingDone, ErrorCode::kUnavailable},
      {v1::Problem::UNKNOWN_OUTCOME, FailureKind::kUnknown, ErrorCode::kUnknownOutcome},
      {v1::Problem::INTERNAL, FailureKind::kUnknown, ErrorCode::kUnknownOutcome},
  };
  for (const Case& test : cases) {
    v1::Problem problem;
    problem.set_code(test.code);
    problem.set_message("words");
    problem.set_field("ttl");
    problem.set_limit("1 s to 5 min");
    problem.mutable_retry_after()->set_seconds(3);
    const Failure failure = Classify(WireFailure{true, 14, "", DetailsOf(problem)});
    EXPECT_EQ(failure.kind, test.kind) << v1::Problem::Code_Name(test.code);
    EXPECT_EQ(failure.error.code, test.error) << v1::Problem::Code_Name(test.code);
    EXPECT_EQ(failure.error.message, "words");
    EXPECT_EQ(failure.error.field, "ttl");
    EXPECT_EQ(failure.error.limit, "1 s to 5 min");
    EXPECT_EQ(failure.retry_after, Seconds(3));
  }
}

TEST(Classify, WithoutItOnlyWhatWasNotSentIsNothingDone) {
  struct Case {
    bool sent;
    int grpc_code;
    FailureKind kind;
    ErrorCode error;
  };
  const Case cases[] = {
      {false, 14, FailureKind::kNothingDone, ErrorCode::kUnavailable},
      {true, 14, FailureKind::kUnknown, ErrorCode::kUnknownOutcome},  // UNAVAILABLE
      {true, 4, FailureKind::kUnknown, ErrorCode::kUnknownOutcome},   // DEADLINE_EXCEEDED
      {true, 1, FailureKind::kUnknown, ErrorCode::kUnknownOutcome},   // CANCELLED
      {true, 8, FailureKind::kUnknown, ErrorCode::kUnknownOutcome},   // RESOURCE_EXHAUSTED
      {true, 3, FailureKind::kFinal, ErrorCode::kInvalidArgument},
      {true, 7, FailureKind::kFinal, ErrorCode::kPermissionDenied},
      {true, 12, FailureKind::kFinal, ErrorCode::kUnsupported},
      {true, 16, FailureKind::kFinal, ErrorCode::kUnauthenticated},
  };
  for (const Case& test : cases) {
    for (const char* details : {"", "not a status"}) {
      const Failure failure = Classify(WireFailure{test.sent, test.grpc_code, "m", details});
      EXPECT_EQ(failure.kind, test.kind) << test.grpc_code;
      EXPECT_EQ(failure.error.code, test.error) << test.grpc_code;
    }
  }
}

TEST(Encode, AcquireCarriesEveryField) {
  AcquireRequest request;
  request.namespace_name = "ns";
  request.resource = "r";
  request.request_id = "id";
  request.owner = "o";
  request.ttl = Millis(1500);
  request.wait = Seconds(2);
  request.metadata = {{"k", "v"}};
  request.context = ClientContext{"c", 5, 4};
  const RawRequest raw = Encode(request);
  EXPECT_STREQ(raw.method, "/holdfast.v1.Locks/Acquire");
  v1::AcquireRequest wire;
  ASSERT_TRUE(wire.ParseFromString(raw.body));
  EXPECT_EQ(wire.namespace_(), "ns");
  EXPECT_EQ(wire.resource(), "r");
  EXPECT_EQ(wire.request_id(), "id");
  EXPECT_EQ(wire.owner(), "o");
  EXPECT_EQ(wire.ttl().seconds(), 1);
  EXPECT_EQ(wire.ttl().nanos(), 500'000'000);
  EXPECT_EQ(wire.wait().seconds(), 2);
  EXPECT_EQ(wire.metadata().at("k"), "v");
  EXPECT_EQ(wire.client().client_id(), "c");
  EXPECT_EQ(wire.client().sequence(), 5U);
  EXPECT_EQ(wire.client().answered_below(), 4U);
}

TEST(Encode, AbsentFieldsStayAbsent) {
  Policy policy;
  policy.lock_delay = Duration::zero();
  v1::SetNamespaceRequest wire;
  ASSERT_TRUE(wire.ParseFromString(EncodeSetNamespace("n", policy).body));
  EXPECT_TRUE(wire.policy().has_lock_delay());
  EXPECT_FALSE(wire.policy().has_ttl_max());
  EXPECT_FALSE(wire.policy().has_strict());
  v1::AcquireRequest acquire;
  ASSERT_TRUE(acquire.ParseFromString(Encode(AcquireRequest{}).body));
  EXPECT_FALSE(acquire.has_ttl());
  EXPECT_FALSE(acquire.has_client());
}

TEST(Decode, RefusalsAndGrants) {
  v1::AcquireResponse wire;
  v1::Refusal& refused = *wire.mutable_refused();
  refused.set_code(v1::HELD);
  refused.mutable_holder()->set_owner("A");
  refused.mutable_holder()->mutable_lease_left()->set_seconds(-1);
  refused.set_queue_length(2);
  auto result = DecodeAcquire(wire.SerializeAsString());
  ASSERT_TRUE(result.ok());
  ASSERT_NE(result->refused(), nullptr);
  EXPECT_EQ(result->refused()->code, RefusalCode::kHeld);
  EXPECT_EQ(result->refused()->holder->owner, "A");
  EXPECT_EQ(result->refused()->holder->lease_left, -Seconds(1));
  EXPECT_FALSE(result->refused()->retry_after.has_value());
  v1::Grant& grant = *wire.mutable_granted();
  grant.set_fencing_token(42);
  grant.mutable_remaining()->set_nanos(7);
  grant.set_guarantee(v1::FENCED);
  result = DecodeAcquire(wire.SerializeAsString());
  ASSERT_NE(result->granted(), nullptr);
  EXPECT_EQ(result->granted()->fencing_token, 42U);
  EXPECT_EQ(result->granted()->remaining, Duration(7));
  EXPECT_EQ(result->granted()->guarantee, Guarantee::kFenced);
}

TEST(Decode, WhatIsNotUnderstoodIsAnError) {
  EXPECT_EQ(DecodeAcquire("\xff\xff").error().code, ErrorCode::kInternal);
  EXPECT_EQ(DecodeAcquire("").error().code, ErrorCode::kInternal);  // no outcome
  v1::AcquireResponse wire;
  wire.mutable_refused()->set_code(static_cast<v1::RefusalCode>(99));
  EXPECT_EQ(DecodeAcquire(wire.SerializeAsString())->refused()->code, RefusalCode::kUnspecified);
  wire.mutable_granted()->mutable_ttl()->set_seconds(std::numeric_limits<std::int64_t>::max());
  EXPECT_GT(DecodeAcquire(wire.SerializeAsString())->granted()->ttl, Seconds(1'000'000'000));
}

// The enumerators of types.h have the numbers of the API.
TEST(Decode, TheLastEnumeratorsAgreeWithTheApi) {
  EXPECT_EQ(static_cast<int>(Cause::kRevoking), v1::Cause_MAX);
  EXPECT_EQ(static_cast<int>(RefusalCode::kStateFull), v1::RefusalCode_MAX);
  EXPECT_EQ(static_cast<int>(CancelOutcome::kMemoryFull), v1::CancelResponse::Outcome_MAX);
  EXPECT_EQ(static_cast<int>(ResourceState::kInDelay), v1::DescribeResponse::State_MAX);
  EXPECT_EQ(static_cast<int>(TokenVerdict::kNeverIssued), v1::CheckTokenResponse::Verdict_MAX);
  EXPECT_EQ(static_cast<int>(BreakOutcome::kUnsafeRefused), v1::BreakResponse::Outcome_MAX);
  EXPECT_EQ(static_cast<int>(WatchKind::kConfirmed), v1::WatchEvent::Kind_MAX);
  EXPECT_EQ(static_cast<int>(NamespaceOutcome::kLimit), v1::NamespaceResponse::Outcome_MAX);
  for (int i = 0; i <= v1::Cause_MAX; ++i) {
    const std::string name = v1::Cause_Name(static_cast<v1::Cause>(i));
    EXPECT_EQ(i == 0 ? "CAUSE_" + std::string(Name(Cause{})) : Name(static_cast<Cause>(i)), name);
  }
  for (int i = 1; i <= v1::RefusalCode_MAX; ++i) {
    const std::string name = v1::RefusalCode_Name(static_cast<v1::RefusalCode>(i));
    EXPECT_EQ(i == v1::ACQUIRE_CANCELLED ? "ACQUIRE_CANCELLED" : Name(static_cast<RefusalCode>(i)),
              name);
  }
}

}  // namespace
}  // namespace holdfast::client
