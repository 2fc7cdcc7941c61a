#include "bench/pair_runner.h"

#include <algorithm>
#include <utility>

#include "bench/grpc_status.h"
#include "bench/requests.h"
#include "holdfast/v1/stream.pb.h"

namespace holdfast::bench {
namespace {

constexpr Duration kPauseAfterError = Millis(50);
// A worker's cancel travels under its tag with this added, beside the acquire that still waits.
constexpr std::uint64_t kCancelTag = std::uint64_t{1} << 32U;

}  // namespace

PairRunner::PairRunner(const LocksBenchOptions& options, Recorder* recorder, Schedule* schedule)
    : options_(options),
      recorder_(recorder),
      schedule_(schedule),
      resources_(std::max(options.resources, static_cast<std::uint64_t>(options.concurrency))),
      random_(options.seed) {
  if (options.choice != ResourceChoice::kOwn && options.resources > 0) {
    resources_ = options.resources;
  }
}

void PairRunner::AddWorkers(Link* link, int count) {
  const auto ids = std::make_shared<ClientIds>();
  for (int i = 0; i < count; ++i) {
    const std::uint64_t number = workers_.size();
    Worker& worker = workers_.emplace_back();
    worker.number = number;
    worker.link = link;
    worker.ids = ids;
    idle_.push_back(number);
  }
}

void PairRunner::Turn(LoadTime now) {
  for (std::size_t i = 0; i < pausing_.size();) {
    Worker& worker = workers_[pausing_[i]];
    if (worker.resume_at > now) {
      ++i;
      continue;
    }
    pausing_[i] = pausing_.back();
    pausing_.pop_back();
    worker.state = State::kInFlight;
    worker.link->Send(worker.number);
    worker.link->Flush();
  }
  CancelImpatient(now);
  while (!idle_.empty() && !recorder_->Over(now) && schedule_->Due(now)) {
    Worker& worker = workers_[idle_.back()];
    idle_.pop_back();
    Begin(worker, now);
    worker.link->Flush();
  }
}

std::optional<LoadTime> PairRunner::NextTurn() const {
  std::optional<LoadTime> next;
  if (!patience_.empty()) {
    next = patience_.front().until;
  }
  for (const std::uint64_t number : pausing_) {
    const LoadTime at = workers_[number].resume_at;
    next = next ? std::min(*next, at) : at;
  }
  return next;
}

bool PairRunner::Drawn(double share) {
  return share > 0 && std::uniform_real_distribution<double>()(random_) < share;
}

void PairRunner::CancelImpatient(LoadTime now) {
  while (!patience_.empty() && patience_.front().until <= now) {
    const Patience over = patience_.front();
    patience_.pop_front();
    Worker& worker = workers_[over.worker];
    if (worker.state != State::kInFlight || worker.verb != Verb::kAcquire ||
        worker.sequence != over.sequence) {
      continue;  // answered before
    }
    worker.cancelled_resource = worker.resource;
    worker.cancelled_sequence = worker.sequence;
    worker.link->Send(over.worker + kCancelTag);
    worker.link->Flush();
  }
}

std::uint64_t PairRunner::ChooseResource(Worker& worker) {
  const std::uint64_t turn = worker.turns++;
  switch (options_.choice) {
    case ResourceChoice::kOwn: {
      // Worker w owns w, w + workers, w + 2 * workers, ...
      const std::uint64_t share = resources_ / workers_.size();
      return worker.number + (turn % share) * workers_.size();
    }
    case ResourceChoice::kRoundRobin: {
      const std::uint64_t start = worker.number * resources_ / workers_.size();
      return (start + turn) % resources_;
    }
    case ResourceChoice::kRandom:
      return random_() % resources_;
  }
  return 0;
}

void PairRunner::Begin(Worker& worker, LoadTime now) {
  worker.pair_from = schedule_->Take(now);
  worker.from = worker.pair_from;
  worker.verb = Verb::kAcquire;
  worker.state = State::kInFlight;
  worker.resource = options_.prefix + "/" + std::to_string(ChooseResource(worker));
  worker.lease_id.clear();
  worker.sequence = worker.ids->Begin();
  worker.renewals_left = options_.renewals;
  worker.link->Send(worker.number);
  if (Drawn(options_.impatient)) {
    patience_.push_back({now + options_.patience, worker.number, worker.sequence});
  }
}

void PairRunner::Next(Worker& worker, Verb verb, LoadTime now) {
  worker.verb = verb;
  worker.from = now;
  worker.link->Send(worker.number);
}

// Closed loop: begins again at once, so that operations that came back in one frame leave in one
// frame.
void PairRunner::GoIdle(Worker& worker, LoadTime now) {
  if (!recorder_->Over(now) && schedule_->Due(now)) {
    Begin(worker, now);
    return;
  }
  worker.state = State::kIdle;
  idle_.push_back(worker.number);
}

// The lease is confirmed and renewed as often as asked.
void PairRunner::Leave(Worker& worker, LoadTime now) {
  if (Drawn(options_.abandoned)) {
    GoIdle(worker, now);
  } else {
    Next(worker, Verb::kRelease, now);
  }
}

void PairRunner::FillCancel(const Worker& worker, v1::CancelRequest& request) const {
  request.set_namespace_(options_.name_space);
  request.set_resource(worker.cancelled_resource);
  request.set_request_id(worker.ids->RequestId(worker.cancelled_sequence));
  request.set_owner("bench");
}

void PairRunner::FillOperation(std::uint64_t tag, v1::Operation& operation) {
  if (tag >= kCancelTag) {
    FillCancel(workers_[tag - kCancelTag], *operation.mutable_cancel());
    return;
  }
  const Worker& worker = workers_[tag];
  switch (worker.verb) {
    case Verb::kAcquire:
      FillAcquire(options_, *worker.ids, worker.sequence, worker.resource,
                  *operation.mutable_acquire());
      if (options_.wait > Duration(0)) {
        SetDuration(options_.wait, *operation.mutable_acquire()->mutable_wait());
      }
      return;
    case Verb::kRenew:
      operation.mutable_renew()->set_namespace_(options_.name_space);
      operation.mutable_renew()->set_resource(worker.resource);
      operation.mutable_renew()->set_lease_id(worker.lease_id);
      return;
    case Verb::kRelease:
      operation.mutable_release()->set_namespace_(options_.name_space);
      operation.mutable_release()->set_resource(worker.resource);
      operation.mutable_release()->set_lease_id(worker.lease_id);
      return;
  }
}

void PairRunner::OnResult(const v1::OperationResult& result, LoadTime now) {
  if (result.tag() >= kCancelTag) {
    // What came of it is in the answer to the acquire.
    if (result.has_problem()) {
      recorder_->Failed(ErrorCodeName(ErrorOf(result.problem()).code), now);
    }
    return;
  }
  if (result.tag() >= workers_.size() || workers_[result.tag()].state != State::kInFlight) {
    fatal_ = Error{ErrorCode::kInternal, "the server answered what was not asked", {}, {}};
    return;
  }
  Worker& worker = workers_[result.tag()];
  if (result.has_problem()) {
    OnProblem(worker, result.problem(), now);
  } else if (worker.verb == Verb::kAcquire && result.has_acquire()) {
    OnAcquire(worker, result.acquire(), now);
  } else if (worker.verb == Verb::kRenew && result.has_renew()) {
    OnRenew(worker, result.renew(), now);
  } else if (worker.verb == Verb::kRelease && result.has_release()) {
    OnRelease(worker, result.release(), now);
  } else {
    fatal_ =
        Error{ErrorCode::kInternal, "the server answered with the result of another verb", {}, {}};
  }
}

void PairRunner::OnAcquire(Worker& worker, const v1::AcquireResponse& response, LoadTime now) {
  worker.ids->Answered(worker.sequence);
  if (!response.has_granted()) {
    recorder_->Refused(v1::RefusalCode_Name(response.refused().code()), now);
    GoIdle(worker, now);
    return;
  }
  recorder_->Operation(Verb::kAcquire, worker.from, now);
  worker.lease_id = response.granted().lease_id();
  if (response.granted().provisional()) {
    worker.renewals_left = std::max(worker.renewals_left, 1);  // it is ours only once renewed
  }
  if (worker.renewals_left > 0) {
    Next(worker, Verb::kRenew, now);
  } else {
    Leave(worker, now);
  }
}

void PairRunner::OnRenew(Worker& worker, const v1::RenewResponse& response, LoadTime now) {
  if (!response.has_renewed()) {
    recorder_->Refused("RENEW_" + v1::Cause_Name(response.not_renewed().cause()), now);
    Next(worker, Verb::kRelease, now);
    return;
  }
  recorder_->Operation(Verb::kRenew, worker.from, now);
  if (--worker.renewals_left > 0) {
    Next(worker, Verb::kRenew, now);
  } else {
    Leave(worker, now);
  }
}

void PairRunner::OnRelease(Worker& worker, const v1::ReleaseResponse& response, LoadTime now) {
  if (response.released()) {
    recorder_->Operation(Verb::kRelease, worker.from, now);
    recorder_->Pair(worker.pair_from, now);
  } else {
    recorder_->Refused("RELEASE_" + v1::Cause_Name(response.cause()), now);
  }
  GoIdle(worker, now);
}

void PairRunner::OnProblem(Worker& worker, const v1::Problem& problem, LoadTime now) {
  const Error error = ErrorOf(problem);
  recorder_->Failed(ErrorCodeName(error.code), now);
  if (!IsTransient(error.code)) {
    fatal_ = error;
    return;
  }
  worker.state = State::kPausing;
  worker.resume_at = now + std::max(kPauseAfterError, FromProto(problem.retry_after()));
  pausing_.push_back(worker.number);
}

void PairRunner::OnLost(const Error& error, LoadTime now) {
  recorder_->Failed("LOST_STREAM", now);
  if (!IsTransient(error.code)) {
    fatal_ = error;
  }
}

void PairRunner::OnReopened(Link& link) {
  for (Worker& worker : workers_) {
    if (worker.link == &link && worker.state == State::kInFlight) {
      link.Send(worker.number);
    }
  }
}

}  // namespace holdfast::bench
