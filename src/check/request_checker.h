// Checks I6 on a history of batches: a request id has one effect, is answered the same again within
// its memory, and is an error with other parameters. Knows only commands and answers, never the
// state. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/id.h"
#include "base/time.h"
#include "core/command.h"
#include "core/event.h"
#include "core/outcome.h"

namespace holdfast::check {

class RequestChecker {
 public:
  // What the caller knows about a lease.
  struct LeaseState {
    bool is_new = false;   // it was granted in this batch
    bool current = false;  // at the end of the batch it is in force, and a promise of it runs
    bool over = false;     // it had ended before the batch
  };
  using LeaseLookup = std::function<LeaseState(const Id128&)>;

  // Call these for one batch: first the late answers, then the answers to commands in the order in
  // which these take effect, then EndBatch. Each returns the first rule that is broken, or empty.
  void BeginBatch(const std::vector<core::Resolution>& resolutions, Timestamp now);
  // `memory` is the request memory of the command's namespace.
  std::string OnAcquire(const core::Command& command, const core::Outcome& outcome, Duration memory,
                        const LeaseLookup& lookup);
  std::string OnOpenSession(const core::Command& command, const core::Outcome& outcome,
                            Duration memory);
  void OnCancel(const core::Command& command, const core::Outcome& outcome, Duration memory);
  // Its request ids are gone with it.
  void OnNamespaceDeleted(const std::string& name);
  std::string EndBatch();

 private:
  using Key =
      std::tuple<std::string, std::string, std::string>;  // namespace, principal, request id
  enum class Decision { kUndecided, kWaiting, kGranted, kRefused, kSession };
  struct Request {
    std::string parameters;  // empty: cancelled before it arrived
    Decision decision = Decision::kUndecided;
    core::RefusalCode code = core::RefusalCode::kNone;
    Id128 id{};  // of the lease or session
    core::WaiterId waiter = 0;
    std::uint64_t attachment = 0;
    Duration memory{};
    Timestamp remembered_until{};
    bool acknowledged = false;  // its client says that it has seen the answer: it may be forgotten
    std::string client;
    std::uint64_t sequence = 0;
  };

  struct Client {
    std::uint64_t watermark = 0;
    Timestamp remembered_until{};
  };

  static Key KeyOf(const core::Command& command, const std::string& request_id);
  void NoteClient(const core::Command& command, const core::ClientContext& client, Duration memory);
  bool IsBelowWatermark(const core::Command& command, const core::ClientContext& client) const;
  std::string FirstAnswer(const core::Command& command, Request& request,
                          const core::Outcome& outcome, bool new_grant);
  std::string SameAnswer(const std::string& id, Request& request, const core::Outcome& outcome,
                         const LeaseLookup& lookup);
  // The late answer of this waiter, if this batch has it and it was not taken yet.
  void TakeResolution(core::WaiterId waiter);

  Timestamp now_{};
  std::map<core::WaiterId, const core::Resolution*> pending_;
  std::map<Key, Request> requests_;
  std::map<core::WaiterId, Key> waiters_;
  std::map<Key, Client> clients_;  // by namespace, principal and client id
};

}  // namespace holdfast::check
