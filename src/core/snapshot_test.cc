// Snapshots: what goes in comes out, and damaged bytes are refused without harm.
#include <memory>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "core/limits.h"
#include "core/machine.h"

namespace holdfast::core {
namespace {

Id128 IdOf(std::uint8_t number) {
  Id128 id{};
  id[0] = number;
  return id;
}

// What an acquire may have beside its name.
struct How {
  Duration wait{};
  Id128 session{};
  Duration ttl{};
};

// A state with something in every table: holds and waiters with and without sessions, attached and
// detached, provisional, revoked and delayed; request ids of every kind with clients; a deleted
// namespace; epochs; sessions that are over.
class Example {
 public:
  Example() {
    Run({}, Seconds(0), EpochStart{1, Seconds(10)});
    ChangeNamespace create{NamespaceVerb::kCreate, "gone", {}};
    Run({}, {}, create);
    AcquireIn("gone", "a", "g1", 1);
    Run("gone", {}, Release{"a", IdOf(1)});
    create.verb = NamespaceVerb::kDelete;
    Run({}, {}, create);
    Run("default", {}, OpenSession{"s1", "S", Seconds(60), {"c", 1, 0}, IdOf(2)});
    Run("default", {}, OpenSession{"s2", "T", Seconds(2), {}, IdOf(3)});
    AcquireIn("default", "held", "r1", 4);
    AcquireIn("default", "held", "r2", 5, {Seconds(60)});
    AcquireIn("default", "held", "r3", 6, {Seconds(60), IdOf(2)});
    AcquireIn("default", "on-session", "r4", 7, {{}, IdOf(2)});
    AcquireIn("default", "refused", "r5", 8, {{}, IdOf(3)});
    AcquireIn("default", "refused", "r6", 9);
    AcquireIn("default", "revoked", "r7", 10, {{}, IdOf(2)});
    Run("default", {}, Break{"revoked", "because", false, false, false});
    AcquireIn("default", "handed-over", "r8", 11);
    AcquireIn("default", "handed-over", "r9", 12, {Seconds(60)});
    AcquireIn("default", "delayed", "r10", 13, {{}, {}, Seconds(2)});
    AcquireIn("default", "delayed", "r11", 14, {Seconds(60)});
    Run("default", {}, Cancel{"held", "r12", "A", {"c", 5, 2}});
    for (int i = 0; i < 12; ++i) {
      Run({}, Millis(200), {});
    }
    Run("default", {}, Release{"handed-over", IdOf(11)});
    Run({}, {}, EpochStart{2, Seconds(5)});
    AcquireIn("default", "held", "r2", 15, {Seconds(60)});
  }

  std::string Bytes() const {
    std::string bytes;
    machine.Save([&](std::string_view piece) { bytes.append(piece); });
    return bytes;
  }

  Batch NextBatch(Duration step) {
    Batch batch;
    batch.index = machine.index() + 1;
    batch.epoch = machine.epoch();
    batch.time = machine.now() + step;
    batch.wall = WallTime(batch.time.time_since_epoch());
    return batch;
  }

  Machine machine;

 private:
  void Run(const std::string& name_space, Duration step, std::optional<CommandBody> body) {
    Batch batch = NextBatch(step);
    if (body.has_value()) {
      if (const auto* start = std::get_if<EpochStart>(&*body); start != nullptr) {
        batch.epoch = start->epoch;
      }
      batch.commands.push_back(Command{"p", name_space, std::move(*body)});
    }
    Applied applied;
    machine.Apply(batch, applied);
    ASSERT_EQ(machine.FindInconsistency(), "");
  }

