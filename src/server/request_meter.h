// What one front counts about the requests that it sends to the engine: how long each verb took and
// how it ended. One per loop, so that its thread is the only writer and a record costs a few
// relaxed stores: no locks, no allocation, and the loop reads the clock once for everything that it
// hands over and once for everything that it gets back.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "base/histogram.h"
#include "core/command.h"
#include "core/view.h"
#include "engine/front.h"
#include "server/convert.h"

namespace holdfast::server {

// A verb of the engine: what a request is, whatever front and name it came by.
using MeterVerb = std::uint8_t;
MeterVerb MeterVerbOf(const EngineRequest& request);

// What the meters of all fronts counted, in a form to print.
struct RequestCounts {
  struct Outcome {
    const char* verb = "";
    const char* outcome = "";
    std::uint64_t count = 0;
  };
  struct Latency {
    const char* verb = "";
    HistogramData seconds;
  };
  // Those that can occur in normal service, and errors that did occur.
  std::vector<Outcome> outcomes;
  std::vector<Latency> latencies;
  HistogramData wait_seconds;
  std::vector<std::uint64_t> token_checks;  // by core::TokenVerdict, 0 unused
};

class RequestMeter {
 public:
  RequestMeter();

  // The front's thread. `taken`: from the arrival of the request until its reply.
  void Record(MeterVerb verb, const engine::Reply& reply, Duration taken);
  // A caller without a right, or a call beyond a limit of the front: never reached the engine.
  void RecordDenied() { Histogram::Bump(denied_, std::uint64_t{1}); }
  void RecordTurnedAway() { Histogram::Bump(turned_away_, std::uint64_t{1}); }

  // Any thread.
  std::uint64_t denied() const { return denied_.load(std::memory_order_relaxed); }
  std::uint64_t turned_away() const { return turned_away_.load(std::memory_order_relaxed); }
  static RequestCounts Sum(const std::vector<const RequestMeter*>& meters);

 private:
  // The kinds of commands, campaigns, and the kinds of queries.
  static constexpr std::size_t kVerbs =
      std::variant_size_v<core::CommandBody> + 1 + std::variant_size_v<core::Query>;
  // Done, granted, refusals by code, refused otherwise, errors by code.
  static constexpr std::size_t kOutcomes = 2 +
                                           static_cast<std::size_t>(core::RefusalCode::kStateFull) +
                                           1 + static_cast<std::size_t>(ErrorCode::kInternal) + 1;
  static constexpr std::size_t kVerdicts =
      static_cast<std::size_t>(core::TokenVerdict::kNeverIssued) + 1;
  static std::size_t OutcomeOf(const engine::Reply& reply);
  static const char* OutcomeName(std::size_t outcome);

  std::array<std::array<std::atomic<std::uint64_t>, kOutcomes>, kVerbs> outcomes_{};
  std::array<Histogram, kVerbs> latencies_;
  Histogram wait_seconds_;
  std::array<std::atomic<std::uint64_t>, kVerdicts> token_checks_{};
  std::atomic<std::uint64_t> denied_{0};
  std::atomic<std::uint64_t> turned_away_{0};
};

}  // namespace holdfast::server
