#include "bench/locks_bench.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include <grpcpp/completion_queue.h>

#include "bench/grpc_link.h"
#include "bench/hold_keeper.h"
#include "bench/pacer.h"
#include "bench/pair_runner.h"
#include "bench/schedule.h"

namespace holdfast::bench {
namespace {

constexpr int kEventsPerTurn = 256;
constexpr Duration kPollAtMost = Millis(50);
constexpr Duration kDrainTimeout = Seconds(10);
constexpr Duration kHoldTimeout = Seconds(120);

Status ValidateShares(const LocksBenchOptions& options) {
  for (const auto& [name, share] :
       {std::pair("impatient", options.impatient), std::pair("abandoned", options.abandoned)}) {
    if (!(share >= 0 && share <= 1)) {
      return InvalidArgument(name, "a share from 0 to 1", "not a share");
    }
  }
  if (options.impatient > 0 &&
      (options.mode == LoadMode::kUnary || options.request_ids == RequestIds::kNone)) {
    return InvalidArgument("impatient", "with streams and request ids",
                           "a cancel names a request id and needs a way of its own");
  }
  return {};
}

Status Validate(const LocksBenchOptions& options) {
  if (options.endpoints.empty()) {
    return InvalidArgument("endpoints", "at least one HOST:PORT", "no endpoint");
  }
  if (options.concurrency < 1 || options.concurrency > 10'000) {
    return InvalidArgument("concurrency", "1..10000", "bad number of connections");
  }
  if (options.duration < Millis(100) || options.warm_up < Duration(0)) {
    return InvalidArgument("duration", "at least 100 ms, and no negative warm-up", "bad duration");
  }
  if (!(options.rate >= 0 && options.rate <= 1e7)) {
    return InvalidArgument("rate", "0..10000000 pairs per second", "bad rate");
  }
  if (options.resources > 100'000'000) {
    return InvalidArgument("resources", "at most 100000000", "too many resources");
  }
  if (options.renewals < 0 || options.holds < 0) {
    return InvalidArgument(options.renewals < 0 ? "renewals" : "holds", "not negative",
                           "a negative number");
  }
  if (options.ttl <= Duration(0) || options.wait < Duration(0)) {
    return InvalidArgument(options.wait < Duration(0) ? "wait" : "ttl", "positive",
                           "a negative or empty time");
  }
  return ValidateShares(options);
}

// The queue, the links on it, and the loop that serves both.
class Load {
 public:
  explicit Load(const LocksBenchOptions& options) : options_(options), keeper_(options) {}
  ~Load() { Stop(); }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  Status Connect() {
    const LoadTime deadline = LoadClock::now() + options_.connect_timeout;
    // The runner is built when the time at which the load begins is known; until then nothing is
    // sent.
    const int links = options_.mode == LoadMode::kShared ? 1 : options_.concurrency;
    for (int i = 0; i < links; ++i) {
      links_.push_back(options_.mode == LoadMode::kUnary ? MakeUnaryLink(Target(i, &relay_))
                                                         : MakeStreamLink(Target(i, &relay_)));
    }
    if (options_.holds > 0) {
      links_.push_back(MakeStreamLink(Target(links, &keeper_)));
      keeper_.Use(links_.back().get());
    }
    for (const std::unique_ptr<Link>& link : links_) {
      if (Status connected = link->Connect(deadline); !connected.ok()) {
        return connected;
      }
    }
    for (const std::unique_ptr<Link>& link : links_) {
      link->Open();
    }
    return {};
  }

  Status TakeHolds() {
    const LoadTime deadline = LoadClock::now() + kHoldTimeout;
    while (options_.holds > 0 && !keeper_.Full()) {
      const LoadTime now = LoadClock::now();
      if (keeper_.fatal()) {
        return *keeper_.fatal();
      }
      if (now > deadline) {
        return Error{ErrorCode::kDeadlineExceeded,
                     "the background holds could not all be taken in 120 s",
                     {},
                     {}};
      }
      keeper_.Turn(now);
      Poll(now + kPollAtMost);
    }
    return {};
  }

