// Judges a history of batches and what applying them answered, by the invariants of the design
// (docs/SEMANTICS.md):
//
//   I1  a resource has at most one current lease            I6  one effect for each request id
//   (request_checker.h) I2  tokens only rise, over all resources and recoveries I7  no lease ends
//   before a promise, nor long after it I4  only the current lease id renews or releases        I9
//   queues are bounded, first come first served, one is woken
//
// It knows only what clients and watchers could know, and never looks into the state: the same
// checker serves one state machine, the simulator and a recorded log. Memory grows with the
// history. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/id.h"
#include "base/time.h"
#include "check/request_checker.h"
#include "core/command.h"
#include "core/event.h"
#include "core/outcome.h"
#include "core/policy.h"

namespace holdfast::check {

class HistoryChecker {
 public:
  HistoryChecker();

  // The first rule that this batch breaks, or empty. `applied` is what applying the batch gave;
  // `backlog` tells that due work is left over, so that a lease may outlive its deadline. Give
  // every batch, in order.
  std::string Observe(const core::Batch& batch, const core::Applied& applied, bool backlog);

 private:
  using Key = std::pair<std::string, std::string>;  // namespace and resource; or namespace and
                                                    // principal: a tenant
  struct Session {
    std::string name_space;
    Timestamp promised{};  // the latest moment that an answer promised
    Timestamp deadline{};  // of the last renewal
    Timestamp renewed_at{};
    Duration ttl{};
    bool over = false;
    bool closed = false;
  };
  struct Lease {
    Id128 id{};
    core::Token token = 0;
    Key tenant;
    Id128 session{};
    Duration ttl{};
    Duration promise{};
    Timestamp promised{};
    Timestamp granted_at{};
    Timestamp renewed_at{};
    Timestamp deadline{};
    Duration hold_max{};        // the longest that was in force since the grant; 0: none
    Duration shortest_limit{};  // the shortest that was in force since the grant; 0: none
    bool provisional = false;
    bool revoking = false;
    bool seen = false;  // its grant was told to whoever asked for it
  };
  struct Past {
    core::Cause cause = core::Cause::kNone;
    std::uint64_t index = 0;
  };
  struct Waiter {
    Key resource;
    Key tenant;
    Timestamp deadline{};
    std::uint64_t attachment = 0;
    bool attached = true;
    bool attached_before = false;  // when the batch began
    bool touched = false;          // detached or attached again in this batch
  };
  // What the commands of this batch ask for: events are judged by it.
  struct Asked {
    std::set<Id128> released;
    std::set<Id128> closed_sessions;
    std::set<Key> cancelled_at;
    std::set<Key> broken_now;
    bool epoch = false;
  };

  void Fail(const std::string& rule);
  void Begin(const core::Batch& batch, const core::Applied& applied);
  void NoteCommand(const core::Command& command, const core::Outcome& outcome);
  void NoteBreak(const core::Command& command, const core::Outcome& outcome);
  void NoteNamespace(const core::ChangeNamespace& command, const core::Outcome& outcome);
  void NoteSession(const std::string& name_space, const core::SessionOpened& opened);
  void NotePolicy(const std::string& name, const core::Policy& policy);

  void OnRenew(const core::Command& command, const core::Outcome& outcome);
  void OnKeepAlive(const core::Command& command, const core::Outcome& outcome);

  void OnEvent(const core::Event& event);
  void OnGranted(const core::Event& event);
  void OnEnded(const core::Event& event);
  void OnSessionEnded(const core::Event& event);

  void OnResolution(const core::Resolution& resolution);
  void OnOutcome(const core::Command& command, const core::Outcome& outcome);
  void OnAcquire(const core::Command& command, const core::Outcome& outcome);
  void OnQueued(const core::Command& command, const core::Queued& queued);
  void OnRelease(const core::Command& command, const core::Outcome& outcome);
  void OnGrantAnswer(const core::Granted& granted);
  void CheckOrder();
  void CheckEnd(bool backlog);

  const core::Policy& PolicyOf(const std::string& name) { return policies_[name]; }
  Lease* CurrentLease(const Key& resource, const Id128& id);
  // The latest moment at which this promise may end: floors of epochs included.
  Timestamp Latest(Timestamp deadline, Timestamp renewed_at, Duration promise) const;
  Timestamp Latest(const Lease& lease) const;

  std::string violation_;
  Timestamp now_{};
  Timestamp previous_{};
  std::uint64_t index_ = 0;
  Asked asked_;
  core::Token highest_token_ = 0;
  Timestamp blocked_until_ = Timestamp::min();
  std::optional<Timestamp> last_epoch_;
  Duration longest_grace_{};
  std::map<std::string, core::Policy> policies_;
  std::map<std::string, core::Policy> policies_before_;  // of this batch, where it changed them
  std::map<Key, Lease> current_;
  std::map<Id128, Id128> claims_;  // what session each requested lease would be on
  std::map<Id128, Key> lease_at_;  // of every current lease
  std::map<Id128, Past> past_;
  std::set<Id128> new_leases_;  // granted in this batch
  std::map<Key, Timestamp> delayed_until_;
  std::map<Id128, Session> sessions_;
  std::map<core::WaiterId, Waiter> waiters_;
  std::map<Key, std::set<core::WaiterId>> queues_;
  std::vector<std::pair<Key, core::WaiterId>> handed_over_;  // in this batch
  RequestChecker requests_;
};

}  // namespace holdfast::check
