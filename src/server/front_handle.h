// What a server knows of a front that is not its own: fronts of other modules (gateway/) are
// started by whoever wires the program, beside the gRPC front.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/time.h"
#include "engine/clock.h"
#include "engine/runner.h"
#include "holdfast/result.h"
#include "server/auth.h"
#include "server/config.h"
#include "server/loop.h"

namespace holdfast::server {

class AuditLog;
class Telemetry;

// All of it outlives the front.
struct FrontContext {
  engine::Runner& runner;
  engine::Clock& clock;
  const Authenticator& authenticator;
  AuditLog* audit;  // null without one
  const Config& config;
  Telemetry* telemetry;
};

class FrontHandle {
 public:
  virtual ~FrontHandle() = default;
  // Takes nothing new, answers those that wait with UNAVAILABLE, closes within `grace`. Idempotent.
  virtual void Stop(Duration grace) = 0;
  virtual const std::string& address() const = 0;  // HOST:PORT with the real port
  virtual const char* name() const = 0;            // for logs and metrics: "resp"
  virtual FrontCounters counters() const = 0;
  virtual const RequestMeter& meter() const = 0;  // lives as long as the front
};

using FrontFactory = std::function<Result<std::unique_ptr<FrontHandle>>(const FrontContext&)>;

}  // namespace holdfast::server
