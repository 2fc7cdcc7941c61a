// What the server measures about itself, in the text format of Prometheus. docs/METRICS.md lists
// every name; a test compares.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/runner.h"
#include "server/http_routes.h"

namespace holdfast::v1 {
class GetStatusResponse;
}

namespace holdfast::server {

class Telemetry;

struct MetricsSources {
  const v1::GetStatusResponse& status;
  const engine::RunnerStats& stats;
  std::size_t watchers = 0;  // subscriptions of all fronts
  const std::vector<FrontLoad>& fronts;
  const Telemetry& telemetry;
};

std::string MetricsText(const MetricsSources& sources);

}  // namespace holdfast::server
