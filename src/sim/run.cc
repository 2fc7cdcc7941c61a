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
#include "sim/server.h"
#include "sim/worker.h"

namespace holdfast::sim {
namespace {

constexpr int kNodes = 3;
constexpr int kWorkers = 8;
constexpr Duration kStep = Millis(250);
constexpr Duration kSettle = Seconds(6);  // what is down, cut off or paused comes back
constexpr Duration kLiveWithin = Seconds(30);
constexpr Duration kLockWithin = Seconds(60);  // a lease, its grace after a failover, and a queue
constexpr std::uint64_t kOperationsMin = 1000;

class Life {
 public:
  explicit Life(const RunOptions& options) : options_(options), dice_(Dice(options.seed).Split(1)) {
    if (options.seed % 4 == 0) {
      MakeServer();
    } else {
      MakeCluster();
    }
    faults_ = std::make_unique<Faults>(*site_, cluster_, server_, workers_, dice_.Split(2),
                                       options.without);
    site_->on_applied = [this](const core::Batch&, const core::Applied& applied) {
      OnApplied(applied);
    };
    for (int i = 0; i < kWorkers; ++i) {
      workers_.push_back(std::make_unique<Worker>(*site_, resources_, i,
                                                  dice_.Split(10 + static_cast<std::uint64_t>(i)),
                                                  Worker::Options{}));
      workers_.back()->was_granted = [this](const std::string& lease, std::uint64_t token) {
        return granted_.contains({lease, token});
      };
    }
  }

  RunResult Run() {
    for (int node = 0; node < site_->size(); ++node) {
      site_->Start(node);
    }
    const BootTime begun = site_->now();
    NoLockDelay();
    if (cluster_ != nullptr) {
      cluster_->SetNastiness(faults_->DrawNastiness());
    }
    for (const auto& worker : workers_) {
      worker->SetNastiness(faults_->DrawClientNastiness());
      worker->Start();
    }
    while (Passed(begun) < options_.faults_for && Sound()) {
      faults_->Strike(kStep);
      site_->RunFor(kStep);
    }
    const BootTime healed = site_->now();
    if (Sound()) {
      Heal();
    }
    return Result(begun, healed);
  }

 private:
  bool Sound() const { return site_->violation().empty(); }
  Duration Passed(BootTime since) const { return site_->now() - since; }

  void MakeCluster() {
    auto cluster = std::make_unique<Cluster>(options_.seed, kNodes);
    cluster_ = cluster.get();
    cluster->options.snapshot_bytes = dice_.OneIn(2) ? 20'000 : 1 << 20;
    cluster->options.alive_for = Seconds(4);
    // Batches of several fragments, of which a deposed leader may have written some.
    cluster->options.engine.entry_bytes_max = dice_.OneIn(2) ? 200 : 1 << 20;
    site_ = std::move(cluster);
  }

  void MakeServer() {
    auto server = std::make_unique<Server>(options_.seed);
    server_ = server.get();
    server->snapshot_bytes = dice_.OneIn(2) ? 20'000 : 1 << 20;
    server->options.entry_bytes_max = dice_.OneIn(2) ? 200 : 1 << 20;
    site_ = std::move(server);
  }

