#include "server/server.h"

#include <csignal>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "server/pem.h"
#include "server/ttl_advice.h"
#include "storage/posix_file_system.h"

namespace holdfast::server {
namespace {

engine::RunnerOptions RunnerOptionsOf(const Config& config) {
  engine::RunnerOptions options;
  options.data_directory = config.data_dir;
  options.engine.batch_bytes_max = config.batch_bytes;
  options.engine.admission = {.renewals_max = config.queue_max, .others_max = config.queue_max};
  options.engine.failover_grace = config.failover_grace;
  options.journal.segment_bytes = config.segment_bytes;
  options.tick = config.tick;
  options.snapshot_bytes = config.snapshot_bytes;
  return options;
}

std::string WithPort(const std::string& listen, int port) {
  return listen.substr(0, listen.rfind(':') + 1) + std::to_string(port);
}

sigset_t HandledSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  return signals;
}

}  // namespace

Result<std::unique_ptr<Server>> Server::Start(const Config& config,
                                              const std::vector<FrontFactory>& more) {
  std::unique_ptr<Server> server(new Server(config));
  if (const Status opened = server->Open(more); !opened.ok()) {
    return opened.error();
  }
  return server;
}

Server::~Server() {
  Stop();
}

Status Server::Open(const std::vector<FrontFactory>& more) {
  if (config_.data_dir.empty()) {
    return InvalidArgument("data_dir", "a directory", "data_dir is required");
  }
  if (Status checked = CheckConfig(config_); !checked.ok()) {
    return checked;
  }
  log::SetLevel(LogLevelOf(config_));
  auto authenticator = MakeAuthenticator(config_.listen);
  auto for_http = MakeAuthenticator(config_.http_listen);
  auto for_resp = MakeAuthenticator(config_.resp_listen);
  for (const auto* made : {&authenticator, &for_http, &for_resp}) {
    if (!made->ok()) {
      return made->error();
    }
  }
  authenticator_ = std::move(*authenticator);
  http_authenticator_ = std::move(*for_http);
  resp_authenticator_ = std::move(*for_resp);
  files_ = std::make_unique<storage::PosixFileSystem>();
  if (Status started = StartRunner(); !started.ok()) {
    return started;
  }
  if (!config_.audit_log.empty()) {
    auto audit =
        AuditLog::Open(clock_, {.path = config_.audit_log, .renewals = config_.audit_renewals});
    if (!audit.ok()) {
      return audit.error();
    }
    audit_ = std::move(*audit);
    runner_->AddObserver(*audit_);
  }
  telemetry_ = std::make_unique<Telemetry>(TelemetryOptions{
      .hot_resources = config_.hot_resources, .recommended_ttl_min = RecommendedTtlMin(config_)});
  runner_->AddObserver(*telemetry_);
  return OpenFronts(more);
}

Status Server::StartRunner() {
  if (config_.etcd_endpoints.empty()) {
    auto runner = engine::EmbeddedRunner::Start(*files_, clock_, RunnerOptionsOf(config_));
    if (!runner.ok()) {
      return runner.error();
    }
    runner_ = std::move(*runner);
    return {};
  }
  Result<Node> node = StartNode(*files_, clock_, config_, RunnerOptionsOf(config_).engine);
  if (!node.ok()) {
    return node.error();
  }
  runner_ = std::move(node->runner);
  peers_ = std::move(node->peers);
  return {};
}

Result<std::unique_ptr<Authenticator>> Server::MakeAuthenticator(const std::string& listen) const {
  auto authenticator = Authenticator::Create({.identities = config_.identities,
                                              .client_certificates = !config_.tls_client_ca.empty(),
                                              .loopback = IsLoopback(listen)});
  if (!authenticator.ok()) {
    return authenticator.error();
  }
  return std::make_unique<Authenticator>(std::move(*authenticator));
}

Status Server::OpenFronts(const std::vector<FrontFactory>& more) {
  GrpcFrontOptions options;
  options.listen = config_.listen;
  options.keepalive_time = config_.keepalive_time;
  options.keepalive_timeout = config_.keepalive_timeout;
  options.max_streams = config_.max_streams;
  options.loop.max_calls = config_.max_calls;
  options.loop.telemetry = telemetry_.get();
  for (const Status& read : {ReadPem("tls.cert", config_.tls_cert, options.certificate),
                             ReadPem("tls.key", config_.tls_key, options.key),
                             ReadPem("tls.client_ca", config_.tls_client_ca, options.client_ca)}) {
    if (!read.ok()) {
      return read;
    }
  }
  auto front = GrpcFront::Start(*runner_, clock_, *authenticator_, audit_.get(), options);
  if (!front.ok()) {
    return front.error();
  }
  front_ = std::move(*front);
  address_ = WithPort(config_.listen, front_->port());
  if (const Status opened = OpenMore(more); !opened.ok()) {
    return opened;
  }
  // The last one: its metrics show the others.
  return config_.http_listen.empty() ? Status() : OpenHttp(options);
}

