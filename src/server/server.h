// A whole server in one object: disk, engine, audit log and fronts, wired from a Config.
// `holdfast server` is RunServer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/clock.h"
#include "engine/embedded_runner.h"
#include "engine/runner.h"
#include "holdfast/result.h"
#include "server/audit.h"
#include "server/auth.h"
#include "server/config.h"
#include "server/front_handle.h"
#include "server/grpc_front.h"
#include "server/http_front.h"
#include "server/node.h"
#include "server/telemetry.h"
#include "storage/file_system.h"

namespace holdfast::server {

// Methods are thread-safe, except that Stop is for one thread at a time.
class Server {
 public:
  // Recovers the data directory and listens. Errors: kInvalidArgument of the configuration, those
  // of Runner::Start, kUnavailable when it cannot listen. `more`: fronts of other modules.
  static Result<std::unique_ptr<Server>> Start(const Config& config,
                                               const std::vector<FrontFactory>& more = {});
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // HOST:PORT with the real port.
  const std::string& address() const { return address_; }
  engine::Runner& runner() { return *runner_; }
  // Empty without an HTTP listener.
  const std::string& http_address() const { return http_address_; }
  // Of the gRPC front, and of the HTTP front; zeros without one.
  FrontCounters counters() const { return front_->counters(); }
  FrontCounters http_counters() const;
  // Of every front but HTTP.
  std::vector<FrontLoad> loads() const;

  // Takes nothing new, finishes what is queued, answers those that wait with UNAVAILABLE, and
  // closes the journal. Takes at most about stop_timeout. Idempotent.
  void Stop();
  // Opens the audit log anew, after a rotation.
  void Reopen();

 private:
  explicit Server(const Config& config) : config_(config) {}
  Status Open(const std::vector<FrontFactory>& more);
  Status StartRunner();
  Result<std::unique_ptr<Authenticator>> MakeAuthenticator(const std::string& listen) const;
  Status OpenFronts(const std::vector<FrontFactory>& more);
  Status OpenHttp(const GrpcFrontOptions& pem);
  Status OpenMore(const std::vector<FrontFactory>& more);

  const Config config_;
  engine::SystemClock clock_;
  std::unique_ptr<storage::FileSystem> files_;
  std::unique_ptr<Authenticator> authenticator_;
  std::unique_ptr<Authenticator> http_authenticator_;  // who is on loopback differs by listener
  std::unique_ptr<Authenticator> resp_authenticator_;
  std::unique_ptr<AuditLog> audit_;  // null without one
  std::unique_ptr<Telemetry> telemetry_;
  std::unique_ptr<engine::Runner> runner_;
  std::unique_ptr<PeerServer> peers_;  // null when embedded
  std::unique_ptr<GrpcFront> front_;
  std::vector<std::unique_ptr<FrontHandle>> more_fronts_;
  std::unique_ptr<HttpFront> http_;  // null without one
  std::string address_;
  std::string http_address_;
  bool stopped_ = false;
};

// Blocks SIGTERM, SIGINT and SIGHUP in the calling thread and those that it starts: before the
// first thread.
void BlockSignals();

// Waits in the calling thread: SIGHUP reopens the audit log, SIGTERM and SIGINT stop the server,
// and then this returns. BlockSignals must have come first.
void RunUntilSignal(Server& server);

// BlockSignals, Start, a log line when ready, RunUntilSignal.
Status RunServer(const Config& config, const std::vector<FrontFactory>& more = {});

}  // namespace holdfast::server
