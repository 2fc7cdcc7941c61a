#include "engine/forwarder.h"

#include <gtest/gtest.h>

namespace holdfast::engine {
namespace {

EngineInput Ask(FrontId front, std::uint64_t tag, bool query = false) {
  core::Acquire acquire;
  acquire.resource = "a";
  acquire.request_id = "r";
  EngineInput input{EngineInput::Kind::kPropose, front,
                    Proposal{tag, core::Command{"p", "default", acquire}}};
  if (query) {
    input.proposal.request = core::Query(core::Describe{"default", "a"});
  }
  return input;
}

EngineInput Forget(FrontId front, std::uint64_t tag) {
  return {EngineInput::Kind::kAbandon, front, Proposal{tag, {}}};
}

ErrorCode CodeOf(const Reply& reply) {
  const auto* error = std::get_if<Error>(&reply.answer);
  return error != nullptr ? error->code : ErrorCode::kInternal;
}

TEST(Forwarder, AnAnswerFindsItsRequest) {
  Forwarder forwarder;
  EngineOutput output;
  forwarder.Accept(Ask(1, 10), output);
  forwarder.Accept(Ask(2, 10, true), output);
  const Result<Forwarded> there = DecodeForwarded(forwarder.TakeFrame());
  ASSERT_TRUE(there.ok());
  ASSERT_EQ(there->proposals.size(), 2U);
  std::vector<Reply> replies;
  replies.push_back(Reply{there->proposals[1].tag, core::View(core::ResourceView{}), 7});
  ASSERT_TRUE(forwarder.OnFrame(EncodeReplies(replies), output).ok());
  ASSERT_EQ(output.replies.size(), 1U);
  EXPECT_EQ(output.replies[0].first, 2U);
  EXPECT_EQ(output.replies[0].second.tag, 10U);
  EXPECT_EQ(output.replies[0].second.index, 7U);
  EXPECT_EQ(forwarder.open(), 1U);
}

TEST(Forwarder, ABrokenLinkLeavesWhatWasSentUnknownAndTheRestUndone) {
  Forwarder forwarder;
  EngineOutput output;
  forwarder.Accept(Ask(1, 1), output);
  forwarder.Accept(Ask(1, 2, true), output);
  forwarder.TakeFrame();
  forwarder.Accept(Ask(1, 3), output);
  forwarder.OnBroken(output);
  ASSERT_EQ(output.replies.size(), 3U);
  EXPECT_EQ(CodeOf(output.replies[0].second), ErrorCode::kUnknownOutcome);
  EXPECT_EQ(CodeOf(output.replies[1].second), ErrorCode::kUnavailable) << "a query has no effect";
  EXPECT_EQ(CodeOf(output.replies[2].second), ErrorCode::kUnavailable) << "never sent";
  EXPECT_EQ(forwarder.TakeFrame(), "") << "and never will be";
  EXPECT_EQ(forwarder.open(), 0U);
}

TEST(Forwarder, WhoeverIsGoneGetsNoAnswerAndIsToldToTheLeader) {
  Forwarder forwarder;
  EngineOutput output;
  forwarder.Accept(Ask(1, 1), output);
  forwarder.Accept(Ask(1, 2), output);
  forwarder.Accept(Ask(2, 1), output);
  const Result<Forwarded> sent = DecodeForwarded(forwarder.TakeFrame());
  forwarder.Accept(Forget(1, 1), output);
  EngineInput gone;
  gone.kind = EngineInput::Kind::kFrontGone;
  gone.front = 2;
  forwarder.Accept(std::move(gone), output);
  const Result<Forwarded> told = DecodeForwarded(forwarder.TakeFrame());
  EXPECT_EQ(told->abandoned,
            (std::vector<std::uint64_t>{sent->proposals[0].tag, sent->proposals[2].tag}));
  std::vector<Reply> late;
  late.push_back(Reply{sent->proposals[0].tag, core::Outcome(core::Done{}), 1});
  EXPECT_TRUE(forwarder.OnFrame(EncodeReplies(late), output).ok());
  EXPECT_TRUE(output.replies.empty());
  EXPECT_EQ(forwarder.open(), 1U);
}

TEST(Forwarder, TooManyOpenRequestsAreRefused) {
  Forwarder forwarder;
  EngineOutput output;
  for (std::uint64_t tag = 0; tag < Forwarder::kOpenMax; ++tag) {
    forwarder.Accept(Ask(1, tag), output);
  }
  EXPECT_TRUE(output.replies.empty());
  forwarder.Accept(Ask(1, Forwarder::kOpenMax), output);
  ASSERT_EQ(output.replies.size(), 1U);
  EXPECT_EQ(CodeOf(output.replies[0].second), ErrorCode::kOverloaded);
}

TEST(Forwarder, DamagedFramesAreRefused) {
  Forwarder forwarder;
  EngineOutput output;
  forwarder.Accept(Ask(1, 1), output);
  const std::string frame = forwarder.TakeFrame();
  for (std::size_t size = 1; size < frame.size(); ++size) {
    EXPECT_FALSE(DecodeForwarded(frame.substr(0, size)).ok());
  }
  EXPECT_FALSE(forwarder.OnFrame("\xff\xff", output).ok());
}

TEST(Forwarder, ThePeerMayPassOnOnlyWhatClientsAsk) {
  Forwarder forwarder;
  EngineOutput output;
  EngineInput own = Ask(1, 1);
  own.proposal.request = core::Command{{}, {}, core::EpochStart{9, {}}};
  forwarder.Accept(std::move(own), output);
  EngineInput invalid = Ask(1, 2);
  std::get<core::Acquire>(std::get<core::Command>(invalid.proposal.request).body).resource = "NO";
  forwarder.Accept(std::move(invalid), output);
  const Result<Forwarded> there = DecodeForwarded(forwarder.TakeFrame());
  ASSERT_TRUE(there.ok());
  EXPECT_TRUE(there->proposals.empty());
  ASSERT_EQ(there->refused.size(), 2U);
  EXPECT_EQ(CodeOf(there->refused[0]), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(there->refused[1]), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace holdfast::engine
