// HoldKeeper: a background of leases that are held over the whole run and renewed every third of
// their ttl, evenly spread. Used by the one thread that polls the completion queue.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "bench/client_ids.h"
#include "bench/grpc_link.h"
#include "bench/locks_bench.h"
#include "bench/recorder.h"
#include "holdfast/result.h"

namespace holdfast::bench {

class HoldKeeper final : public LinkOwner {
 public:
  // Holds `options.holds` resources PREFIX-held/NUMBER. `options` outlives the keeper.
  explicit HoldKeeper(const LocksBenchOptions& options);
  // A stream link whose owner is this keeper, before anything else.
  void Use(Link* link) { link_ = link; }
  // From now on renewals are recorded.
  void Record(Recorder* recorder) { recorder_ = recorder; }

  void Turn(LoadTime now);
  // All are held.
  bool Full() const { return held_ == holds_.size(); }
  // Releases all; Turn goes on until Empty().
  void ReleaseAll();
  bool Empty() const { return releasing_ && outstanding_ == 0 && to_release_.empty(); }
  const std::optional<Error>& fatal() const { return fatal_; }

  void FillOperation(std::uint64_t tag, v1::Operation& operation) override;
  void OnResult(const v1::OperationResult& result, LoadTime now) override;
  void OnLost(const Error& error, LoadTime now) override;
  void OnReopened(Link& link) override;

 private:
  struct Held {
    std::string lease_id;  // empty: not held
    std::uint64_t sequence = 0;
    bool in_flight = false;
    LoadTime from;
  };
  using Due = std::pair<LoadTime, std::uint64_t>;

  void Send(std::uint64_t number, LoadTime now);
  void Later(std::uint64_t number, LoadTime at) { due_.emplace(at, number); }
  void Lost(std::uint64_t number, const std::string& why, LoadTime now);
  std::string Resource(std::uint64_t number) const;

  const LocksBenchOptions& options_;
  const Duration renew_after_;
  Link* link_ = nullptr;
  Recorder* recorder_ = nullptr;
  ClientIds ids_;
  std::vector<Held> holds_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;  // to acquire or to renew
  std::size_t held_ = 0;
  std::size_t outstanding_ = 0;
  bool releasing_ = false;
  std::deque<std::uint64_t> to_release_;  // those with an answer outstanding follow it
  std::optional<Error> fatal_;
};

}  // namespace holdfast::bench
