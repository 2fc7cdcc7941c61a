#include "sim/faults.h"

#include <algorithm>

namespace holdfast::sim {
namespace {

constexpr Duration kDownAtMost = Seconds(6);
constexpr std::int64_t kRatePpmMax = 20'000;  // 2 %, far more than clocks drift

}  // namespace

const std::vector<std::string>& Faults::Classes() {
  static const std::vector<std::string> classes = {
      "etcd request lost",   "etcd reply lost",    "etcd request late",
      "etcd says no space",  "watch loses",        "watch repeats",
      "watch ended",         "link broken",        "snapshot sync failed",
      "client request lost", "client reply lost",  "client request repeated",
      "slow network",        "node killed",        "power cut",
      "node paused",         "node cut from etcd", "node cut from peers",
      "etcd outage",         "compaction",         "hand-over",
      "node clock rate",     "wall clock stepped", "client paused",
      "client cut off",      "client crashed",     "client clock rate"};
  return classes;
}

Faults::Faults(Cluster& cluster, std::vector<std::unique_ptr<Worker>>& workers, const Dice& dice,
               const std::set<std::string>& without)
    : cluster_(cluster), workers_(workers), dice_(dice) {
  for (const std::string& name : Classes()) {
    // Drawn also for what is left out, so that leaving it out changes nothing else.
    if (dice_.OneIn(2) && !without.contains(name)) {
      enabled_.insert(name);
    }
  }
  blows_ = Blows();
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
  nasty.failed_syncs = Share("snapshot sync failed", 300);
  nasty.delay_max = On("slow network") ? Millis(10) + dice_.UpTo(Millis(60)) : Millis(3);
  return nasty;
}

ClientNastiness Faults::DrawClientNastiness() {
  ClientNastiness nasty;
  nasty.lost_requests = Share("client request lost", 60);
  nasty.lost_replies = Share("client reply lost", 60);
  nasty.repeated_requests = Share("client request repeated", 60);
  nasty.delay_max = On("slow network") ? Millis(10) + dice_.UpTo(Millis(60)) : Millis(5);
  return nasty;
}

int Faults::UpNode() {
  const int node = AnyNode();
  return cluster_.IsUp(node) ? node : -1;
}

std::vector<Faults::Blow> Faults::Blows() {
  const auto kill = [this](void (Cluster::*how)(int)) {
    return [this, how] {
      if (const int node = UpNode(); node >= 0) {
        (cluster_.*how)(node);
        cluster_.scheduler().In(dice_.UpTo(kDownAtMost), [this, node] {
          if (!cluster_.IsUp(node)) {
            cluster_.Start(node);
          }
        });
      }
    };
  };
  return {
      {"node killed", Seconds(8), kill(&Cluster::Kill)},
      {"power cut", Seconds(8), kill(&Cluster::CutPower)},
      {"node paused", Seconds(6), [this] { cluster_.Pause(AnyNode(), dice_.UpTo(Seconds(5))); }},
      {"node cut from etcd", Seconds(6),
       [this] { cluster_.CutOff(AnyNode(), dice_.UpTo(Seconds(4))); }},
      {"node cut from peers", Seconds(6),
       [this] { cluster_.CutPeers(AnyNode(), dice_.UpTo(Seconds(4))); }},
      {"etcd outage", Seconds(12), [this] { cluster_.StopEtcd(dice_.UpTo(Seconds(3))); }},
      {"compaction", Seconds(4), [this] { cluster_.store().Compact(cluster_.store().revision()); }},
      {"hand-over", Seconds(10),
       [this] {
         if (const int leader = cluster_.Leader(); leader >= 0) {
           cluster_.member(leader).StepDown(engine::StepDownFor::kNow);
         }
       }},
      {"node clock rate", Seconds(10),
       [this] {
         cluster_.SetClock(
             AnyNode(),
             {static_cast<std::int64_t>(dice_.Below(2 * kRatePpmMax)) - kRatePpmMax, Duration{}});
       }},
      {"wall clock stepped", Seconds(10),
       [this] {
         cluster_.SetClock(AnyNode(), {0, dice_.UpTo(Seconds(7200)) - Seconds(3600)});
       }},
      {"client paused", Seconds(4), [this] { AnyWorker().Pause(dice_.UpTo(Seconds(15))); }},
      {"client cut off", Seconds(4), [this] { AnyWorker().CutOff(dice_.UpTo(Seconds(10))); }},
      {"client crashed", Seconds(6), [this] { AnyWorker().Crash(); }},
      {"client clock rate", Seconds(10),
       [this] {
         AnyWorker().SetClock(static_cast<std::int64_t>(dice_.Below(2 * kRatePpmMax)) -
                              kRatePpmMax);
       }},
  };
}

void Faults::Strike(Duration step) {
  for (const Blow& blow : blows_) {
    const bool now = dice_.OneIn(static_cast<std::uint64_t>(blow.every / step));
    if (now && On(blow.name)) {
      cluster_.Count(blow.name);
      blow.strike();
    }
  }
}

void Faults::Heal() {
  for (int node = 0; node < cluster_.size(); ++node) {
    cluster_.SetClock(node, {});
    if (!cluster_.IsUp(node)) {
      cluster_.Start(node);
    }
  }
}

}  // namespace holdfast::sim