  // It would hide a client that acts for too long: somebody else gets the lock at its deadline.
  void NoLockDelay() {
    core::ChangeNamespace change;
    change.name = "default";
    change.patch.protection = core::Guarantee::kFenced;
    change.patch.lock_delay = Duration::zero();
    bool done = false;
    for (int node = 0; !done && node < site_->size();
         node = (node + 1) % site_->size(), site_->RunFor(kStep)) {
      site_->Serve(node, core::Command{"admin", "", change},
                   [&done](engine::Reply&& reply) { done = reply.index > 0; });
      site_->RunFor(kStep);
    }
  }

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
          site_->Violated(
              fmt::format("I8: a client still acts on {} with token {} when {} is granted",
                          event.resource, token, event.token));
        }
      }
    }
  }

  void Heal() {
    if (cluster_ != nullptr) {
      cluster_->SetNastiness({});
    }
    for (const auto& worker : workers_) {
      worker->SetNastiness({});
      worker->Finish();
    }
    site_->RunFor(kSettle);
    faults_->Heal();
    const auto live = [this] {
      return site_->Serves() &&
             std::all_of(workers_.begin(), workers_.end(), [](const auto& w) { return w->Idle(); });
    };
    if (!site_->RunUntil(live, kLiveWithin)) {
      site_->Violated(site_->Serves() ? "liveness: a client does not come to its end"
                                      : "liveness: nobody serves after the faults have stopped");
    }
    CheckNodes();
    CheckResources();
  }

  void CheckNodes() {
    for (int node = 0; node < site_->size(); ++node) {
      if (!site_->RunUntil([&] { return site_->WhyBehind(node).empty(); }, kLiveWithin)) {
        site_->Violated("liveness: " + site_->WhyBehind(node));
        return;
      }
      if (cluster_ != nullptr) {
        const engine::MemberStatus status = cluster_->member(node).Look();
        site_->counts()["unknown append"] += status.unknown_appends;
        site_->counts()["takeover"] += status.takeovers;
      }
    }
  }

  struct Wish {
    bool asked = false;
    std::optional<core::Token> token;
    std::string said = "no answer";
  };

  // At any node that runs, under a request id that stays the same.
  void Ask(const std::string& resource, const std::shared_ptr<Wish>& wish) {
    for (int node = 0; node < site_->size() && !wish->asked; ++node) {
      if (!site_->IsUp(node) || site_->IsPaused(node)) {
        continue;
      }
      core::Command acquire = AcquireOf(resource, "last-" + resource);
      std::get<core::Acquire>(acquire.body).wait = kLockWithin;
      wish->asked = true;
      site_->Serve(node, std::move(acquire), [wish](engine::Reply&& reply) {
        const auto* outcome = std::get_if<core::Outcome>(&reply.answer);
        const auto* granted = outcome ? std::get_if<core::Granted>(outcome) : nullptr;
        const auto* refused = outcome ? std::get_if<core::Refused>(outcome) : nullptr;
        const auto* error = std::get_if<Error>(&reply.answer);
        wish->said = refused != nullptr ? core::RefusalName(refused->code)
                     : error != nullptr ? error->message
                                        : "granted";
        wish->asked = outcome != nullptr;  // else it is asked again
        wish->token = granted != nullptr ? std::optional(granted->token) : std::nullopt;
      });
    }
  }

  // Every lock can be had again: nobody's lease or place in a queue was left behind.
  void CheckResources() {
    for (std::uint64_t i = 0; i < Worker::Options{}.resources && Sound(); ++i) {
      const std::string resource = "r" + std::to_string(i);
      const auto wish = std::make_shared<Wish>();
      const BootTime until = site_->now() + kLockWithin;
      while (!wish->token && site_->now() < until) {
        Ask(resource, wish);
        site_->RunUntil([&] { return wish->token.has_value(); }, kStep);
      }
      if (!wish->token) {
        site_->Violated("liveness: " + resource + " cannot be had: " + wish->said);
      } else if (*wish->token <= resources_.highest(resource)) {
        site_->Violated("I2: " + resource +
                        " was written under a token that is not below a new one");
      }
    }
  }

  RunResult Result(BootTime begun, BootTime healed) {
    RunResult result;
    result.seed = options_.seed;
    result.violation = site_->violation();
    result.simulated = Passed(begun);
    result.recovered_in = Passed(healed);
    for (const auto& worker : workers_) {
      result.operations += worker->operations();
    }
    result.events = site_->scheduler().events();
    result.enabled = faults_->enabled();
    result.counts = site_->counts();
    if (result.enabled.contains("slow network")) {
      result.counts["slow network"] = 1;
    }
    result.trace = site_->scheduler().trace();
    result.counted =
        options_.faults_for >= Seconds(60) && result.operations >= kOperationsMin &&
        std::all_of(result.enabled.begin(), result.enabled.end(), [&](const std::string& name) {
          return result.counts.contains(name) && result.counts.at(name) > 0;
        });
    return result;
  }

  const RunOptions& options_;
  Dice dice_;
  std::unique_ptr<Site> site_;
  Cluster* cluster_ = nullptr;
  Server* server_ = nullptr;
  Resources resources_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<Faults> faults_;
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
                                                  "old token refused by a resource",
                                                  "process ended by a failed sync",
                                                  "append refused by a full disk",
                                                  "snapshot written"};
  return events;
}

}  // namespace holdfast::sim
