#include "server/loop.h"

#include <utility>

#include "server/audit.h"

namespace holdfast::server {

Call::~Call() {
  loop_.Forget(*this);
}

void Call::Settle() {
  if (owed_ == 0 && requests_ == 0 && !flushing_) {
    delete this;
  }
}

Loop::Loop(engine::Runner& runner, engine::Clock& clock, const Authenticator& authenticator,
           AuditLog* audit, std::shared_ptr<Mailbox> mailbox, const LoopOptions& options)
    : runner_(runner),
      clock_(clock),
      authenticator_(authenticator),
      audit_(audit),
      mailbox_(std::move(mailbox)),
      options_(options),
      front_(runner.Attach(*this)) {}

Loop::~Loop() {
  runner_.Detach(front_);
}

void Loop::OnReplies(std::vector<engine::Reply>&& replies) {
  if (std::this_thread::get_id() != thread_) {
    mailbox_->PostReplies(std::move(replies));
    return;
  }
  Deliver(std::move(replies));
  Flush();
}

FrontCounters Loop::counters() const {
  return {.calls = calls_, .streams = streams_, .watches = watches_, .requests = open_requests_};
}

void Loop::Begin() {
  thread_ = std::this_thread::get_id();
  mailbox_->SetReader();
}

void Loop::EndTurn() {
  if (closed_) {
    Flush();
    return;
  }
  for (;;) {
    auto letters = mailbox_->Take();
    const bool idle = letters.empty();
    HandleLetters(std::move(letters));
    Flush();
    if (idle && flushes_.empty() && abandoned_.empty() && proposals_.empty()) {
      break;
    }
    // First the proposals: one of them may have been abandoned in the same turn, and its waiter
    // must be found.
    if (!proposals_.empty()) {
      runner_.Submit(front_, std::exchange(proposals_, {}));
    }
    if (!abandoned_.empty()) {
      runner_.Abandon(front_, std::exchange(abandoned_, {}));
    }
  }
  open_requests_ = requests_.size();
}

void Loop::HandleLetters(Mailbox::Letters&& letters) {
  Deliver(std::move(letters.replies));
  for (const std::uint64_t key : letters.wakes) {
    const auto found = wakeables_.find(key);
    if (found != wakeables_.end()) {
      Call& call = *found->second;
      call.OnWake();
      call.Settle();
    }
  }
  if (letters.stop && !stopping_) {
    stopping_ = true;
    // A copy: calls take themselves out of the set when they end.
    for (Call* call : std::vector<Call*>(waiting_.begin(), waiting_.end())) {
      call->OnStop();
      call->Settle();
    }
  }
  close_wanted_ = close_wanted_ || letters.close;
}

void Loop::Deliver(std::vector<engine::Reply>&& replies) {
  if (replies.empty()) {
    return;
  }
  const BootTime now = clock_.Boot();
  for (engine::Reply& reply : replies) {
    const auto request = requests_.Remove(reply.tag);
    if (request.has_value()) {
      meter_.Record(request->verb, reply, now - request->arrived);
      Call& call = *request->call;
      --call.requests_;
      call.OnReply(request->cookie, reply);
      call.Settle();
    }
  }
}

void Loop::Flush() {
  for (Call* call : std::exchange(flushes_, {})) {
    call->flushing_ = false;
    call->OnTurnEnd();
    call->Settle();
  }
}

void Loop::Close() {
  closed_ = true;
  stopping_ = true;
  mailbox_->Close();
  // The engine owes replies that nobody can send any more: the calls must not wait for them.
  for (const std::uint64_t tag : requests_.Tags()) {
    std::vector<engine::Reply> lost(1);
    lost.front().tag = tag;
    lost.front().answer = Error{ErrorCode::kUnknownOutcome, "the server has stopped", "", ""};
    abandoned_.push_back(tag);
    Deliver(std::move(lost));
  }
  Flush();
  for (Call* call : std::vector<Call*>(waiting_.begin(), waiting_.end())) {
    call->OnClose();
    call->Settle();
  }
  runner_.Abandon(front_, std::exchange(abandoned_, {}));
}

Status Loop::Admit() {
  if (stopping_) {
    return Error{ErrorCode::kUnavailable, "the server is stopping", "", ""};
  }
  if (calls_ >= options_.max_calls) {
    meter_.RecordTurnedAway();
    return Error{ErrorCode::kOverloaded,
                 "too many open calls, the limit is " + std::to_string(options_.max_calls), "", ""};
  }
  ++calls_;
  return {};
}

std::uint64_t Loop::Propose(Call& call, std::uint32_t cookie, EngineRequest&& request) {
  if (proposals_.empty()) {
    proposing_since_ = clock_.Boot();
  }
  const std::uint64_t tag = requests_.Add({&call, cookie, MeterVerbOf(request), proposing_since_});
  ++call.requests_;
  proposals_.push_back({tag, std::move(request)});
  return tag;
}

void Loop::Abandon(std::uint64_t tag) {
  const auto request = requests_.Remove(tag);
  if (request.has_value()) {
    --request->call->requests_;
    abandoned_.push_back(tag);
  }
}

void Loop::FlushLater(Call& call) {
  if (!call.flushing_) {
    call.flushing_ = true;
    flushes_.push_back(&call);
  }
}

void Loop::AddWaiting(Call& call) {
  call.waiting_ = true;
  waiting_.insert(&call);
}

std::function<void()> Loop::AddWakeable(Call& call) {
  call.wake_key_ = next_wake_key_++;
  wakeables_.emplace(call.wake_key_, &call);
  return [mailbox = mailbox_, key = call.wake_key_] { mailbox->PostWake(key); };
}

void Loop::Forget(Call& call) {
  if (call.waiting_) {
    waiting_.erase(&call);
  }
  if (call.wake_key_ != 0) {
    wakeables_.erase(call.wake_key_);
  }
}

Status Loop::Permit(const Caller& caller, Access access, const char* verb,
                    const EngineRequest& request) {
  Status status = Authorize(caller, access, request);
  if (!status.ok()) {
    AuditDenial(caller.principal, verb, NamespaceOf(request).value_or(""), status.error());
  }
  return status;
}

void Loop::AuditDenial(std::string_view principal, const char* verb, std::string_view name_space,
                       const Error& error) {
  meter_.RecordDenied();
  if (audit_ != nullptr) {
    audit_->Denied(principal, verb, name_space, error);
  }
}

}  // namespace holdfast::server
