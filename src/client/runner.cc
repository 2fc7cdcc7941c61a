#include "client/runner.h"

#include <algorithm>

namespace holdfast::client {
namespace {

AttemptEnd EndOf(FailureKind kind) {
  switch (kind) {
    case FailureKind::kNothingDone:
      return AttemptEnd::kNothingDone;
    case FailureKind::kUnknown:
      return AttemptEnd::kUnknown;
    case FailureKind::kFinal:
      return AttemptEnd::kFailed;
  }
  return AttemptEnd::kUnknown;
}

}  // namespace

// "/holdfast.v1.Locks/Acquire" -> "Acquire"
std::string_view VerbOf(std::string_view method) {
  return method.substr(method.rfind('/') + 1);
}

Runner::Runner(std::unique_ptr<Transport> transport, std::vector<std::string> endpoints,
               std::shared_ptr<Metrics> metrics)
    : endpoints_(std::move(endpoints)),
      metrics_(std::move(metrics)),
      shared_(random_, endpoints_.size()),
      transport_(std::move(transport)),
      thread_([this] { Loop(); }) {}

Runner::~Runner() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  transport_->Wake();
  thread_.join();
}

void Runner::Post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  transport_->Wake();
}

void Runner::Loop() {
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) {
        return;
      }
    }
    if (auto event = transport_->Next(TimeToWait())) {
      Deliver(std::move(*event));
    }
    RunTasks();
    RunDue();
  }
}

void Runner::RunTasks() {
  std::deque<std::function<void()>> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
  }
  for (const auto& task : tasks) {
    task();
  }
}

void Runner::RunDue() {
  while (!wakes_.empty() && wakes_.begin()->first <= Now()) {
    Turn(*wakes_.begin()->second);
  }
}

// gRPC waits on a clock that stands still while the machine is suspended; the cap makes up for it
// soon after.
Duration Runner::TimeToWait() {
  constexpr Duration kMax = Millis(250);
  if (wakes_.empty()) {
    return Seconds(60);
  }
  return std::clamp<Duration>(wakes_.begin()->first - Now(), Duration::zero(), kMax);
}

void Runner::Deliver(Transport::Event event) {
  if (const auto stream = streams_.find(event.id); stream != streams_.end()) {
    const std::shared_ptr<StreamInbox> inbox = stream->second;
    if (event.kind == Transport::Event::Kind::kFailure) {
      streams_.erase(stream);
    }
    {
      const std::lock_guard lock(inbox->mutex);
      inbox->events.push_back(std::move(event));
    }
    inbox->changed.notify_all();
    return;
  }
  const auto found = sent_.find(event.id);
  if (found == sent_.end()) {
    return;
  }
  const Sent sent = std::move(found->second);
  sent_.erase(found);
  if (event.kind == Transport::Event::Kind::kReply) {
    const Result<Reply> reply = DecodeReply(sent.request, std::move(event.body));
    if (const auto leader = std::find(endpoints_.begin(), endpoints_.end(), event.leader);
        leader != endpoints_.end()) {
      shared_.endpoints.Prefer(static_cast<std::size_t>(leader - endpoints_.begin()), Now());
    }
    if (reply.ok()) {
      CountAttempt(sent, nullptr);
      sent.machine->OnReply(event.id, *reply, Now());
    } else {
      // It was done, but how it ended cannot be read: the same as no answer.
      Fail(event.id, sent, Failure{.kind = FailureKind::kUnknown, .error = reply.error()});
    }
  } else {
    Fail(event.id, sent, Classify(event.failure));
  }
  Turn(*sent.machine);
}

void Runner::Fail(AttemptId attempt, const Sent& sent, const Failure& failure) {
  CountAttempt(sent, &failure);
  sent.machine->OnFailure(attempt, failure, Now());
}

void Runner::CountAttempt(const Sent& sent, const Failure* failure) {
  if (metrics_ == nullptr) {
    return;
  }
  Attempt attempt{
      .verb = VerbOf(sent.method), .endpoint = endpoints_[sent.endpoint], .took = Now() - sent.at};
  if (failure != nullptr) {
    attempt.end = EndOf(failure->kind);
    attempt.error = failure->error.code;
  }
  metrics_->OnAttempt(attempt);
}

void Runner::Count(const LockUpdate& update) {
  if (metrics_ == nullptr) {
    return;
  }
  metrics_->OnHold(update);
  if (IsFinal(update.state) && update.error.has_value() &&
      update.error->code == ErrorCode::kUnknownOutcome) {
    metrics_->OnUnknownOutcome(update.state == LockState::kNotAcquired ? "Acquire" : "Release");
  }
}

void Runner::Count(const SessionUpdate& update) {
  if (metrics_ == nullptr) {
    return;
  }
  metrics_->OnSession(update);
  if (IsFinal(update.state) && update.error.has_value() &&
      update.error->code == ErrorCode::kUnknownOutcome) {
    metrics_->OnUnknownOutcome(update.state == SessionState::kNotOpened ? "OpenSession"
                                                                        : "CloseSession");
  }
}

void Runner::CountUnknown(std::string_view verb) {
  if (metrics_ != nullptr) {
    metrics_->OnUnknownOutcome(verb);
  }
}

void Runner::Add(std::shared_ptr<Machine> machine) {
  Machine& added = *machine;
  machines_[&added].machine = std::move(machine);
  Turn(added);
}

void Runner::Touch(Machine& machine) {
  if (machines_.contains(&machine)) {
    Turn(machine);
  }
}

void Runner::Turn(Machine& machine) {
  const BootTime now = Now();
  out_.clear();
  machine.Advance(now, out_);
  for (Outgoing& outgoing : out_) {
    const RawRequest encoded = Encode(outgoing.request);
    transport_->Start(outgoing.attempt.id, outgoing.attempt.endpoint, encoded,
                      outgoing.attempt.deadline - now);
    sent_[outgoing.attempt.id] =
        Sent{&machine, std::move(outgoing.request), encoded.method, outgoing.attempt.endpoint, now};
  }
  Entry& entry = machines_.at(&machine);
  wakes_.erase({entry.wake, &machine});
  if (machine.Done()) {
    Remove(machine);
    return;
  }
  entry.wake = machine.NextWake();
  if (entry.wake != kNever) {
    wakes_.insert({entry.wake, &machine});
  }
}

void Runner::Remove(Machine& machine) {
  for (auto sent = sent_.begin(); sent != sent_.end();) {
    if (sent->second.machine == &machine) {
      transport_->Cancel(sent->first);
      sent = sent_.erase(sent);
    } else {
      ++sent;
    }
  }
  machines_.erase(&machine);
}

AttemptId Runner::OpenStream(std::size_t endpoint, const RawRequest& request,
                             std::shared_ptr<StreamInbox> inbox) {
  const AttemptId id{++shared_.attempts_made};
  streams_[id] = std::move(inbox);
  transport_->Open(id, endpoint, request);
  return id;
}

void Runner::CloseStream(AttemptId stream) {
  streams_.erase(stream);
  transport_->Cancel(stream);
}

}  // namespace holdfast::client
