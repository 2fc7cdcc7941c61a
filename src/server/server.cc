#include "server/server.h"

#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "base/log.h"
#include "storage/posix_file_system.h"

namespace holdfast::server {
namespace {

Status ReadPem(const char* option, const std::string& path, std::string& text) {
  if (path.empty()) {
    return {};
  }
  std::ifstream file(path, std::ios::binary);
  text.assign(std::istreambuf_iterator<char>(file), {});
  if (text.find("-----BEGIN ") == std::string::npos) {
    return InvalidArgument(option, "a readable PEM file",
                           std::string(option) + ": " + path + " is not a PEM file");
  }
  return {};
}

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
  if (const Status opened = server->Open(); !opened.ok()) {
    return opened.error();
  }
  if (const Status opened = server->OpenMore(more); !opened.ok()) {
    return opened.error();
  }
  return server;
}

Server::~Server() {
  Stop();
}

Status Server::Open() {
  if (config_.data_dir.empty()) {
    return InvalidArgument("data_dir", "a directory", "data_dir is required");
  }
  if (Status checked = CheckConfig(config_); !checked.ok()) {
    return checked;
  }
  log::SetLevel(LogLevelOf(config_));
  auto authenticator = Authenticator::Create({.identities = config_.identities,
                                              .client_certificates = !config_.tls_client_ca.empty(),
                                              .loopback = OnlyLoopback(config_)});
  if (!authenticator.ok()) {
    return authenticator.error();
  }
  authenticator_ = std::make_unique<Authenticator>(std::move(*authenticator));
  files_ = std::make_unique<storage::PosixFileSystem>();
  auto runner = engine::Runner::Start(*files_, clock_, RunnerOptionsOf(config_));
  if (!runner.ok()) {
    return runner.error();
  }
  runner_ = std::move(*runner);
  if (!config_.audit_log.empty()) {
    auto audit =
        AuditLog::Open(clock_, {.path = config_.audit_log, .renewals = config_.audit_renewals});
    if (!audit.ok()) {
      return audit.error();
    }
    audit_ = std::move(*audit);
    runner_->AddObserver(*audit_);
  }
  return OpenFront();
}

Status Server::OpenFront() {
  GrpcFrontOptions options;
  options.listen = config_.listen;
  options.keepalive_time = config_.keepalive_time;
  options.keepalive_timeout = config_.keepalive_timeout;
  options.max_streams = config_.max_streams;
  options.loop.max_calls = config_.max_calls;
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
  address_ =
      config_.listen.substr(0, config_.listen.rfind(':') + 1) + std::to_string(front_->port());
  return {};
}

Status Server::OpenMore(const std::vector<FrontFactory>& more) {
  for (const FrontFactory& factory : more) {
    auto front = factory({*runner_, clock_, *authenticator_, audit_.get(), config_});
    if (!front.ok()) {
      return front.error();
    }
    log::Info("listening front={} listen={}", (*front)->name(), (*front)->address());
    more_fronts_.push_back(std::move(*front));
  }
  return {};
}

void Server::Stop() {
  if (stopped_ || front_ == nullptr) {
    return;
  }
  stopped_ = true;
  for (const auto& front : more_fronts_) {
    front->Stop(config_.stop_timeout);
  }
  front_->Stop(config_.stop_timeout);
  runner_->Stop();
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
  log::Info("holdfast is ready listen={} data_dir={}", (*server)->address(), config.data_dir);
  RunUntilSignal(**server);
  return {};
}

}  // namespace holdfast::server