  void AcquireIn(const std::string& name_space, const std::string& resource, const std::string& id,
                 std::uint8_t lease, const How& how = {}) {
    Acquire acquire;
    acquire.resource = resource;
    acquire.request_id = id;
    acquire.owner = "A";
    acquire.wait = how.wait;
    acquire.session = how.session;
    acquire.ttl = how.ttl;
    acquire.metadata = {{"k", "v"}};
    acquire.client = {"c", lease, 0};
    acquire.lease_id = IdOf(lease);
    Run(name_space, {}, std::move(acquire));
  }
};

TEST(Snapshot, TheExampleHasSomethingInEveryTable) {
  const Example example;
  const auto counts =
      std::get<CountsView>(example.machine.Answer(GetCounts{}, example.machine.now()));
  EXPECT_GE(counts.holds, 4U);
  EXPECT_GE(counts.waiters, 3U);
  EXPECT_EQ(counts.sessions, 1U);
  EXPECT_GE(counts.request_ids, 10U);
}

TEST(Snapshot, TheCopySavesToTheSameBytesAndGoesOnAlike) {
  Example example;
  const std::string bytes = example.Bytes();
  Result<std::unique_ptr<Machine>> copy = Machine::Load(bytes);
  ASSERT_TRUE(copy.ok()) << copy.error().message;
  std::string again;
  (*copy)->Save([&](std::string_view piece) { again.append(piece); });
  EXPECT_EQ(again, bytes);
  EXPECT_EQ((*copy)->FindInconsistency(), "");
  for (int i = 0; i < 400; ++i) {
    const Batch batch = example.NextBatch(Seconds(1));
    Applied a;
    Applied b;
    example.machine.Apply(batch, a);
    (*copy)->Apply(batch, b);
    ASSERT_EQ(example.machine.trace(), (*copy)->trace());
  }
  EXPECT_EQ(example.machine.Digest(), (*copy)->Digest());
}

// Whatever Load makes of damaged bytes, it must not crash, and what it accepts can be looked at and
// saved.
void LoadDamaged(const std::string& bytes) {
  Result<std::unique_ptr<Machine>> loaded = Machine::Load(bytes);
  if (loaded.ok()) {
    static_cast<void>((*loaded)->FindInconsistency());
    static_cast<void>((*loaded)->Digest());
  } else {
    EXPECT_TRUE(loaded.error().code == ErrorCode::kCorrupt ||
                loaded.error().code == ErrorCode::kUnsupported);
  }
}

TEST(Snapshot, EveryTruncationIsRefused) {
  const std::string bytes = Example().Bytes();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const Result<std::unique_ptr<Machine>> loaded =
        Machine::Load(std::string_view(bytes).substr(0, size));
    ASSERT_FALSE(loaded.ok()) << size;
  }
  EXPECT_FALSE(Machine::Load(bytes + '\0').ok()) << "trailing bytes";
}

TEST(Snapshot, NoBitFlipCrashes) {
  const std::string bytes = Example().Bytes();
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(static_cast<unsigned char>(damaged[at]) ^
                                      (1U << static_cast<unsigned>(bit)));
      LoadDamaged(damaged);
    }
  }
}

TEST(Snapshot, NoMixOfPiecesCrashes) {
  const std::string bytes = Example().Bytes();
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = bytes;
    const std::size_t from = random() % bytes.size();
    const std::size_t to = random() % bytes.size();
    const std::size_t size = random() % 64;
    switch (random() % 3) {
      case 0:
        damaged.erase(from, size);
        break;
      case 1:
        damaged.insert(to, bytes.substr(from, size));
        break;
      default:
        damaged.replace(to, size, bytes.substr(from, size));
        break;
    }
    LoadDamaged(damaged);
  }
}

TEST(Snapshot, ANewerFormatOrLevelIsUnsupported) {
  std::string bytes = Example().Bytes();
  ASSERT_EQ(bytes[0], 1);
  ASSERT_EQ(bytes[1], static_cast<char>(kFeatureLevelMax));
  std::string format = bytes;
  format[0] = 2;
  EXPECT_EQ(Machine::Load(format).error().code, ErrorCode::kUnsupported);
  std::string level = bytes;
  level[1] = static_cast<char>(kFeatureLevelMax + 1);
  EXPECT_EQ(Machine::Load(level).error().code, ErrorCode::kUnsupported);
}

TEST(Snapshot, EqualStatesHaveEqualDigestsAndOthersDoNot) {
  Example a;
  const Example b;
  EXPECT_EQ(a.machine.Digest(), b.machine.Digest());
  Applied applied;
  a.machine.Apply(a.NextBatch(Duration(1)), applied);
  EXPECT_NE(a.machine.Digest(), b.machine.Digest());
}

}  // namespace
}  // namespace holdfast::core
