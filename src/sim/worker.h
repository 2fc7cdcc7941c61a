// A simulated client: the state machines of the client library over a simulated network, and work
// that is done under their locks against resources that check tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "client/call.h"
#include "client/lock_flow.h"
#include "client/machine.h"
#include "client/session_flow.h"
#include "sim/clocks.h"
#include "sim/dice.h"
#include "sim/site.h"

namespace holdfast::sim {

// What clients protect: takes no token below one that it has seen.
class Resources {
 public:
  // False: refused.
  bool Write(const std::string& resource, std::uint64_t token);
  std::uint64_t highest(const std::string& resource) { return highest_[resource]; }

 private:
  std::map<std::string, std::uint64_t> highest_;
};

// Shares are per thousand messages, each way.
struct ClientNastiness {
  int lost_requests = 0;
  int lost_replies = 0;
  int repeated_requests = 0;  // arrive once more, some seconds later
  int late_replies = 0;       // by up to a second, which is less than the client waits
  Duration delay_max = Millis(5);
};

class Worker {
 public:
  struct Options {
    std::uint64_t resources = 8;
    int wishes_max = 3;  // at once
    Duration ttl_min = Seconds(2);
    Duration ttl_max = Seconds(8);
  };

  Worker(Site& site, Resources& resources, int number, const Dice& dice, const Options& options);

  void Start();
  // No new wishes; what is held is given back.
  void Finish();
  bool Idle() const { return jobs_.empty(); }

  // The process stands still; it wakes up believing that no time has passed.
  void Pause(Duration duration) { paused_until_ = site_.now() + duration; }
  // Nothing passes between it and the nodes.
  void CutOff(Duration duration) { cut_until_ = site_.now() + duration; }
  // The process dies: nothing is released, and another one begins in its place.
  void Crash();
  void SetClock(const ClockFault& fault) { clocks_.Set(site_.now(), fault); }
  void SetNastiness(const ClientNastiness& nastiness) { nastiness_ = nastiness; }

  // The token under which this client would act on the resource now; 0: it would not. A client that
  // is paused acts as soon as it goes on, and asks again before.
  std::uint64_t BelievesToHold(const std::string& resource);
  // What was acknowledged must have been applied: asks whether this lease was granted.
  std::function<bool(const std::string& lease_id, std::uint64_t token)> was_granted;

  std::uint64_t operations() const { return operations_; }

 private:
  struct Job {
    std::uint64_t id = 0;
    std::string resource;                          // empty: a session
    std::shared_ptr<client::SessionFlow> session;  // of the job itself, or that its lock is on
    std::unique_ptr<client::LockFlow> lock;
    BootTime release_at{};
    BootTime write_at{};
    bool forgets = false;  // never releases
    client::Machine& machine() { return lock ? static_cast<client::Machine&>(*lock) : *session; }
    bool is_session() const { return lock == nullptr; }
  };
  struct Sent {
    std::uint64_t job = 0;
    client::Request request;
    int node = 0;
    std::uint64_t served = 0;  // what the node calls it
  };

  BootTime Now() const { return clocks_.Boot(site_.now()); }
  void Turn();
  void WakeAt(BootTime true_time);
  void Wish();
  void Work(Job& job);
  void Send(Job& job, client::Outgoing&& outgoing);
  void Arrive(client::AttemptId attempt, int node, client::Request request, bool again);
  void Deliver(std::function<void()> input);
  void End(client::AttemptId attempt, const std::variant<client::Reply, client::Failure>& how);
  Job* Find(std::uint64_t id);

  Site& site_;
  Resources& resources_;
  const int number_;
  Dice dice_;
  const Options options_;
  ClientNastiness nastiness_;
  std::unique_ptr<client::CallShared> shared_;
  std::vector<std::unique_ptr<Job>> jobs_;
  std::uint64_t next_job_ = 1;
  std::map<client::AttemptId, Sent> sent_;
  int life_ = 0;
  bool finishing_ = false;
  BootTime next_wish_{};
  BootTime paused_until_{};
  BootTime cut_until_{};
  BootTime turn_at_{};
  Clocks clocks_{BootTime{Seconds(500)}};
  std::uint64_t operations_ = 0;
};

}  // namespace holdfast::sim
