// Loop: the part of the gRPC front that knows no gRPC. It gathers what one turn of the completion
// queue brought, hands it to the engine as one vector, and gives replies to their calls.
//
// A turn: the front handles all events that are ready (calls propose and abandon), then EndTurn
// submits, once. A submit usually drives the engine on this very thread, so that the replies come
// back inside it and are sent at once; replies from another thread come through the mailbox and
// wake the queue. Nothing here can grow without bound: calls are admitted up to a limit, and each
// call limits what it has in the engine.
//
// Everything is for the loop's thread, except where said.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <thread>
#include <unordered_set>
#include <vector>

#include "engine/clock.h"
#include "engine/front.h"
#include "engine/runner.h"
#include "holdfast/result.h"
#include "server/auth.h"
#include "server/call.h"
#include "server/convert.h"
#include "server/mailbox.h"
#include "server/request_meter.h"
#include "server/request_table.h"

namespace holdfast::server {

class AuditLog;
class Telemetry;

struct LoopOptions {
  std::size_t max_calls = 100'000;
  Telemetry* telemetry = nullptr;  // of the whole server; outlives the loop
};

// What is open at the moment. Everything must come back to 0 when the clients are gone.
struct FrontCounters {
  std::size_t calls = 0;     // admitted, of any kind
  std::size_t streams = 0;   // of Operations
  std::size_t watches = 0;   // and observers of elections
  std::size_t requests = 0;  // in the engine
};

class Loop : public engine::Front {
 public:
  // `audit` may be null. All must outlive the loop.
  Loop(engine::Runner& runner, engine::Clock& clock, const Authenticator& authenticator,
       AuditLog* audit, std::shared_ptr<Mailbox> mailbox, const LoopOptions& options);
  // Detaches from the engine. No call may exist any more.
  ~Loop() override;

  // Any thread.
  void OnReplies(std::vector<engine::Reply>&& replies) override;
  FrontCounters counters() const;
  const RequestMeter& meter() const { return meter_; }

  // Makes the calling thread the loop's.
  void Begin();
  // Reads the mailbox, submits what the turn proposed, delivers replies, until there is nothing
  // left to do.
  void EndTurn();
  // The mailbox asked for the end. The front calls Close and then shuts the completion queue down.
  bool close_wanted() const { return close_wanted_; }
  // From now on no operation may be started on the completion queue; calls end as their events come
  // back.
  void Close();
  bool closed() const { return closed_; }
  // A graceful stop has begun: nothing new is taken on.
  bool stopping() const { return stopping_; }

  // For calls: admission of a new one, and its end. kUnavailable when stopping, kOverloaded when
  // there are too many.
  Status Admit();
  void Leave() { --calls_; }
  std::atomic<std::size_t>& streams() { return streams_; }
  std::atomic<std::size_t>& watches() { return watches_; }

  // Sends a request to the engine with this turn. The tag is for Abandon.
  std::uint64_t Propose(Call& call, std::uint32_t cookie, EngineRequest&& request);
  // No reply is wanted any more; if it waits, it is detached.
  void Abandon(std::uint64_t tag);

  void FlushLater(Call& call);
  void AddWaiting(Call& call);
  // A function for WatchHub::Subscribe that leads to OnWake of this call as long as it lives.
  std::function<void()> AddWakeable(Call& call);

  engine::Runner& runner() { return runner_; }
  engine::Clock& clock() { return clock_; }
  const Authenticator& authenticator() const { return authenticator_; }
  const Telemetry* telemetry() const { return options_.telemetry; }
  // Authorize, and a line in the audit log if that says no.
  Status Permit(const Caller& caller, Access access, const char* verb,
                const EngineRequest& request);
  void AuditDenial(std::string_view principal, const char* verb, std::string_view name_space,
                   const Error& error);

 private:
  friend class Call;
  void Forget(Call& call);
  void Deliver(std::vector<engine::Reply>&& replies);
  void Flush();
  void HandleLetters(Mailbox::Letters&& letters);

  engine::Runner& runner_;
  engine::Clock& clock_;
  const Authenticator& authenticator_;
  AuditLog* const audit_;
  const std::shared_ptr<Mailbox> mailbox_;
  const LoopOptions options_;
  engine::FrontId front_ = 0;
  std::thread::id thread_;

  std::vector<engine::Proposal> proposals_;
  BootTime proposing_since_{};  // when the first of them arrived
  std::vector<std::uint64_t> abandoned_;
  RequestTable requests_;
  RequestMeter meter_;
  std::vector<Call*> flushes_;
  std::unordered_set<Call*> waiting_;
  std::map<std::uint64_t, Call*> wakeables_;
  std::uint64_t next_wake_key_ = 1;
  bool stopping_ = false;
  bool close_wanted_ = false;
  bool closed_ = false;

  // Written by the loop's thread, read by any.
  std::atomic<std::size_t> calls_{0};
  std::atomic<std::size_t> streams_{0};
  std::atomic<std::size_t> watches_{0};
  std::atomic<std::size_t> open_requests_{0};
};

}  // namespace holdfast::server
