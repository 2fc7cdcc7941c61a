// A namespace's policy: replicated, changed by command only, never by node configuration.
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"

namespace holdfast::core {

// What a grant protects. Advisory: the resource does not check tokens. Fenced: the namespace's
// owner declares that its resources refuse tokens below the highest that they have seen.
enum class Guarantee : std::uint8_t { kAdvisory = 1, kFenced = 2 };
constexpr bool EnumInRange(Guarantee value) {
  return value == Guarantee::kAdvisory || value == Guarantee::kFenced;
}

const char* GuaranteeName(Guarantee guarantee);  // "FENCED"

struct Policy {
  Guarantee protection = Guarantee::kAdvisory;
  bool strict = false;  // advisory use is refused
  Duration ttl_default = Seconds(30);
  Duration ttl_min = Seconds(1);                                       // 100 ms .. ttl_max
  Duration ttl_max = Seconds(600);                                     // .. 24 h
  Duration hold_max{};                                                 // 0: no maximum; .. 30 days
  Duration wait_max = Seconds(3600);                                   // 0 .. 24 h
  std::uint32_t waiters_per_resource = 1000;                           // 0 .. 100,000
  std::uint32_t waiters_per_tenant = 20'000;                           // 0 .. 1,000,000
  std::uint32_t holds_per_tenant = 100'000;                            // 1 .. 1,000,000
  std::uint32_t sessions_per_tenant = 50'000;                          // 0 .. 1,000,000
  Duration lock_delay = Seconds(10);                                   // 0 .. 10 min
  Duration request_memory = Seconds(600);                              // 1 s .. 24 h
  std::uint64_t request_bytes_per_tenant = std::uint64_t{512} << 20U;  // 64 KiB .. 16 GiB
  Duration detach_grace = Seconds(10);                                 // 0 .. 10 min

  bool operator==(const Policy&) const = default;
};

// Fields to change; absent ones stay.
struct PolicyPatch {
  std::optional<Guarantee> protection;
  std::optional<bool> strict;
  std::optional<Duration> ttl_default;
  std::optional<Duration> ttl_min;
  std::optional<Duration> ttl_max;
  std::optional<Duration> hold_max;
  std::optional<Duration> wait_max;
  std::optional<std::uint32_t> waiters_per_resource;
  std::optional<std::uint32_t> waiters_per_tenant;
  std::optional<std::uint32_t> holds_per_tenant;
  std::optional<std::uint32_t> sessions_per_tenant;
  std::optional<Duration> lock_delay;
  std::optional<Duration> request_memory;
  std::optional<std::uint64_t> request_bytes_per_tenant;
  std::optional<Duration> detach_grace;
};

// The policy with the patch applied. Going to `fenced` without naming a lock-delay sets it to 0,
// going to `advisory` without naming one sets it to 10 s.
Policy Patched(Policy policy, const PolicyPatch& patch);

template <typename A>
void Archive(A& a, Policy& p) {
  a(p.protection, p.strict, p.ttl_default, p.ttl_min, p.ttl_max, p.hold_max, p.wait_max,
    p.waiters_per_resource, p.waiters_per_tenant, p.holds_per_tenant, p.sessions_per_tenant,
    p.lock_delay, p.request_memory, p.request_bytes_per_tenant, p.detach_grace);
}

template <typename A>
void Archive(A& a, PolicyPatch& p) {
  a(p.protection, p.strict, p.ttl_default, p.ttl_min, p.ttl_max, p.hold_max, p.wait_max,
    p.waiters_per_resource, p.waiters_per_tenant, p.holds_per_tenant, p.sessions_per_tenant,
    p.lock_delay, p.request_memory, p.request_bytes_per_tenant, p.detach_grace);
}

}  // namespace holdfast::core
