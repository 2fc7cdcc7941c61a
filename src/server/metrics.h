// What the server measures about itself, in the text format of Prometheus. docs/HTTP.md lists it.
#pragma once

#include <string>
#include <vector>

#include "engine/runner.h"
#include "server/http_routes.h"

namespace holdfast::v1 {
class GetStatusResponse;
}

namespace holdfast::server {

// `watchers`: subscriptions of all fronts.
std::string MetricsText(const v1::GetStatusResponse& status, const engine::RunnerStats& stats,
                        std::size_t watchers, const std::vector<FrontLoad>& fronts);

}  // namespace holdfast::server
