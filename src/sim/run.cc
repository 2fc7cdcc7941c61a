#include "sim/run.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <set>
#include <utility>

#include <fmt/core.h>

#include "base/id.h"
#include "sim/cluster.h"
#include "sim/faults.h"
#include "sim/worker.h"

namespace holdfast::sim {
namespace {

constexpr int kNodes = 3;
constexpr int kWorkers = 8;
constexpr Duration kStep = Millis(250);
constexpr Duration kLiveWithin = Seconds(30);
constexpr std::uint64_t kOperationsMin = 1000;

class Life {
 public:
  explicit Life(const RunOptions& options)
      : options_(options),
        dice_(Dice(options.seed).Split(1)),
        cluster_(options.seed, kNodes),
        faults_(cluster_, workers_, dice_.Split(2), options.without) {
    cluster_.options.snapshot_bytes = dice_.OneIn(2) ? 20'000 : 1 << 20;
    cluster_.options.alive_for = Seconds(4);
    // Batches of several fragments, of which a deposed leader may have written some.
    cluster_.options.engine.entry_bytes_max = dice_.OneIn(2) ? 200 : 1 << 20;
    cluster_.on_applied = [this](const core::Batch&, const core::Applied& applied) {
      OnApplied(applied);
    };
    for (int i = 0; i < kWorkers; ++i) {
      workers_.push_back(std::make_unique<Worker>(cluster_, resources_, i,
                                                  dice_.Split(10 + static_cast<std::uint64_t>(i)),
                                                  Worker::Options{}));
      workers_.back()->was_granted = [this](const std::string& lease, std::uint64_t token) {
        return granted_.contains({lease, token});
      };
    }
  }

  RunResult Run() {
    for (int node = 0; node < kNodes; ++node) {
      cluster_.Start(node);
    }
    const BootTime begun = cluster_.now();
    cluster_.SetNastiness(faults_.DrawNastiness());
    for (const auto& worker : workers_) {
      worker->SetNastiness(faults_.DrawClientNastiness());
      worker->Start();
    }
    while (Passed(begun) < options_.faults_for && cluster_.violation().empty()) {
      faults_.Strike(kStep);
      cluster_.RunFor(kStep);
    }
    const BootTime healed = cluster_.now();
    if (cluster_.violation().empty()) {
      Heal();
    }
    return Result(begun, healed);
  }

 private:
  Duration Passed(BootTime since) { return cluster_.now() - since; }

  // What all clients believe at the moment when somebody else gets what they hold.
  void OnApplied(const core::Applied& applied) {
    for (const core::Event& event : applied.events) {
      if (event.kind != core::EventKind::kGranted) {
        continue;
      }
      granted_.emplace(ToHex(event.capability), event.token);
      for (const auto& worker : workers_) {
        const std::uint64_t token = worker->BelievesToHold(event.resource);
        if (token != 0 && token < event.token) {
          cluster_.Violated(
              fmt::format("I8: a client still acts on {} with token {} when {} is "
                          "granted",
                          event.resource, token, event.token));
        }
      }
    }
  }

  void Heal() {
    cluster_.SetNastiness({});
    for (const auto& worker : workers_) {
      worker->SetNastiness({});
      worker->Finish();
    }
    cluster_.RunFor(Seconds(6));  // what is down, cut off or paused comes back
    faults_.Heal();
    const auto live = [this] {
      return cluster_.Leader() >= 0 &&
             std::all_of(workers_.begin(), workers_.end(), [](const auto& w) { return w->Idle(); });
    };
    if (!cluster_.RunUntil(live, kLiveWithin) && cluster_.violation().empty()) {
      cluster_.Violated(cluster_.Leader() < 0 ? "liveness: nobody leads after the faults stopped"
                                              : "liveness: a client does not come to its end");
    }
    CheckNodes();
    CheckResources();
  }

  bool Follows(int node) {
    return cluster_.IsUp(node) && cluster_.member(node).role() != engine::Role::kFailed &&
           cluster_.member(node).machine().index() + 10 >= cluster_.applied();
  }

