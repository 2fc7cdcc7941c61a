#include "codec/batch_codec.h"

#include <gtest/gtest.h>

#include "core/limits.h"

namespace holdfast::codec {
namespace {

core::Batch BatchOfEveryCommand() {
  core::Batch batch;
  batch.epoch = 3;
  batch.time = Timestamp(Seconds(7));
  batch.wall = WallTime(Seconds(1'700'000'000));
  core::Acquire acquire;
  acquire.resource = "orders/42";
  acquire.request_id = "r-1";
  acquire.owner = "worker";
  acquire.ttl = Seconds(30);
  acquire.wait = Millis(1500);
  acquire.metadata = {{"host", "a"}, {"pid", "7"}};
  acquire.campaign = true;
  acquire.value = "10.0.0.1:80";
  acquire.client = core::ClientContext{"c1", 9, 4};
  acquire.lease_id = Hash128("lease");
  core::ChangeNamespace change;
  change.verb = core::NamespaceVerb::kCreate;
  change.name = "money";
  change.patch.protection = core::Guarantee::kFenced;
  change.patch.ttl_max = Seconds(60);
  const auto add = [&](std::string principal, std::string name_space, core::CommandBody body) {
    batch.commands.push_back(
        core::Command{std::move(principal), std::move(name_space), std::move(body)});
  };
  add("", "", core::EpochStart{3, Seconds(10)});
  add("alice", "default", acquire);
  add("alice", "default", core::Renew{"a", Hash128("1")});
  add("alice", "money", core::Release{"a", Hash128("2")});
  add("bob", "money", core::Cancel{"a", "r", "o", core::ClientContext{"c", 2, 1}});
  add("", "", core::Detach{77, 3});
  add("root", "default", core::Break{"a", "stuck", true, true, true});
  add("root", "default", core::Proclaim{"a", Hash128("3"), "v"});
  add("root", "default", core::OpenSession{"r", "o", Seconds(5), {}, Hash128("4")});
  add("root", "default", core::KeepAlive{Hash128("5")});
  add("root", "default", core::CloseSession{Hash128("6")});
  add("root", "", change);
  add("", "", core::SetFeatureLevel{1});
  add("", "", core::RecoverState{1'000'000, Seconds(610)});
  return batch;
}

std::string Encoded(const core::Batch& batch) {
  ByteWriter out;
  EncodeBatch(batch, core::kFeatureLevelMax, out);
  return out.Take();
}

TEST(BatchCodec, EveryCommandSurvivesTheRoundTripByteForByte) {
  const core::Batch batch = BatchOfEveryCommand();
  ASSERT_EQ(batch.commands.size(), std::variant_size_v<core::CommandBody>);
  const std::string bytes = Encoded(batch);
  const Result<DecodedBatch> decoded = DecodeBatch(bytes);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(Encoded(decoded->batch), bytes);
  const auto& acquire = std::get<core::Acquire>(decoded->batch.commands[1].body);
  EXPECT_EQ(acquire.metadata, std::get<core::Acquire>(batch.commands[1].body).metadata);
  EXPECT_EQ(acquire.client.answered_below, 4U);
  EXPECT_EQ(decoded->batch.commands[4].principal, "bob");
  EXPECT_EQ(decoded->batch.commands[5].principal, "");
}

TEST(BatchCodec, TheSizeBoundHoldsForEveryCommand) {
  for (const core::Command& command : BatchOfEveryCommand().commands) {
    core::Batch one;
    const std::size_t empty = Encoded(one).size();
    one.commands.push_back(command);
    EXPECT_LE(Encoded(one).size() - empty, EncodedSizeBound(command));
  }
}

TEST(BatchCodec, TruncatedAndFlippedBatchesAreRefusedOrDecodeToSomethingThatReencodes) {
  const std::string bytes = Encoded(BatchOfEveryCommand());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(DecodeBatch(std::string_view(bytes).substr(0, size)).ok()) << size;
  }
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    if (const Result<DecodedBatch> decoded = DecodeBatch(damaged); decoded.ok()) {
      EXPECT_FALSE(Encoded(decoded->batch).empty());
    }
  }
}

TEST(BatchCodec, ANewerFeatureLevelIsUnsupportedNotCorrupt) {
  ByteWriter out;
  EncodeBatch(core::Batch{}, core::kFeatureLevelMax + 1, out);
  const Result<DecodedBatch> decoded = DecodeBatch(out.bytes());
  ASSERT_FALSE(decoded.ok());
  EXPECT_EQ(decoded.error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace holdfast::codec
