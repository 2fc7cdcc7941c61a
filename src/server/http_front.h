// The HTTP front: the verbs of holdfast.v1 as JSON, watches as server-sent events, health and
// metrics, on one listener with one thread (docs/HTTP.md). What its loop does is in loop.h, what a
// connection does in http_call.h.
#pragma once

#include <memory>
#include <string>

#include "base/time.h"
#include "engine/clock.h"
#include "engine/runner.h"
#include "holdfast/result.h"
#include "server/auth.h"
#include "server/http_call.h"
#include "server/http_listener.h"
#include "server/loop.h"

namespace holdfast::server {

class AuditLog;

struct HttpFrontOptions {
  std::string listen;  // HOST:PORT; port 0 takes a free one
  // PEM texts; an empty certificate means no TLS, an empty client CA no client certificates.
  std::string certificate;
  std::string key;
  std::string client_ca;
  LoopOptions loop;
  HttpCallOptions calls;
  HttpLimits limits;
};

// Thread-safe.
class HttpFront {
 public:
  // `audit` may be null. All must outlive the front. kUnavailable when it cannot listen,
  // kInvalidArgument for bad TLS files.
  static Result<std::unique_ptr<HttpFront>> Start(engine::Runner& runner, engine::Clock& clock,
                                                  const Authenticator& authenticator,
                                                  AuditLog* audit, const HttpFrontOptions& options);
  ~HttpFront();
  HttpFront(const HttpFront&) = delete;
  HttpFront& operator=(const HttpFront&) = delete;

  int port() const;
  FrontCounters counters() const;
  const RequestMeter& meter() const;  // lives as long as the front

  // Takes no new connections and requests, answers those that wait that the server stops, and after
  // `grace` cuts off what is left. Returns when no connection is open. Idempotent; not from two
  // threads at once.
  void Stop(Duration grace);

 private:
  class Impl;
  explicit HttpFront(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast::server
