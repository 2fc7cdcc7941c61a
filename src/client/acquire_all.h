// Takes several locks in the order of their names; see holdfast/hold_set.h. The same for locks of
// their own and for locks on a session.
#pragma once

#include <functional>
#include <memory>

#include "base/time.h"
#include "holdfast/hold_set.h"

namespace holdfast::client {

// Blocks; for any thread but the client's own.
AcquireAllResult AcquireInOrder(const AcquireAllGoal& goal, const std::function<BootTime()>& now,
                                const std::function<std::unique_ptr<Hold>(const LockGoal&)>& lock);

}  // namespace holdfast::client
