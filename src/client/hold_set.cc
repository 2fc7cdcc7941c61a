#include "holdfast/hold_set.h"

#include <algorithm>
#include <utility>

#include "client/acquire_all.h"

namespace holdfast::client {
namespace {

LockUpdate Refuse(std::string field, std::string limit) {
  LockUpdate update;
  update.state = LockState::kNotAcquired;
  std::string message = field + " must be " + limit;
  update.error = InvalidArgument(std::move(field), std::move(limit), std::move(message));
  return update;
}

}  // namespace

HoldSet::HoldSet(std::vector<std::unique_ptr<Hold>> holds) : holds_(std::move(holds)) {}

HoldSet::~HoldSet() {
  Release();
}

bool HoldSet::EnsureHeld() const {
  return std::all_of(holds_.begin(), holds_.end(),
                     [](const std::unique_ptr<Hold>& hold) { return hold->EnsureHeld(); });
}

void HoldSet::Release() {
  for (auto hold = holds_.rbegin(); hold != holds_.rend(); ++hold) {
    (*hold)->Release();
  }
}

AcquireAllResult AcquireInOrder(const AcquireAllGoal& goal, const std::function<BootTime()>& now,
                                const std::function<std::unique_ptr<Hold>(const LockGoal&)>& lock) {
  if (goal.resources.empty()) {
    return {nullptr, Refuse("resources", "at least one")};
  }
  if (!goal.acquire.resource.empty() || !goal.acquire.request_id.empty()) {
    return {nullptr, Refuse("acquire", "without resource and request_id: each lock has its own")};
  }
  std::vector<std::string> names = goal.resources;
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());

  const BootTime deadline = now() + goal.acquire.wait;
  std::vector<std::unique_ptr<Hold>> holds;
  LockUpdate failed;
  for (const std::string& name : names) {
    LockGoal one{.acquire = goal.acquire, .value = {}, .stop_time = goal.stop_time};
    one.acquire.resource = name;
    one.acquire.wait = std::max(deadline - now(), Duration::zero());
    holds.push_back(lock(one));
    if (const LockUpdate update = holds.back()->WaitUntilAcquired(); IsFinal(update.state)) {
      failed = update;
      break;
    }
  }
  // One of the first may have been lost while the last was waited for.
  for (const auto& hold : holds) {
    if (failed.resource.empty() && !hold->EnsureHeld()) {
      failed = hold->WaitUntilOver();
    }
  }
  if (failed.resource.empty()) {
    return {std::make_unique<HoldSet>(std::move(holds)), {}};
  }
  HoldSet taken(std::move(holds));
  taken.Release();
  for (const auto& hold : taken.holds()) {
    hold->WaitUntilOver();
  }
  return {nullptr, failed};
}

}  // namespace holdfast::client
