// The gRPC front: holdfast.v1, health and reflection on one listener, with one completion queue and
// one thread (measured: more threads are slower, docs/decisions). What its loop does is in loop.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/time.h"
#include "engine/clock.h"
#include "engine/runner.h"
#include "holdfast/result.h"
#include "server/auth.h"
#include "server/loop.h"

namespace holdfast::server {

class AuditLog;

struct GrpcFrontOptions {
  std::string listen;  // HOST:PORT; port 0 takes a free one
  // PEM texts; an empty certificate means no TLS, an empty client CA no client certificates.
  std::string certificate;
  std::string key;
  std::string client_ca;
  Duration keepalive_time = Seconds(10);
  Duration keepalive_timeout = Seconds(5);
  std::size_t max_streams = 10'000;  // open calls of one connection
  LoopOptions loop;
};

inline constexpr int kRequestBytesMax = 4 << 20;

// Thread-safe.
class GrpcFront {
 public:
  // `audit` may be null. All must outlive the front. kUnavailable when it cannot listen.
  static Result<std::unique_ptr<GrpcFront>> Start(engine::Runner& runner, engine::Clock& clock,
                                                  const Authenticator& authenticator,
                                                  AuditLog* audit, const GrpcFrontOptions& options);
  ~GrpcFront();
  GrpcFront(const GrpcFront&) = delete;
  GrpcFront& operator=(const GrpcFront&) = delete;

  int port() const;
  FrontCounters counters() const;
  const RequestMeter& meter() const;  // lives as long as the front

  // Refuses new calls, lets those finish that the engine answers at once, tells those that wait
  // that the server stops, and after `grace` cuts off what is left. Returns when no call is open.
  // Idempotent; not from two threads at once.
  void Stop(Duration grace);

 private:
  class Impl;
  explicit GrpcFront(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast::server
