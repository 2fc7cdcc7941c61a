#include "etcd/convert.h"

#include <grpcpp/support/status.h>
#include <gtest/gtest.h>

#include "etcdserverpb/rpc.pb.h"

namespace holdfast::etcd {
namespace {

wire::Certainty CertaintyOf(grpc::StatusCode code, const char* message = "") {
  return FailureOf(grpc::Status(code, message)).certainty;
}

TEST(EtcdConvert, OnlyARefusalBeforeTheProposalIsKnownToHaveDoneNothing) {
  using grpc::StatusCode;
  using wire::Certainty;
  EXPECT_EQ(CertaintyOf(StatusCode::UNAVAILABLE, "etcdserver: request timed out"),
            Certainty::kUnknown);
  EXPECT_EQ(CertaintyOf(StatusCode::UNAVAILABLE, "etcdserver: leader changed"),
            Certainty::kUnknown);
  EXPECT_EQ(CertaintyOf(StatusCode::DEADLINE_EXCEEDED), Certainty::kUnknown);
  EXPECT_EQ(CertaintyOf(StatusCode::CANCELLED), Certainty::kUnknown);
  EXPECT_EQ(CertaintyOf(StatusCode::UNKNOWN), Certainty::kUnknown);
  EXPECT_EQ(CertaintyOf(StatusCode::INTERNAL), Certainty::kUnknown);
  EXPECT_EQ(
      CertaintyOf(StatusCode::RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded"),
      Certainty::kUnknown);
  EXPECT_EQ(CertaintyOf(StatusCode::RESOURCE_EXHAUSTED, "etcdserver: too many requests"),
            Certainty::kNothingDone);
  EXPECT_EQ(CertaintyOf(StatusCode::INVALID_ARGUMENT, "etcdserver: request is too large"),
            Certainty::kNothingDone);
  EXPECT_EQ(CertaintyOf(StatusCode::UNAUTHENTICATED), Certainty::kNothingDone);
  EXPECT_EQ(CertaintyOf(StatusCode::DATA_LOSS), Certainty::kFatal);
}

TEST(EtcdConvert, RefusesVersionsThatLoseEntriesAndWarnsOfOldOnes) {
  for (const char* refused : {"3.5.0", "3.5.1", "3.5.2", "3.3.27", "2.3.8"}) {
    EXPECT_NE(WhyRefused(refused), "") << refused;
  }
  for (const char* old : {"3.4.23", "3.5.3", "3.6.1"}) {
    EXPECT_EQ(WhyRefused(old), "") << old;
    EXPECT_NE(WhyOld(old), "") << old;
  }
  for (const char* good : {"3.4.42", "3.5.28", "3.6.9", "3.7.0"}) {
    EXPECT_EQ(WhyRefused(good), "") << good;
    EXPECT_EQ(WhyOld(good), "") << good;
  }
}

TEST(EtcdConvert, ATransactionKeepsItsGuardsAndItsOrder) {
  wire::Txn txn;
  txn.guards = {{"epoch", wire::Guard::Of::kModified, 7}, {"slot", wire::Guard::Of::kCreated, 0}};
  txn.then = {wire::Put{"slot", std::string("\0\xff", 2)}};
  txn.otherwise = {wire::Get{"a", "b", 3, true}, wire::Delete{"c", "d"}};
  const etcdserverpb::TxnRequest request = RequestOf(txn);
  ASSERT_EQ(request.compare_size(), 2);
  EXPECT_EQ(request.compare(0).target(), etcdserverpb::Compare::MOD);
  EXPECT_EQ(request.compare(0).mod_revision(), 7);
  EXPECT_EQ(request.compare(1).target(), etcdserverpb::Compare::CREATE);
  EXPECT_TRUE(request.compare(1).has_create_revision());
  EXPECT_EQ(request.success(0).request_put().value(), std::string("\0\xff", 2));
  EXPECT_TRUE(request.failure(0).request_range().keys_only());
  EXPECT_EQ(request.failure(1).request_delete_range().range_end(), "d");
}

TEST(EtcdConvert, AResultHasOneListForEachOperation) {
  etcdserverpb::TxnResponse response;
  response.mutable_header()->set_cluster_id(5);
  response.mutable_header()->set_revision(9);
  response.add_responses()->mutable_response_put();
  etcdserverpb::KeyValue& pair = *response.add_responses()->mutable_response_range()->add_kvs();
  pair.set_key("k");
  pair.set_mod_revision(8);
  const wire::TxnResult result = ResultOf(std::move(response));
  EXPECT_EQ(result.cluster_id, 5U);
  EXPECT_EQ(result.revision, 9);
  EXPECT_FALSE(result.succeeded);
  ASSERT_EQ(result.gets.size(), 2U);
  EXPECT_TRUE(result.gets[0].empty());
  EXPECT_EQ(result.gets[1][0].mod_revision, 8);
}

}  // namespace
}  // namespace holdfast::etcd