Status Server::OpenHttp(const GrpcFrontOptions& pem) {
  HttpFrontOptions options;
  options.listen = config_.http_listen;
  options.certificate = pem.certificate;
  options.key = pem.key;
  options.client_ca = pem.client_ca;
  options.loop = pem.loop;
  options.calls.other_loads = [this] { return loads(); };
  options.calls.max_watches = config_.http_max_watches;
  options.calls.check_host = http_authenticator_->IsOpen() && IsLoopback(config_.http_listen);
  options.limits = {.max_connections = config_.http_max_connections,
                    .header_bytes = config_.http_header_bytes,
                    .body_bytes = config_.http_body_bytes,
                    .idle_timeout = config_.http_idle_timeout,
                    .request_timeout = config_.http_request_timeout,
                    .keepalive_time = config_.keepalive_time,
                    .keepalive_timeout = config_.keepalive_timeout};
  auto http = HttpFront::Start(*runner_, clock_, *http_authenticator_, audit_.get(), options);
  if (!http.ok()) {
    return http.error();
  }
  http_ = std::move(*http);
  http_address_ = WithPort(config_.http_listen, http_->port());
  return {};
}

Status Server::OpenMore(const std::vector<FrontFactory>& more) {
  for (const FrontFactory& factory : more) {
    auto front =
        factory({*runner_, clock_, *resp_authenticator_, audit_.get(), config_, telemetry_.get()});
    if (!front.ok()) {
      return front.error();
    }
    log::Info("listening front={} listen={}", (*front)->name(), (*front)->address());
    more_fronts_.push_back(std::move(*front));
  }
  return {};
}

FrontCounters Server::http_counters() const {
  return http_ == nullptr ? FrontCounters{} : http_->counters();
}

std::vector<FrontLoad> Server::loads() const {
  std::vector<FrontLoad> loads{{"grpc", front_->counters(), &front_->meter()}};
  for (const auto& front : more_fronts_) {
    loads.push_back({front->name(), front->counters(), &front->meter()});
  }
  return loads;
}

void Server::Stop() {
  if (stopped_ || front_ == nullptr) {
    return;
  }
  stopped_ = true;
  // Side by side, so that each has all of the time.
  std::vector<std::thread> stops;
  for (const auto& front : more_fronts_) {
    stops.emplace_back([this, &front] { front->Stop(config_.stop_timeout); });
  }
  if (http_ != nullptr) {
    stops.emplace_back([this] { http_->Stop(config_.stop_timeout); });
  }
  front_->Stop(config_.stop_timeout);
  for (std::thread& stop : stops) {
    stop.join();
  }
  runner_->Stop();  // before the peers' links: a leader hands over first
  if (peers_ != nullptr) {
    peers_->Stop();
  }
}

void Server::Reopen() {
  if (audit_ != nullptr) {
    audit_->Reopen();
  }
}

void BlockSignals() {
  const sigset_t signals = HandledSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

void RunUntilSignal(Server& server) {
  const sigset_t signals = HandledSignals();
  for (;;) {
    int signal = 0;
    sigwait(&signals, &signal);
    if (signal == SIGHUP) {
      server.Reopen();
      continue;
    }
    log::Info("holdfast stops signal={}", signal == SIGTERM ? "SIGTERM" : "SIGINT");
    server.Stop();
    log::Info("holdfast has stopped");
    return;
  }
}

Status RunServer(const Config& config, const std::vector<FrontFactory>& more) {
  BlockSignals();
  auto server = Server::Start(config, more);
  if (!server.ok()) {
    return server.error();
  }
  const std::string& http = (*server)->http_address();
  log::Info("holdfast is ready listen={} http={} data_dir={}", (*server)->address(),
            http.empty() ? "none" : http, config.data_dir);
  RunUntilSignal(**server);
  return {};
}

}  // namespace holdfast::server
