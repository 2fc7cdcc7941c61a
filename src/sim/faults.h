// The fault classes: which ones a seed has, and what each does. Those that spoil messages are
// shares (cluster.h, worker.h); the others strike now and then.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "sim/cluster.h"
#include "sim/dice.h"
#include "sim/server.h"
#include "sim/site.h"
#include "sim/worker.h"

namespace holdfast::sim {

class Faults {
 public:
  // Switches on a random subset of the classes that the site can have and that are not in
  // `without`. Exactly one of `cluster` and `server` is not null: the site itself.
  Faults(Site& site, Cluster* cluster, Server* server,
         std::vector<std::unique_ptr<Worker>>& workers, const Dice& dice,
         const std::set<std::string>& without);

  const std::set<std::string>& enabled() const { return enabled_; }
  // Of the two kinds of messages, as the classes that are on have it.
  Nastiness DrawNastiness();
  ClientNastiness DrawClientNastiness();
  // What is due in the next `step` of time.
  void Strike(Duration step);
  // Everything that is down is started, clocks go right; messages are the caller's.
  void Heal();

  static const std::vector<std::string>& Classes();

 private:
  struct Blow {
    const char* name;
    Duration every;  // on average
    std::function<void()> strike;
  };
  bool On(const std::string& name) const { return enabled_.contains(name); }
  bool Possible(const std::string& name) const;
  int Share(const std::string& name, int most);
  int AnyNode() { return static_cast<int>(dice_.Below(static_cast<std::uint64_t>(site_.size()))); }
  Worker& AnyWorker() { return *workers_[dice_.Below(workers_.size())]; }
  ClockFault AnyRate();
  std::function<void()> Down(void (Site::*how)(int));
  std::vector<Blow> BlowsAnywhere();
  std::vector<Blow> BlowsOnCluster();
  std::vector<Blow> BlowsOnServer();

  Site& site_;
  Cluster* const cluster_;
  Server* const server_;
  std::vector<std::unique_ptr<Worker>>& workers_;
  Dice dice_;
  std::set<std::string> enabled_;
  std::vector<Blow> blows_;
};

}  // namespace holdfast::sim
