#include "server/request_meter.h"

#include <iterator>
#include <utility>

namespace holdfast::server {
namespace {

constexpr std::size_t kCommands = std::variant_size_v<core::CommandBody>;

// In the order of the variants; null for what no front can send.
constexpr const char* kVerbNames[] = {"acquire",
                                      "renew",
                                      "release",
                                      "cancel",
                                      nullptr,
                                      "break",
                                      "proclaim",
                                      "open_session",
                                      "keep_alive",
                                      "close_session",
                                      "change_namespace",
                                      nullptr,
                                      "set_feature_level",
                                      nullptr,
                                      "campaign",
                                      "describe",
                                      "list",
                                      "check_token",
                                      "leader",
                                      "describe_session",
                                      "get_namespace",
                                      "list_namespaces",
                                      "get_status"};

template <typename Body>
constexpr MeterVerb IndexOf() {
  return static_cast<MeterVerb>(core::CommandBody(std::in_place_type<Body>).index());
}

// A wait may last hours.
constexpr std::array<double, 15> kWaitBounds{0.001, 0.005, 0.025, 0.1, 0.25, 0.5,  1,   2.5,
                                             5,     10,    30,    60,  300,  1800, 3600};

constexpr std::size_t kOk = 0;
constexpr std::size_t kGranted = 1;
// kGranted + code: a refusal of an acquire.
constexpr std::size_t kRefused =
    kGranted + static_cast<std::size_t>(core::RefusalCode::kStateFull) + 1;
// kErrors + code: an error.
constexpr std::size_t kErrors = kRefused + 1;

constexpr std::size_t kNotFound = kErrors + static_cast<std::size_t>(ErrorCode::kNotFound);

struct OutcomeIndex {
  static std::size_t Done(bool done) { return done ? kOk : kRefused; }