  Result<BenchReport> Run() {
    const LoadTime begin = LoadClock::now();
    if (options_.on_begin) {
      options_.on_begin(begin);
    }
    Recorder recorder({.begin = begin,
                       .warm_up = options_.warm_up,
                       .duration = options_.duration,
                       .server_pid = options_.server_pid,
                       .progress = options_.progress,
                       .label = options_.progress_label});
    Schedule schedule(begin, options_.rate);
    PairRunner runner(options_, &recorder, &schedule);
    relay_.runner = &runner;
    keeper_.Record(&recorder);
    const std::size_t worker_links = links_.size() - (options_.holds > 0 ? 1 : 0);
    for (std::size_t i = 0; i < worker_links; ++i) {
      runner.AddWorkers(links_[i].get(),
                        options_.mode == LoadMode::kShared ? options_.concurrency : 1);
    }
    std::optional<Pacer> pacer;
    if (schedule.open_loop()) {
      pacer.emplace(&queue_, begin, Duration(static_cast<std::int64_t>(1e9 / options_.rate)));
    }
    const Status ran = Loop(runner, recorder);
    const std::uint64_t backlog = schedule.Backlog(recorder.end());
    const std::uint64_t unanswered = runner.Unanswered();
    if (pacer) {
      pacer->Stop();
    }
    Stop();
    relay_.runner = nullptr;
    if (!ran.ok()) {
      return ran.error();
    }
    return BenchReport{.options = options_,
                       .load = recorder.Finish(),
                       .backlog = backlog,
                       .unanswered = unanswered};
  }

 private:
  // Links need an owner when they are made, which is before the runner exists.
  struct Relay final : LinkOwner {
    PairRunner* runner = nullptr;

    void FillOperation(std::uint64_t tag, v1::Operation& operation) override {
      runner->FillOperation(tag, operation);
    }
    void OnResult(const v1::OperationResult& result, LoadTime now) override {
      runner->OnResult(result, now);
    }
    void OnLost(const Error& error, LoadTime now) override {
      if (runner != nullptr) {
        runner->OnLost(error, now);
      }
    }
    void OnReopened(Link& link) override {
      if (runner != nullptr) {
        runner->OnReopened(link);
      }
    }
  };

  LinkTarget Target(int number, LinkOwner* owner) {
    const auto& endpoints = options_.endpoints;
    return LinkTarget{.endpoint = endpoints[static_cast<std::size_t>(number) % endpoints.size()],
                      .number = number,
                      .queue = &queue_,
                      .owner = owner};
  }

  Status Loop(PairRunner& runner, Recorder& recorder) {
    for (;;) {
      const LoadTime now = LoadClock::now();
      recorder.Advance(now);
      if (runner.fatal() || keeper_.fatal()) {
        return runner.fatal() ? *runner.fatal() : *keeper_.fatal();
      }
      if (recorder.Over(now)) {
        if (runner.Drained()) {
          keeper_.ReleaseAll();
        }
        const bool drained = runner.Drained() && (options_.holds == 0 || keeper_.Empty());
        if (drained || now > recorder.end() + kDrainTimeout) {
          return {};
        }
      }
      runner.Turn(now);
      if (options_.holds > 0) {
        keeper_.Turn(now);
      }
      const std::optional<LoadTime> next = runner.NextTurn();
      Poll(std::min(now + kPollAtMost, next.value_or(LoadTime::max())));
    }
  }

  // Waits for one event until the deadline, then takes what else is there, within limits: time must
  // be looked at.
  void Poll(LoadTime deadline) {
    const auto left = std::max<Duration>(deadline - LoadClock::now(), Duration(0));
    auto wall = std::chrono::system_clock::now() + left;
    void* tag = nullptr;
    bool ok = false;
    for (int events = 0; events < kEventsPerTurn; ++events) {
      if (queue_.AsyncNext(&tag, &ok, wall) != grpc::CompletionQueue::GOT_EVENT) {
        return;
      }
      (*static_cast<QueueEvent*>(tag))(ok);
      wall = {};
    }
  }

  void Stop() {
    if (std::exchange(stopped_, true)) {
      return;
    }
    for (const std::unique_ptr<Link>& link : links_) {
      link->Close();
    }
    while (!std::all_of(links_.begin(), links_.end(), [](const auto& l) { return l->Closed(); })) {
      Poll(LoadClock::now() + kPollAtMost);
    }
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
      (*static_cast<QueueEvent*>(tag))(ok);
    }
  }

  const LocksBenchOptions& options_;
  grpc::CompletionQueue queue_;
  Relay relay_;
  HoldKeeper keeper_;
  std::vector<std::unique_ptr<Link>> links_;
  bool stopped_ = false;
};

}  // namespace

const char* LoadModeName(LoadMode mode) {
  switch (mode) {
    case LoadMode::kStream:
      return "stream";
    case LoadMode::kUnary:
      return "unary";
    case LoadMode::kShared:
      return "shared";
  }
  return "unknown";
}

Result<BenchReport> RunLocksBench(const LocksBenchOptions& options) {
  if (Status valid = Validate(options); !valid.ok()) {
    return valid.error();
  }
  Load load(options);
  if (Status connected = load.Connect(); !connected.ok()) {
    return connected.error();
  }
  if (Status held = load.TakeHolds(); !held.ok()) {
    return held.error();
  }
  return load.Run();
}

}  // namespace holdfast::bench
