// PairRunner: the workers of the locks bench. Each takes a lock, renews it as often as asked,
// releases it, and begins again when the schedule says so. Knows no gRPC: operations leave through
// links and come back as results. Used by the one thread that polls the completion queue.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "bench/client_ids.h"
#include "bench/grpc_link.h"
#include "bench/locks_bench.h"
#include "bench/recorder.h"
#include "bench/schedule.h"
#include "holdfast/result.h"

namespace holdfast::v1 {
class AcquireResponse;
class CancelRequest;
class Problem;
class ReleaseResponse;
class RenewResponse;
}  // namespace holdfast::v1

namespace holdfast::bench {

class PairRunner final : public LinkOwner {
 public:
  // One link per worker, or one for all. `options`, `recorder` and `schedule` outlive the runner.
  PairRunner(const LocksBenchOptions& options, Recorder* recorder, Schedule* schedule);
  void AddWorkers(Link* link, int count);

  // Begins what is due: new pairs, and operations whose pause after an error is over. Call after
  // every event, and at NextTurn() at the latest.
  void Turn(LoadTime now);
  std::optional<LoadTime> NextTurn() const;
  // After the end: every pair that was begun is through, so nothing is held any more but what was
  // abandoned.
  bool Drained() const { return Unanswered() == 0; }
  std::uint64_t Unanswered() const { return workers_.size() - idle_.size(); }
  // The service refused for good.
  const std::optional<Error>& fatal() const { return fatal_; }

  void FillOperation(std::uint64_t tag, v1::Operation& operation) override;
  void OnResult(const v1::OperationResult& result, LoadTime now) override;
  void OnLost(const Error& error, LoadTime now) override;
  void OnReopened(Link& link) override;

 private:
  enum class State { kIdle, kInFlight, kPausing };

  struct Worker {
    std::uint64_t number = 0;
    Link* link = nullptr;
    std::shared_ptr<ClientIds> ids;  // shared by the workers of a shared link
    State state = State::kIdle;
    Verb verb = Verb::kAcquire;
    LoadTime pair_from;
    LoadTime from;  // of the operation
    LoadTime resume_at;
    std::uint64_t turns = 0;
    std::string resource;
    std::string lease_id;
    std::uint64_t sequence = 0;
    int renewals_left = 0;
    // What the last cancel is about: it may leave when the worker is in its next pair already.
    std::string cancelled_resource;
    std::uint64_t cancelled_sequence = 0;
  };
  struct Patience {
    LoadTime until;
    std::uint64_t worker = 0;
    std::uint64_t sequence = 0;  // of the acquire
  };

  void Begin(Worker& worker, LoadTime now);
  void Next(Worker& worker, Verb verb, LoadTime now);
  void GoIdle(Worker& worker, LoadTime now);
  void Leave(Worker& worker, LoadTime now);
  void CancelImpatient(LoadTime now);
  void FillCancel(const Worker& worker, v1::CancelRequest& request) const;
  bool Drawn(double share);
  std::uint64_t ChooseResource(Worker& worker);
  void OnAcquire(Worker& worker, const v1::AcquireResponse& response, LoadTime now);
  void OnRenew(Worker& worker, const v1::RenewResponse& response, LoadTime now);
  void OnRelease(Worker& worker, const v1::ReleaseResponse& response, LoadTime now);
  void OnProblem(Worker& worker, const v1::Problem& problem, LoadTime now);

  const LocksBenchOptions& options_;
  Recorder* const recorder_;
  Schedule* const schedule_;
  std::uint64_t resources_ = 0;
  std::mt19937_64 random_;
  std::vector<Worker> workers_;
  std::vector<std::uint64_t> idle_;
  std::vector<std::uint64_t> pausing_;
  std::deque<Patience> patience_;  // by time
  std::optional<Error> fatal_;
};

}  // namespace holdfast::bench
