#include "core/policy.h"

namespace holdfast::core {
namespace {

template <typename T>
void Take(T& field, const std::optional<T>& change) {
  if (change.has_value()) {
    field = *change;
  }
}

}  // namespace

Policy Patched(Policy policy, const PolicyPatch& patch) {
  if (patch.protection.has_value() && *patch.protection != policy.protection) {
    policy.lock_delay = *patch.protection == Guarantee::kFenced ? Duration{} : Policy{}.lock_delay;
  }
  Take(policy.protection, patch.protection);
  Take(policy.strict, patch.strict);
  Take(policy.ttl_default, patch.ttl_default);
  Take(policy.ttl_min, patch.ttl_min);
  Take(policy.ttl_max, patch.ttl_max);
  Take(policy.hold_max, patch.hold_max);
  Take(policy.wait_max, patch.wait_max);
  Take(policy.waiters_per_resource, patch.waiters_per_resource);
  Take(policy.waiters_per_tenant, patch.waiters_per_tenant);
  Take(policy.holds_per_tenant, patch.holds_per_tenant);
  Take(policy.sessions_per_tenant, patch.sessions_per_tenant);
  Take(policy.lock_delay, patch.lock_delay);
  Take(policy.request_memory, patch.request_memory);
  Take(policy.request_bytes_per_tenant, patch.request_bytes_per_tenant);
  Take(policy.detach_grace, patch.detach_grace);
  return policy;
}

}  // namespace holdfast::core
