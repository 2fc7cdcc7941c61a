#include "codec/forward_codec.h"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace holdfast::codec {
namespace {

std::string Encoded(const ForwardRequest& request) {
  ByteWriter out;
  EncodeRequest(request, out);
  return out.Take();
}

std::string Encoded(const ForwardAnswer& answer) {
  ByteWriter out;
  EncodeAnswer(answer, out);
  return out.Take();
}

Result<ForwardRequest> DecodedRequest(const std::string& bytes) {
  ByteReader in(bytes);
  return DecodeRequest(in);
}

Result<ForwardAnswer> DecodedAnswer(const std::string& bytes) {
  ByteReader in(bytes);
  return DecodeAnswer(in);
}

core::HolderView Holder() {
  core::HolderView holder;
  holder.owner = "o";
  holder.principal = "p";
  holder.token = 42;
  holder.lease_id = Hash128("lease");
  holder.held_for = Seconds(3);
  holder.left = Seconds(7);
  holder.since = WallTime(Seconds(1'700'000'000));
  holder.provisional = true;
  holder.session = Hash128("session");
  holder.metadata = {{"host", "a"}};
  return holder;
}

std::vector<ForwardRequest> Requests() {
  std::vector<ForwardRequest> requests;
  core::Acquire acquire;
  acquire.resource = "orders/42";
  acquire.request_id = "r-1";
  acquire.wait = Millis(1500);
  acquire.metadata = {{"host", "a"}};
  acquire.client = {"c1", 9, 4};
  requests.emplace_back(core::Command{"alice", "default", acquire});
  requests.emplace_back(core::Command{"bob", "money", core::Release{"a", Hash128("2")}});
  requests.emplace_back(core::Query(core::Describe{"default", "a"}));
  requests.emplace_back(core::Query(core::List{"default", "a/", 7, "a/3"}));
  requests.emplace_back(core::Query(core::CheckToken{"default", "a", 9}));
  requests.emplace_back(core::Query(core::Leader{"default", "a"}));
  requests.emplace_back(core::Query(core::DescribeSession{"default", Hash128("s")}));
  requests.emplace_back(core::Query(core::GetNamespace{"money"}));
  requests.emplace_back(core::Query(core::ListNamespaces{}));
  requests.emplace_back(core::Query(core::GetCounts{}));
  return requests;
}

template <typename T>
void Add(std::vector<ForwardAnswer>& answers, T value) {
  answers.emplace_back(core::Outcome(std::move(value)));
}

void AddOutcomes(std::vector<ForwardAnswer>& answers) {
  Add(answers, core::Done{});
  Add(answers, core::Granted{Hash128("l"), 42, Seconds(30), Seconds(29), true,
                             core::Guarantee::kFenced, WallTime(Seconds(5))});
  core::Refused refused;
  refused.code = core::RefusalCode::kHeld;
  refused.retry_after = Millis(20);
  refused.holder = std::make_unique<core::HolderView>(Holder());
  Add(answers, std::move(refused));
  Add(answers, core::Queued{7, 2, 3});
  Add(answers, core::Renewed{Seconds(30), Seconds(29)});
  Add(answers, core::NotRenewed{core::Cause::kExpired, {}, "why"});
  Add(answers, core::Released{true, core::Cause::kReleased});
  Add(answers, core::Cancelled{core::CancelResult::kStillGranted});
  core::Broken broken;
  broken.result = core::BreakResult::kRevoking;
  broken.holder = std::make_unique<core::HolderView>(Holder());
  broken.next_owner = "n";
  Add(answers, std::move(broken));
  Add(answers, core::Proclaimed{true, core::Cause::kNone});
  Add(answers, core::SessionOpened{Hash128("s"), Seconds(30), Seconds(29)});
  Add(answers, core::SessionRefused{core::SessionRefusal::kLimit, "50000"});
  Add(answers, core::SessionKept{true, Seconds(9), core::Cause::kNone, 4});
  Add(answers, core::SessionClosed{true, core::Cause::kSessionClosed});
  Add(answers, core::NamespaceChanged{core::NamespaceResult::kOk, core::Policy{}});
  Add(answers, core::FeatureLevelSet{true, 1});
  Add(answers, core::NoSuchNamespace{});
}

void AddViews(std::vector<ForwardAnswer>& answers) {
  core::ResourceView resource;
  resource.resource = "a";
  resource.state = core::ResourceState::kTaken;
  resource.holder = std::make_unique<core::HolderView>(Holder());
  resource.queue = {{"w", "p", Seconds(1), Seconds(2), true}};
  resource.transitions = {{9, WallTime(Seconds(1)), core::Cause::kAcquired, 42, "o", "because"}};
  resource.value = "v";
  core::ListView list;
  list.items.push_back(std::move(resource));
  list.more = true;
  list.last = "a";
  answers.emplace_back(core::View(std::move(list)));
  core::ResourceView free_resource;
  answers.emplace_back(core::View(std::move(free_resource)));
  answers.emplace_back(core::View(core::TokenView{core::TokenVerdict::kCurrent}));
  answers.emplace_back(core::View(core::LeaderView{false, "v", 3, "o", {}, Seconds(1)}));
  answers.emplace_back(
      core::View(core::SessionView{true, "o", Seconds(1), Seconds(1), 2, 3, core::Cause::kNone}));
  answers.emplace_back(core::View(core::NamespaceView{core::NamespaceResult::kOk, "n", {}}));
  answers.emplace_back(core::View(core::NamespacesView{{{core::NamespaceResult::kOk, "n", {}}}}));
  core::CountsView counts;
  counts.holds = 3;
  counts.time = Timestamp(Seconds(8));
  answers.emplace_back(core::View(std::move(counts)));
  answers.emplace_back(core::View(core::NoSuchNamespace{}));
}

std::vector<ForwardAnswer> Answers() {
  std::vector<ForwardAnswer> answers;
  AddOutcomes(answers);
  EXPECT_EQ(answers.size(), std::variant_size_v<core::Outcome>);
  AddViews(answers);
  EXPECT_EQ(answers.size(), std::variant_size_v<core::Outcome> + std::variant_size_v<core::View>);
  answers.emplace_back(Error{ErrorCode::kOverloaded, "full", "field", "limit"});
  return answers;
}

TEST(ForwardCodec, EveryRequestSurvivesTheRoundTripByteForByte) {
  for (const ForwardRequest& request : Requests()) {
    const std::string bytes = Encoded(request);
    const auto decoded = DecodedRequest(bytes);
    ASSERT_TRUE(decoded.ok()) << request.index();
    EXPECT_EQ(decoded->index(), request.index());
    EXPECT_EQ(Encoded(*decoded), bytes);
  }
}

TEST(ForwardCodec, EveryAnswerSurvivesTheRoundTripByteForByte) {
  for (const ForwardAnswer& answer : Answers()) {
    const std::string bytes = Encoded(answer);
    const auto decoded = DecodedAnswer(bytes);
    ASSERT_TRUE(decoded.ok()) << answer.index();
    EXPECT_EQ(decoded->index(), answer.index());
    EXPECT_EQ(Encoded(*decoded), bytes);
  }
}

TEST(ForwardCodec, WhatIsCutOffOrTooLongIsRefused) {
  for (const ForwardAnswer& answer : Answers()) {
    const std::string bytes = Encoded(answer);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(DecodedAnswer(bytes.substr(0, size)).ok());
    }
    EXPECT_FALSE(DecodedAnswer(bytes + "x").ok());
  }
  for (const ForwardRequest& request : Requests()) {
    const std::string bytes = Encoded(request);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(DecodedRequest(bytes.substr(0, size)).ok());
    }
    EXPECT_FALSE(DecodedRequest(bytes + "x").ok());
  }
}

TEST(ForwardCodec, UnknownKindsAreRefused) {
  EXPECT_FALSE(DecodedRequest("\x09").ok());
  EXPECT_FALSE(DecodedRequest(std::string("\x02\x63", 2)).ok()) << "an unknown query";
  EXPECT_FALSE(DecodedAnswer("\x01").ok()) << "a request is no answer";
}

}  // namespace
}  // namespace holdfast::codec
