// Whoever wants to see every applied batch: audit, metrics.
#pragma once

#include <cstdint>
#include <vector>

#include "core/command.h"
#include "core/event.h"

namespace holdfast::engine {

class Observer {
 public:
  virtual ~Observer() = default;
  // Called by the driver after the batch was applied and before its replies go out, once for each
  // batch, in log order; `applied.outcomes[i]` belongs to `batch.commands[i]`. Must not block.
  virtual void OnApplied(const core::Batch& batch, const core::Applied& applied) = 0;
};

}  // namespace holdfast::engine
