#include "sim/faults.h"

#include <algorithm>
#include <iterator>

namespace holdfast::sim {
namespace {

constexpr Duration kDownAtMost = Seconds(6);
constexpr std::uint64_t kRatePpmMax = 10'000;  // 1 %, twenty times what clocks drift

enum class Where { kAnywhere, kCluster, kServer };

struct Class {
  const char* name;
  Where where;
};

constexpr Class kClasses[] = {
    {"client request lost", Where::kAnywhere},
    {"client reply lost", Where::kAnywhere},
    {"client request repeated", Where::kAnywhere},
    {"client reply late", Where::kAnywhere},
    {"slow network", Where::kAnywhere},
    {"node killed", Where::kAnywhere},
    {"power cut", Where::kAnywhere},
    {"node paused", Where::kAnywhere},
    {"node clock rate", Where::kAnywhere},
    {"wall clock stepped", Where::kAnywhere},
    {"client paused", Where::kAnywhere},
    {"client cut off", Where::kAnywhere},
    {"client crashed", Where::kAnywhere},
    {"client clock rate", Where::kAnywhere},
    {"etcd request lost", Where::kCluster},
    {"etcd reply lost", Where::kCluster},
    {"etcd request late", Where::kCluster},
    {"etcd says no space", Where::kCluster},
    {"watch loses", Where::kCluster},
    {"watch repeats", Where::kCluster},
    {"watch ended", Where::kCluster},
    {"link broken", Where::kCluster},
    {"snapshot sync failed", Where::kCluster},
    {"node cut from etcd", Where::kCluster},
    {"node cut from peers", Where::kCluster},
    {"etcd outage", Where::kCluster},
    {"compaction", Where::kCluster},
    {"hand-over", Where::kCluster},
    {"power cut in a sync", Where::kServer},
    {"sync fails", Where::kServer},
    {"disk full", Where::kServer},
    {"slow disk", Where::kServer},
};

}  // namespace

const std::vector<std::string>& Faults::Classes() {
  static const std::vector<std::string> classes = [] {
    std::vector<std::string> names;
    for (const Class& one : kClasses) {
      names.emplace_back(one.name);
    }
    return names;
  }();
  return classes;
}

bool Faults::Possible(const std::string& name) const {
  const auto* found = std::find_if(std::begin(kClasses), std::end(kClasses),
                                   [&](const Class& one) { return name == one.name; });
  return found->where == Where::kAnywhere ||
         (found->where == Where::kCluster) == (cluster_ != nullptr);
}

Faults::Faults(Site& site, Cluster* cluster, Server* server,
               std::vector<std::unique_ptr<Worker>>& workers, const Dice& dice,
               const std::set<std::string>& without)
    : site_(site), cluster_(cluster), server_(server), workers_(workers), dice_(dice) {
  for (const std::string& name : Classes()) {
    // Drawn also for what is left out, so that leaving it out changes nothing else.
    if (dice_.OneIn(2) && !without.contains(name) && Possible(name)) {
      enabled_.insert(name);
    }
  }
  blows_ = BlowsAnywhere();
  std::vector<Blow> more = cluster != nullptr ? BlowsOnCluster() : BlowsOnServer();
  std::move(more.begin(), more.end(), std::back_inserter(blows_));
}

int Faults::Share(const std::string& name, int most) {
  const int drawn = 5 + static_cast<int>(dice_.Below(static_cast<std::uint64_t>(most)));
  return On(name) ? drawn : 0;
}

Nastiness Faults::DrawNastiness() {
  Nastiness nasty;
  nasty.lost_requests = Share("etcd request lost", 60);
  nasty.lost_replies = Share("etcd reply lost", 60);
  nasty.late_requests = Share("etcd request late", 40);
  nasty.no_space = Share("etcd says no space", 40);
  nasty.watch_loses = Share("watch loses", 30);
  nasty.watch_repeats = Share("watch repeats", 60);
  nasty.watch_ends = Share("watch ended", 20);
  nasty.broken_links = Share("link broken", 30);
  nasty.failed_syncs = 5 * Share("snapshot sync failed", 60);
  nasty.delay_max = On("slow network") ? Millis(10) + dice_.UpTo(Millis(60)) : Millis(3);
  return nasty;
}

ClientNastiness Faults::DrawClientNastiness() {
  ClientNastiness nasty;
  nasty.lost_requests = Share("client request lost", 60);
  nasty.lost_replies = Share("client reply lost", 60);
  nasty.repeated_requests = Share("client request repeated", 60);
  nasty.late_replies = Share("client reply late", 100);
  nasty.delay_max = On("slow network") ? Millis(10) + dice_.UpTo(Millis(60)) : Millis(5);
  return nasty;
}

ClockFault Faults::AnyRate() {
  return {static_cast<std::int64_t>(dice_.Below(2 * kRatePpmMax)) -
              static_cast<std::int64_t>(kRatePpmMax),
          Duration{}};
}

// A node goes down by `how`, and comes back after a while.
std::function<void()> Faults::Down(void (Site::*how)(int)) {
  return [this, how] {
    const int node = AnyNode();
    const Duration down = dice_.UpTo(kDownAtMost);
    if (!site_.IsUp(node)) {
      return;
    }
    (site_.*how)(node);
    site_.scheduler().In(down, [this, node, life = site_.LifeOf(node)] {
      if (!site_.IsUp(node) && site_.LifeOf(node) == life) {
        site_.Start(node);
      }
    });
  };
}

std::vector<Faults::Blow> Faults::BlowsAnywhere() {
  return {
      {"node killed", Seconds(8), Down(&Site::Kill)},
      {"power cut", Seconds(8), Down(&Site::CutPower)},
      {"node paused", Seconds(6), [this] { site_.Pause(AnyNode(), dice_.UpTo(Seconds(5))); }},
      {"node clock rate", Seconds(10), [this] { site_.SetClock(AnyNode(), AnyRate()); }},
      {"wall clock stepped", Seconds(10),
       [this] {
         site_.SetClock(AnyNode(), {0, dice_.UpTo(Seconds(7200)) - Seconds(3600)});
       }},
      {"client paused", Seconds(4), [this] { AnyWorker().Pause(dice_.UpTo(Seconds(15))); }},
      {"client cut off", Seconds(4), [this] { AnyWorker().CutOff(dice_.UpTo(Seconds(10))); }},
      {"client crashed", Seconds(6), [this] { AnyWorker().Crash(); }},
      {"client clock rate", Seconds(10), [this] { AnyWorker().SetClock(AnyRate()); }},
  };
}

std::vector<Faults::Blow> Faults::BlowsOnCluster() {
  return {
      {"node cut from etcd", Seconds(6),
       [this] { cluster_->CutOff(AnyNode(), dice_.UpTo(Seconds(4))); }},
      {"node cut from peers", Seconds(6),
       [this] { cluster_->CutPeers(AnyNode(), dice_.UpTo(Seconds(4))); }},
      {"etcd outage", Seconds(12), [this] { cluster_->StopEtcd(dice_.UpTo(Seconds(3))); }},
      {"compaction", Seconds(4),
       [this] { cluster_->store().Compact(cluster_->store().revision()); }},
      {"hand-over", Seconds(10),
       [this] {
         if (const int leader = cluster_->Leader(); leader >= 0) {
           cluster_->member(leader).StepDown(engine::StepDownFor::kNow);
         }
       }},
  };
}

std::vector<Faults::Blow> Faults::BlowsOnServer() {
  return {
      {"power cut in a sync", Seconds(6), [this] { server_->CutPowerInSync(); }},
      {"sync fails", Seconds(10), [this] { server_->FailNextSync(); }},
      {"disk full", Seconds(10), [this] { server_->FillDisk(dice_.UpTo(Seconds(4))); }},
      {"slow disk", Seconds(8),
       [this] { server_->SlowDisk(dice_.UpTo(Seconds(2)), dice_.UpTo(Seconds(4))); }},
  };
}

void Faults::Strike(Duration step) {
  for (const Blow& blow : blows_) {
    const bool now = dice_.OneIn(static_cast<std::uint64_t>(blow.every / step));
    if (now && On(blow.name)) {
      site_.Count(blow.name);
      blow.strike();
    }
  }
}

void Faults::Heal() {
  for (int node = 0; node < site_.size(); ++node) {
    site_.SetClock(node, {});
    if (!site_.IsUp(node)) {
      site_.Start(node);
    }
  }
}

}  // namespace holdfast::sim
