#include "engine/engine.h"

#include <gtest/gtest.h>

#include "base/planted.h"
#include "codec/batch_codec.h"
#include "engine/recovery.h"
#include "journal/memory_journal.h"

namespace holdfast::engine {
namespace {

class ManualClock : public Clock {
 public:
  BootTime Boot() override {
    boot_ += read_cost;
    return boot_;
  }
  WallTime Wall() override { return wall; }
  void Advance(Duration by) { boot_ += by; }

  Duration read_cost{};  // how much time passes at each look at the clock
  WallTime wall{Seconds(1'000)};

 private:
  BootTime boot_{Seconds(50)};
};

core::Command AcquireOf(std::string resource, std::string id, Duration ttl = Seconds(10),
                        Duration wait = {}) {
  core::Acquire acquire;
  acquire.resource = std::move(resource);
  acquire.request_id = std::move(id);
  acquire.ttl = ttl;
  acquire.wait = wait;
  return core::Command{"p", "default", acquire};
}

// One engine over a memory journal, driven by hand.
class Bench {
 public:
  explicit Bench(const EngineOptions& options = {}) : options_(options) { Restart(); }

  // A new process on the same log: the state is what replay gives.
  void Restart() {
    auto machine = std::make_unique<core::Machine>();
    Replayer replayer(*machine);
    for (std::uint64_t index = 1; index <= journal.Last().index; ++index) {
      const auto entries = journal.Read(index, 1);
      EXPECT_TRUE(replayer.Feed(entries->front()).ok());
    }
    engine = std::make_unique<Engine>(std::move(machine), journal.Last(), options_, std::nullopt);
    Turn();
  }
  std::uint64_t Propose(core::Command command) {
    const std::uint64_t tag = next_tag_++;
    engine->Accept(EngineInput{EngineInput::Kind::kPropose, 1, Proposal{tag, std::move(command)}},
                   output);
    return tag;
  }
  std::uint64_t Ask(core::Query query) {
    const std::uint64_t tag = next_tag_++;
    engine->Accept(EngineInput{EngineInput::Kind::kPropose, 1, Proposal{tag, std::move(query)}},
                   output);
    return tag;
  }
  void Abandon(std::uint64_t tag) {
    EngineInput input;
    input.kind = EngineInput::Kind::kAbandon;
    input.front = 1;
    input.proposal.tag = tag;
    engine->Accept(std::move(input), output);
  }
  void Turn() {
    const auto& entries = engine->Seal(clock);
    EXPECT_TRUE(journal.Append(entries).ok());
    engine->Committed();
    engine->Answer(output);
    engine->AnswerReads(clock.Boot(), output);
  }
  // Nothing if it is still open. Takes the reply.
  std::optional<Reply> ReplyTo(std::uint64_t tag) {
    for (auto at = output.replies.begin(); at != output.replies.end(); ++at) {
      if (at->second.tag == tag) {
        std::optional<Reply> reply = std::move(at->second);
        output.replies.erase(at);
        return reply;
      }
    }
    return std::nullopt;
  }
  template <typename T>
  T Outcome(std::uint64_t tag) {
    std::optional<Reply> reply = ReplyTo(tag);
    EXPECT_TRUE(reply.has_value());
    return std::move(std::get<T>(std::get<core::Outcome>(reply->answer)));
  }

  ManualClock clock;
  journal::MemoryJournal journal;
  std::unique_ptr<Engine> engine;
  EngineOutput output;

 private:
  EngineOptions options_;
  std::uint64_t next_tag_ = 1;
};

// I7 in the engine's terms: state time that a stretch of real time adds, by the engine against the
// rule.
Duration StateTimeOver(Bench& bench, const std::function<void()>& stretch) {
  const Timestamp before = bench.engine->machine().now();
  stretch();
  return bench.engine->machine().now() - before;
}

void StallForAMinuteThenTick(Bench& bench) {
  bench.clock.Advance(Seconds(60));
  for (int i = 0; i < 20; ++i) {
    bench.Turn();
    bench.clock.Advance(Millis(200));
  }
}

TEST(StateTime, AStallIsLostForEver) {
  Bench bench;
  EXPECT_LE(StateTimeOver(bench, [&] { StallForAMinuteThenTick(bench); }),
            Seconds(1) + 20 * Millis(200));
}

TEST(StateTime, TheFirstBatchAfterARestartAddsNothing) {
  Bench bench;
  bench.clock.Advance(Millis(900));
  EXPECT_EQ(StateTimeOver(bench, [&] { bench.Restart(); }), Duration{});
}

TEST(StateTime, ManyShortBatchesAddUpToRealTime) {
  Bench bench;
  const Duration added = StateTimeOver(bench, [&] {
    for (int i = 0; i < 10'000; ++i) {
      bench.clock.Advance(std::chrono::microseconds(999));
      bench.Turn();
    }
  });
  EXPECT_EQ(added, 10'000 * std::chrono::microseconds(999));
}

// The remaining time in an answer, counted from the moment of sending, must never reach beyond the
// lease's real end.
Duration OverstatedRemaining(Bench& bench) {
  bench.Turn();
  bench.clock.Advance(Millis(900));  // the request arrives 900 ms after the last batch
  const BootTime sent = bench.clock.Boot();
  const std::uint64_t tag = bench.Propose(AcquireOf("a", "r"));
  bench.Turn();
  const BootTime believed_end = sent + bench.Outcome<core::Granted>(tag).remaining;
  // When does the state say that it is over?
  for (int i = 0; i < 200; ++i) {
    bench.clock.Advance(Millis(100));
    bench.Turn();
    const std::uint64_t asked = bench.Ask(core::Leader{"default", "a"});
    bench.Turn();
    const auto reply = bench.ReplyTo(asked);
    if (std::get<core::LeaderView>(std::get<core::View>(reply->answer)).vacant) {
      return std::max(believed_end - bench.clock.Boot(), Duration{});
    }
  }
  ADD_FAILURE() << "the lease never ended";
  return {};
}

TEST(StateTime, RemainingIsCountedFromAStampAfterTheSeal) {
  Bench bench;
  EXPECT_EQ(OverstatedRemaining(bench), Duration{});
}

#ifdef HOLDFAST_PLANTED_BUGS
TEST(StateTimePlanted, CatchingUpAfterAStallGoesRed) {
  const PlantBug bug(Bug::kStateTimeCatchesUp);
  Bench bench;
  EXPECT_GT(StateTimeOver(bench, [&] { StallForAMinuteThenTick(bench); }),
            Seconds(1) + 20 * Millis(200));
}

TEST(StateTimePlanted, KeepingTheAnchorOverAnEpochGoesRed) {
  const PlantBug bug(Bug::kStateTimeKeepsAnchor);
  StateTimer timer(Timestamp{});
  timer.Commit(timer.Stamp(BootTime(Seconds(1))));
  timer.StartEpoch(Timestamp{});
  EXPECT_GT(timer.Stamp(BootTime(Seconds(2))), Timestamp{});
}

TEST(StateTimePlanted, TruncationThatStopsTimeGoesRed) {
  const PlantBug bug(Bug::kStateTimeTruncates);
  Bench bench;
  const Duration added = StateTimeOver(bench, [&] {
    for (int i = 0; i < 10'000; ++i) {
      bench.clock.Advance(std::chrono::microseconds(999));
      bench.Turn();
    }
  });
  EXPECT_LT(added, Seconds(1));
}

TEST(StateTimePlanted, AStampBeforeTheSealGoesRed) {
  const PlantBug bug(Bug::kStateTimeBeforeSeal);
  Bench bench;
  bench.Turn();
  EXPECT_GT(OverstatedRemaining(bench), Duration{});
}
#endif

TEST(StateTime, ANewEpochForgetsTheAnchor) {
  StateTimer timer(Timestamp{});
  timer.Commit(timer.Stamp(BootTime(Seconds(1))));
  timer.StartEpoch(Timestamp{});
  EXPECT_EQ(timer.Stamp(BootTime(Seconds(2))), Timestamp{});
}

TEST(Engine, AWaiterIsAnsweredWhenTheLockComesFree) {
  Bench bench;
  const std::uint64_t first = bench.Propose(AcquireOf("a", "r1"));
  const std::uint64_t second = bench.Propose(AcquireOf("a", "r2", Seconds(10), Seconds(5)));
  bench.Turn();
  const auto granted = bench.Outcome<core::Granted>(first);
  EXPECT_FALSE(bench.ReplyTo(second).has_value());
  bench.Propose(core::Command{"p", "default", core::Release{"a", granted.lease_id}});
  bench.Turn();
  const auto handed = bench.Outcome<core::Granted>(second);
  EXPECT_TRUE(handed.provisional);
  EXPECT_GT(handed.token, granted.token);
}

TEST(Engine, AnAbandonedWaiterIsDetachedAlsoWhenItWasStillInTheQueueOfTheEngine) {
  for (const bool before_the_batch : {true, false}) {
    Bench bench;
    const std::uint64_t first = bench.Propose(AcquireOf("a", "r1"));
    const std::uint64_t second = bench.Propose(AcquireOf("a", "r2", Seconds(10), Seconds(5)));
    if (before_the_batch) {
      bench.Abandon(second);
    }
    bench.Turn();
    if (!before_the_batch) {
      bench.Abandon(second);
    }
    bench.Turn();  // the detach
    const auto granted = bench.Outcome<core::Granted>(first);
    bench.Propose(core::Command{"p", "default", core::Release{"a", granted.lease_id}});
    bench.Turn();
    EXPECT_FALSE(bench.ReplyTo(second).has_value());
    EXPECT_EQ(bench.engine->machine().last_token(),
              granted.token);  // a detached waiter is never granted
    EXPECT_EQ(bench.engine->Stats().waiting, 0U);
  }
}

TEST(Engine, TheSameRequestOnANewConnectionSupersedesTheOldOne) {
  Bench bench;
  const std::uint64_t first = bench.Propose(AcquireOf("a", "r1"));
  const std::uint64_t old_wait = bench.Propose(AcquireOf("a", "r2", Seconds(10), Seconds(5)));
  bench.Turn();
  const std::uint64_t new_wait = bench.Propose(AcquireOf("a", "r2", Seconds(10), Seconds(5)));
  bench.Turn();
  EXPECT_EQ(bench.Outcome<core::Refused>(old_wait).code, core::RefusalCode::kSuperseded);
  bench.Propose(core::Command{"p", "default",
                              core::Release{"a", bench.Outcome<core::Granted>(first).lease_id}});
  bench.Turn();
  EXPECT_TRUE(bench.Outcome<core::Granted>(new_wait).provisional);
}

TEST(Engine, AFailedAppendDoesNothingAndTheNextBatchTakesItsPlace) {
  Bench bench;
  const std::uint64_t tag = bench.Propose(AcquireOf("a", "r1"));
  bench.engine->Seal(bench.clock);
  bench.engine->Failed(Error{ErrorCode::kUnavailable, "disk full", {}, {}}, bench.output);
  const auto reply = bench.ReplyTo(tag);
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(std::get<Error>(reply->answer).code, ErrorCode::kUnavailable);
  EXPECT_EQ(bench.engine->machine().last_token(), 0U);
  const std::uint64_t again = bench.Propose(AcquireOf("a", "r1"));
  bench.Turn();
  EXPECT_EQ(bench.Outcome<core::Granted>(again).token, 1U);
}

TEST(Engine, ALargeBatchIsSplitIntoFragmentsAndReplaysToTheSameState) {
  EngineOptions options;
  options.entry_bytes_max = 512;
  Bench bench(options);
  for (int i = 0; i < 100; ++i) {
    bench.Propose(AcquireOf("res-" + std::to_string(i), "r" + std::to_string(i)));
  }
  bench.Turn();
  EXPECT_GT(bench.journal.Last().index, 10U);
  core::Machine replayed;
  Replayer replayer(replayed);
  const auto entries = bench.journal.Read(1, std::size_t{1} << 30U);
  for (const journal::Entry& entry : *entries) {
    ASSERT_TRUE(replayer.Feed(entry).ok());
  }
  EXPECT_EQ(replayed.Digest(), bench.engine->machine().Digest());
}

TEST(Engine, AnIncompleteRunOfFragmentsIsVoid) {
  EngineOptions options;
  options.entry_bytes_max = 512;
  Bench bench(options);
  for (int i = 0; i < 20; ++i) {
    bench.Propose(AcquireOf("res-" + std::to_string(i), "r" + std::to_string(i)));
  }
  std::vector<journal::Entry> entries = bench.engine->Seal(bench.clock);
  ASSERT_GT(entries.size(), 2U);
  entries.pop_back();
  ASSERT_TRUE(bench.journal.Append(entries).ok());
  bench.Restart();
  EXPECT_EQ(bench.engine->machine().last_token(), 0U);
  const std::uint64_t tag = bench.Propose(AcquireOf("res-1", "r1"));
  bench.Turn();
  EXPECT_EQ(bench.Outcome<core::Granted>(tag).token, 1U);
}

TEST(Engine, RenewalsGoFirstByTimeLeftWhenNotEverythingFits) {
  EngineOptions options;
  options.batch_commands_max = 2;
  Bench bench(options);
  std::vector<Id128> leases;
  for (int i = 0; i < 4; ++i) {
    const std::uint64_t tag =
        bench.Propose(AcquireOf("r" + std::to_string(i), "q" + std::to_string(i), Seconds(10 + i)));
    bench.Turn();
    leases.push_back(bench.Outcome<core::Granted>(tag).lease_id);
  }
  const std::uint64_t other = bench.Propose(AcquireOf("other", "q"));
  std::vector<std::uint64_t> renewals;
  for (int i = 3; i >= 0; --i) {
    renewals.push_back(bench.Propose(
        core::Command{"p", "default",
                      core::Renew{"r" + std::to_string(i), leases[static_cast<std::size_t>(i)]}}));
  }
  bench.Turn();  // the two with the least time left
  EXPECT_TRUE(bench.ReplyTo(renewals[3]).has_value() && bench.ReplyTo(renewals[2]).has_value());
  EXPECT_FALSE(bench.ReplyTo(other).has_value());
  bench.Turn();
  EXPECT_TRUE(bench.ReplyTo(renewals[1]).has_value() && bench.ReplyTo(renewals[0]).has_value());
  bench.Turn();
  EXPECT_TRUE(bench.ReplyTo(other).has_value());
}

TEST(Engine, AFullQueueRefusesAtOnceButKeepsRoomForRenewals) {
  EngineOptions options;
  options.admission.others_max = 2;
  Bench bench(options);
  const std::uint64_t held = bench.Propose(AcquireOf("a", "r"));
  bench.Turn();
  const Id128 lease = bench.Outcome<core::Granted>(held).lease_id;
  bench.Propose(AcquireOf("b", "r1"));
  bench.Propose(AcquireOf("c", "r2"));
  const std::uint64_t refused = bench.Propose(AcquireOf("d", "r3"));
  const std::uint64_t renewal =
      bench.Propose(core::Command{"p", "default", core::Renew{"a", lease}});
  EXPECT_EQ(std::get<Error>(bench.ReplyTo(refused)->answer).code, ErrorCode::kOverloaded);
  bench.Turn();
  EXPECT_EQ(bench.Outcome<core::Renewed>(renewal).ttl, Seconds(10));
}

TEST(Engine, WallClockJumpsDoNothing) {
  Bench bench;
  const std::uint64_t tag = bench.Propose(AcquireOf("a", "r1"));
  bench.Turn();
  const Id128 lease = bench.Outcome<core::Granted>(tag).lease_id;
  for (const Duration jump : {Seconds(3600), -Seconds(7200)}) {
    bench.clock.wall += jump;
    bench.clock.Advance(Millis(200));
    const std::uint64_t renewal =
        bench.Propose(core::Command{"p", "default", core::Renew{"a", lease}});
    bench.Turn();
    EXPECT_EQ(bench.Outcome<core::Renewed>(renewal).remaining, Seconds(10));
  }
}

}  // namespace
}  // namespace holdfast::engine