  std::size_t operator()(const core::Granted& /*o*/) const { return kGranted; }
  std::size_t operator()(const core::Refused& o) const {
    return kGranted + static_cast<std::size_t>(o.code);
  }
  std::size_t operator()(const core::NotRenewed& /*o*/) const { return kRefused; }
  std::size_t operator()(const core::Released& o) const { return Done(o.released); }
  std::size_t operator()(const core::Cancelled& o) const {
    return Done(o.result != core::CancelResult::kNotYours &&
                o.result != core::CancelResult::kMemoryFull);
  }
  std::size_t operator()(const core::Broken& o) const {
    return Done(o.result != core::BreakResult::kNotTaken &&
                o.result != core::BreakResult::kUnsafeRefused);
  }
  std::size_t operator()(const core::Proclaimed& o) const { return Done(o.proclaimed); }
  std::size_t operator()(const core::SessionRefused& /*o*/) const { return kRefused; }
  std::size_t operator()(const core::SessionKept& o) const { return Done(o.alive); }
  std::size_t operator()(const core::SessionClosed& o) const { return Done(o.closed); }
  std::size_t operator()(const core::NamespaceChanged& o) const {
    return Done(o.result == core::NamespaceResult::kOk);
  }
  std::size_t operator()(const core::FeatureLevelSet& o) const { return Done(o.accepted); }
  std::size_t operator()(const core::NoSuchNamespace& /*o*/) const { return kNotFound; }
  template <typename Other>
  std::size_t operator()(const Other& /*o*/) const {
    return kOk;
  }
};

bool IsAcquire(std::size_t verb) {
  return verb == IndexOf<core::Acquire>() || verb == kCommands;
}

// Whether the pair is worth a series of its own before it has ever occurred.
bool IsNormal(std::size_t verb, std::size_t outcome) {
  if (IsAcquire(verb)) {
    return outcome >= kGranted && outcome < kRefused;
  }
  return outcome == kOk || (outcome == kRefused && verb < kCommands);
}

void Add(const HistogramData& from, HistogramData& to) {
  if (to.counts.empty()) {
    to = from;
    return;
  }
  for (std::size_t i = 0; i < to.counts.size(); ++i) {
    to.counts[i] += from.counts[i];
  }
  to.sum += from.sum;
}

}  // namespace

MeterVerb MeterVerbOf(const EngineRequest& request) {
  if (const auto* query = std::get_if<core::Query>(&request)) {
    return static_cast<MeterVerb>(kCommands + 1 + query->index());
  }
  const core::CommandBody& body = std::get<core::Command>(request).body;
  if (const auto* acquire = std::get_if<core::Acquire>(&body);
      acquire != nullptr && acquire->campaign) {
    return static_cast<MeterVerb>(kCommands);
  }
  return static_cast<MeterVerb>(body.index());
}

RequestMeter::RequestMeter() : wait_seconds_(kWaitBounds) {
  static_assert(std::size(kVerbNames) == kVerbs);
  static_assert(kErrors + static_cast<std::size_t>(ErrorCode::kInternal) + 1 == kOutcomes);
}

std::size_t RequestMeter::OutcomeOf(const engine::Reply& reply) {
  if (const auto* outcome = std::get_if<core::Outcome>(&reply.answer)) {
    return std::visit(OutcomeIndex(), *outcome);
  }
  if (const auto* view = std::get_if<core::View>(&reply.answer)) {
    return std::holds_alternative<core::NoSuchNamespace>(*view) ? kNotFound : kOk;
  }
  return kErrors + static_cast<std::size_t>(std::get<Error>(reply.answer).code);
}

const char* RequestMeter::OutcomeName(std::size_t outcome) {
  if (outcome >= kErrors) {
    return ErrorCodeName(static_cast<ErrorCode>(outcome - kErrors));
  }
  if (outcome > kGranted && outcome < kRefused) {
    return core::RefusalName(static_cast<core::RefusalCode>(outcome - kGranted));
  }
  if (outcome == kGranted) {
    return "GRANTED";
  }
  return outcome == kOk ? "OK" : "REFUSED";
}

void RequestMeter::Record(MeterVerb verb, const engine::Reply& reply, Duration taken) {
  Histogram::Bump(outcomes_[verb][OutcomeOf(reply)], std::uint64_t{1});
  if (reply.waited) {
    wait_seconds_.Record(taken);
  } else {
    latencies_[verb].Record(taken);
  }
  if (const auto* view = std::get_if<core::View>(&reply.answer)) {
    if (const auto* token = std::get_if<core::TokenView>(view)) {
      Histogram::Bump(token_checks_[static_cast<std::size_t>(token->verdict)], std::uint64_t{1});
    }
  }
}

RequestCounts RequestMeter::Sum(const std::vector<const RequestMeter*>& meters) {
  RequestCounts sum;
  sum.token_checks.resize(kVerdicts);
  for (std::size_t verb = 0; verb < kVerbs; ++verb) {
    if (kVerbNames[verb] == nullptr) {
      continue;
    }
    HistogramData latency;
    std::array<std::uint64_t, kOutcomes> outcomes{};
    for (const RequestMeter* meter : meters) {
      Add(meter->latencies_[verb].Read(), latency);
      for (std::size_t outcome = 0; outcome < kOutcomes; ++outcome) {
        outcomes[outcome] += meter->outcomes_[verb][outcome].load(std::memory_order_relaxed);
      }
    }
    sum.latencies.push_back({kVerbNames[verb], std::move(latency)});
    for (std::size_t outcome = 0; outcome < kOutcomes; ++outcome) {
      if (outcomes[outcome] > 0 || IsNormal(verb, outcome)) {
        sum.outcomes.push_back({kVerbNames[verb], OutcomeName(outcome), outcomes[outcome]});
      }
    }
  }
  for (const RequestMeter* meter : meters) {
    Add(meter->wait_seconds_.Read(), sum.wait_seconds);
    for (std::size_t verdict = 0; verdict < kVerdicts; ++verdict) {
      sum.token_checks[verdict] += meter->token_checks_[verdict].load(std::memory_order_relaxed);
    }
  }
  return sum;
}

}  // namespace holdfast::server
