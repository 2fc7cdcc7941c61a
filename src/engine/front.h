// The seam between the fronts (gRPC, later RESP and HTTP) and the engine. A front hands over
// everything that one turn of its loop read as one vector of proposals, and gets whole vectors of
// replies back: one wake-up each way, not one per operation.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "core/command.h"
#include "core/outcome.h"
#include "core/view.h"
#include "holdfast/result.h"

namespace holdfast::engine {

// One request of a front. Commands must have passed core::Validate.
struct Proposal {
  std::uint64_t tag = 0;  // the front's own; unique among its requests without a reply
  std::variant<core::Command, core::Query> request;
};

// Exactly one for each proposal that was not abandoned. An acquire that waits is answered when its
// wait is over.
struct Reply {
  std::uint64_t tag = 0;
  std::variant<core::Outcome, core::View, Error> answer;
  std::uint64_t index = 0;  // log position of the state that the answer was taken from
  bool waited = false;      // the request stood in a queue before it was decided
};

class Front {
 public:
  virtual ~Front() = default;
  // Called by whichever thread drives the engine at the moment: the front's own, inside Submit, or
  // another one. It must not block and must not call Submit or Abandon from inside; it moves the
  // replies to its own loop where that is another thread.
  virtual void OnReplies(std::vector<Reply>&& replies) = 0;
};

}  // namespace holdfast::engine