  void CheckNodes() {
    for (int node = 0; node < kNodes; ++node) {
      if (!cluster_.RunUntil([&] { return Follows(node); }, kLiveWithin)) {
        cluster_.Violated(
            !cluster_.IsUp(node) ? "liveness: a node is down"
            : cluster_.member(node).role() == engine::Role::kFailed
                ? "a node failed: " + cluster_.member(node).error().message
                : fmt::format("liveness: a node does not follow, it is {} at {} of {}",
                              engine::RoleName(cluster_.member(node).role()),
                              cluster_.member(node).machine().index(), cluster_.applied()));
        return;
      }
      const engine::MemberStatus status = cluster_.member(node).Look();
      cluster_.counts()["unknown append"] += status.unknown_appends;
      cluster_.counts()["takeover"] += status.takeovers;
    }
  }

  // Every lock can be had again: nobody's lease or place in a queue was left behind.
  void CheckResources() {
    for (std::uint64_t i = 0; i < Worker::Options{}.resources; ++i) {
      const std::string resource = "r" + std::to_string(i);
      const std::uint64_t tag = 1'000'000 + i;
      core::Command acquire = AcquireOf(resource, "last" + std::to_string(i));
      std::get<core::Acquire>(acquire.body).wait = Seconds(25);
      if (!cluster_.violation().empty()) {
        return;
      }
      if (!cluster_.Propose(tag, std::move(acquire))) {
        cluster_.Violated("liveness: nobody takes requests");
        return;
      }
      std::optional<engine::Reply> reply;
      cluster_.RunUntil([&] { return (reply = cluster_.TakeReply(tag)).has_value(); }, kLiveWithin);
      const auto* outcome = reply ? std::get_if<core::Outcome>(&reply->answer) : nullptr;
      const auto* granted = outcome ? std::get_if<core::Granted>(outcome) : nullptr;
      if (granted == nullptr) {
        cluster_.Violated("liveness: " + resource + " cannot be had");
      } else if (granted->token <= resources_.highest(resource)) {
        cluster_.Violated("I2: " + resource +
                          " was written under a token that is not below a new "
                          "one");
      }
    }
  }

  RunResult Result(BootTime begun, BootTime healed) {
    RunResult result;
    result.seed = options_.seed;
    result.violation = cluster_.violation();
    result.simulated = Passed(begun);
    result.recovered_in = Passed(healed);
    for (const auto& worker : workers_) {
      result.operations += worker->operations();
    }
    result.events = cluster_.scheduler().events();
    result.enabled = faults_.enabled();
    result.counts = cluster_.counts();
    if (result.enabled.contains("slow network")) {
      result.counts["slow network"] = 1;
    }
    result.trace = cluster_.scheduler().trace();
    result.counted =
        options_.faults_for >= Seconds(60) && result.operations >= kOperationsMin &&
        std::all_of(result.enabled.begin(), result.enabled.end(), [&](const std::string& name) {
          return result.counts.contains(name) && result.counts.at(name) > 0;
        });
    return result;
  }

  const RunOptions& options_;
  Dice dice_;
  Cluster cluster_;
  Resources resources_;
  std::vector<std::unique_ptr<Worker>> workers_;
  Faults faults_;
  std::set<std::pair<std::string, std::uint64_t>> granted_;  // lease and token
};

}  // namespace

RunResult Run(const RunOptions& options) {
  try {
    return Life(options).Run();
  } catch (const std::exception& error) {
    RunResult result;
    result.seed = options.seed;
    result.violation = std::string("an exception: ") + error.what();
    return result;
  }
}

const std::vector<std::string>& FaultClasses() {
  return Faults::Classes();
}

const std::vector<std::string>& RareEvents() {
  static const std::vector<std::string> events = {"leader deposed",
                                                  "leadership begun",
                                                  "unknown append",
                                                  "watch behind a compaction",
                                                  "snapshot installed",
                                                  "snapshot source unavailable",
                                                  "session in jeopardy",
                                                  "hold lost",
                                                  "old token refused by a resource"};
  return events;
}

}  // namespace holdfast::sim
