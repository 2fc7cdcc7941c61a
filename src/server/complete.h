// What the fronts add to the answer of a verb, and ask of it, beyond the table of convert.h. For
// the .cc files of fronts only.
#pragma once

#include <string>
#include <type_traits>

#include "server/convert.h"
#include "server/loop.h"
#include "server/telemetry.h"

namespace holdfast::server {

template <typename Request>
constexpr bool kMayWait = requires(const Request& request) {
  MayWait(request);
};

// What the engine does not know.
template <typename Request, typename Response>
void Complete(Loop& loop, const Caller& caller, [[maybe_unused]] const Request& request,
              Response& response) {
  if constexpr (std::is_same_v<Response, v1::GetStatusResponse>) {
    WriteStats(loop.runner().Stats(), loop.clock().Boot(), loop.clock().Wall(),
               loop.telemetry()->recommended_ttl_min(), response);
  } else if constexpr (std::is_same_v<Response, v1::ListHotResourcesResponse>) {
    const auto may_see = [&](const std::string& name) {
      return request.namespace_().empty() ? MayUse(caller, name) : name == request.namespace_();
    };
    WriteHot(loop.telemetry()->Hot(request.limit(), may_see), response);
  } else if constexpr (std::is_same_v<Response, v1::StepDownResponse>) {
    const auto member = loop.runner().Stats().member;
    response.set_stepping_down(member.has_value() && member->role == engine::Role::kLeading &&
                               loop.runner().StepDown());
  } else if constexpr (std::is_same_v<Response, v1::ListNamespacesResponse>) {
    Restrict(caller, response);
  }
}

}  // namespace holdfast::server
