// What fronts see of whatever drives the state: an EmbeddedRunner over a file journal, or a
// ReplicatedRunner over etcd.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/histogram.h"
#include "base/time.h"
#include "engine/engine.h"
#include "engine/front.h"
#include "engine/member.h"
#include "engine/observer.h"
#include "engine/shadow.h"
#include "engine/watch_hub.h"
#include "journal/file_journal.h"

namespace holdfast::engine {

struct RunnerStats {
  EngineStats engine;
  journal::JournalStats journal;
  ShadowStats shadow;
  std::uint64_t journal_first_index = 0;
  bool accepting_writes = true;  // false while the log cannot be written
  BootTime started_at{};
  std::uint64_t inbox = 0;  // handed over by fronts, and not taken by the engine yet
  // By how much state time has advanced less than this process' clock since it began to serve.
  Duration state_time_lag{};
  // Batches with commands only.
  HistogramData commit_seconds;  // from the seal until the batch was durable and applied
  HistogramData batch_commands;
  HistogramData batch_bytes;
  std::optional<MemberStatus> member;  // of a replicated node
};

class Runner {
 public:
  virtual ~Runner() = default;

  // `front` must outlive its Detach. Thread-safe.
  virtual FrontId Attach(Front& front) = 0;
  // After it returns no reply reaches the front any more; its waiters are detached.
  virtual void Detach(FrontId front) = 0;

  // Hands over a whole turn. Replies, also of others, may be delivered inside. Over the limit of
  // the queue the surplus is answered with kOverloaded. Thread-safe.
  virtual void Submit(FrontId front, std::vector<Proposal>&& proposals) = 0;
  // The clients behind these requests are gone: no reply, and waiters are detached. Thread-safe.
  virtual void Abandon(FrontId front, std::vector<std::uint64_t>&& tags) = 0;

  // Before the first Attach only. `observer` must outlive the runner.
  virtual void AddObserver(Observer& observer) = 0;

  // Lets another node lead for now. False if nobody else ever can.
  virtual bool StepDown() { return false; }

  // Where clients reach the node that leads; empty if this one does, or nobody is known to.
  // Thread-safe and cheap.
  virtual std::string LeaderForClients() const { return {}; }

  virtual WatchHub& watches() = 0;
  virtual RunnerStats Stats() const = 0;
  // Refuses new proposals (kUnavailable), commits what is queued and ends the threads. Requests
  // that wait for a lock get no reply any more; they are detached by the next start. Idempotent.
  virtual void Stop() = 0;
};

}  // namespace holdfast::engine
