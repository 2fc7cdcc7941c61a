// What a simulated service looks like from outside, whichever shape it has: nodes that take
// requests, die and come back. Holds what all shapes share: time, chance, what happened, and the
// checks over the log's history.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "check/history_checker.h"
#include "core/machine.h"
#include "engine/front.h"
#include "sim/dice.h"
#include "sim/scheduler.h"

namespace holdfast::sim {

// How a node's clocks differ from the true time.
struct ClockFault {
  std::int64_t rate_ppm = 0;  // parts per million too fast
  Duration wall_step{};
};

using EngineRequest = std::variant<core::Command, core::Query>;
using OnReply = std::function<void(engine::Reply&&)>;

class Site {
 public:
  explicit Site(std::uint64_t seed) : dice_(seed) {}
  virtual ~Site() = default;
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;

  virtual int size() const = 0;
  virtual bool IsUp(int node) const = 0;
  virtual bool IsPaused(int node) const = 0;
  // Changes with each start of the node: what was asked of an earlier one is not answered any more.
  virtual int LifeOf(int node) const = 0;
  // Somebody takes requests.
  virtual bool Serves() const = 0;
  // Empty: the node is up and has all of the log. Else what is wrong with it.
  virtual std::string WhyBehind(int node) = 0;

  // A request that has arrived at a node that is up and not paused, as a front hands it over.
  // `reply` runs at most once: never if the node dies before. The number is for Abandon.
  virtual std::uint64_t Serve(int node, EngineRequest request, OnReply reply) = 0;
  virtual void Abandon(int node, std::uint64_t number) = 0;

  virtual void Start(int node) = 0;
  // The process dies, with everything that is not on its disk.
  virtual void Kill(int node) = 0;
  // So does the machine: what was not synced has an uncertain fate.
  virtual void CutPower(int node) = 0;
  // Nothing of it runs, its messages wait.
  virtual void Pause(int node, Duration duration) = 0;
  virtual void SetClock(int node, const ClockFault& fault) = 0;

  void RunFor(Duration duration) { scheduler_.RunFor(duration); }
  bool RunUntil(const std::function<bool()>& condition, Duration at_most) {
    return scheduler_.RunUntil(condition, at_most);
  }
  BootTime now() const { return scheduler_.now(); }
  Scheduler& scheduler() { return scheduler_; }
  Dice& random() { return dice_; }

  // The first rule that was broken, or empty.
  const std::string& violation() const { return violation_; }
  void Violated(const std::string& rule) {
    if (violation_.empty()) {
      violation_ = rule;
    }
  }
  // How often what happened; see run.h.
  std::map<std::string, std::uint64_t>& counts() { return counts_; }
  void Count(const std::string& what) { ++counts_[what]; }

  // Runs when a batch is applied for the first time, by whichever node.
  std::function<void(const core::Batch&, const core::Applied&)> on_applied;

 protected:
  // A batch of the log, in its order, each once.
  void Observe(const core::Batch& batch, const core::Applied& applied,
               const core::Machine& machine) {
    scheduler_.Note(machine.trace());
    if (checker_.has_value()) {
      if (const std::string rule = checker_->Observe(batch, applied, machine.HasBacklog());
          !rule.empty()) {
        Violated(rule);
      }
    }
    if (on_applied) {
      on_applied(batch, applied);
    }
  }

  Scheduler scheduler_;
  Dice dice_;
  std::optional<check::HistoryChecker> checker_{std::in_place};
  std::string violation_;
  std::map<std::string, std::uint64_t> counts_;
};

}  // namespace holdfast::sim
