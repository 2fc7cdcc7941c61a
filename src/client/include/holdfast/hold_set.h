// Several locks at once. Not atomic: they are taken one after another, in the order of their names,
// so that two callers who want the same locks cannot block each other for ever.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/hold.h"
#include "holdfast/states.h"

namespace holdfast::client {

struct AcquireAllGoal {
  std::vector<std::string> resources;  // at least one; a name that comes twice counts once
  // For each of them; `resource` and `request_id` stay empty. `wait` is the time for all together.
  AcquireRequest acquire;
  Duration stop_time{};  // as in LockGoal
};

// Methods are thread-safe.
class HOLDFAST_API HoldSet {
 public:
  // `holds` in the order in which they were taken.
  explicit HoldSet(std::vector<std::unique_ptr<Hold>> holds);
  // As Release.
  ~HoldSet();
  HoldSet(const HoldSet&) = delete;
  HoldSet& operator=(const HoldSet&) = delete;

  // Whether all of them are held.
  bool EnsureHeld() const;
  // In the order of their names.
  const std::vector<std::unique_ptr<Hold>>& holds() const { return holds_; }
  // In reverse order; returns at once.
  void Release();

 private:
  const std::vector<std::unique_ptr<Hold>> holds_;
};

struct AcquireAllResult {
  std::unique_ptr<HoldSet> held;  // null: nothing is held any more
  LockUpdate failed;              // without `held`: the lock that could not be had, and why
};

}  // namespace holdfast::client
