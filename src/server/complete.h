// What the fronts add to the answer of a verb, and ask of it, beyond the table of convert.h. For
// the .cc files of fronts only.
#pragma once

#include <type_traits>

#include "server/convert.h"
#include "server/loop.h"

namespace holdfast::server {

template <typename Request>
constexpr bool kMayWait = requires(const Request& request) {
  MayWait(request);
};

// What the engine does not know.
template <typename Response>
void Complete(Loop& loop, const Caller& caller, Response& response) {
  if constexpr (std::is_same_v<Response, v1::GetStatusResponse>) {
    WriteStats(loop.runner().Stats(), loop.clock().Boot(), loop.clock().Wall(), response);
  } else if constexpr (std::is_same_v<Response, v1::ListNamespacesResponse>) {
    Restrict(caller, response);
  }
}

}  // namespace holdfast::server
