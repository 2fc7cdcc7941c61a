#include "server/grpc_front.h"

#include <chrono>
#include <thread>
#include <utility>

#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/alarm.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include "base/log.h"
#include "server/services.h"

namespace holdfast::server {
namespace {

// Events handled before the turn is handed to the engine: the queue never starves it.
constexpr int kTurnEventsMax = 1024;
// A poll handles one connection and may find nothing for us there (a ping, a window update), though
// others are ready. A turn that ended at the first such poll would commit a few operations at a
// time, and let the rest wait for several commits.
constexpr int kEmptyPollsMax = 4;

// What gRPC says about single connections is for developers, its complaints are for operators to
// look at.
void LogForGrpc(gpr_log_func_args* entry) {
  if (entry->severity == GPR_LOG_SEVERITY_ERROR) {
    log::Warning("grpc: {}", entry->message);
  } else {
    log::Debug("grpc: {}", entry->message);
  }
}

std::shared_ptr<grpc::ServerCredentials> CredentialsOf(const GrpcFrontOptions& options) {
  if (options.certificate.empty()) {
    return grpc::InsecureServerCredentials();
  }
  grpc::SslServerCredentialsOptions ssl(
      options.client_ca.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  ssl.pem_root_certs = options.client_ca;
  ssl.pem_key_cert_pairs.push_back({options.key, options.certificate});
  return grpc::SslServerCredentials(ssl);
}

void SetArguments(const GrpcFrontOptions& options, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kRequestBytesMax);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             static_cast<int>(options.max_streams));
  // Two servers must not share a port by accident.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Pings find connections whose other end is gone without a word, also while no call is open.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS,
                             static_cast<int>(ToMillis(options.keepalive_time)));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                             static_cast<int>(ToMillis(options.keepalive_timeout)));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Clients may do the same once a second.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000);
}

}  // namespace

class GrpcFront::Impl {
 public:
  Impl(engine::Runner& runner, engine::Clock& clock, const Authenticator& authenticator,
       AuditLog* audit, const GrpcFrontOptions& options)
      : mailbox_(std::make_shared<Mailbox>([this] { Ring(); })),
        loop_(runner, clock, authenticator, audit, mailbox_, options.loop) {}

  Status Listen(const GrpcFrontOptions& options) {
    gpr_set_log_function(LogForGrpc);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    grpc::ServerBuilder builder;
    builder.AddListeningPort(options.listen, CredentialsOf(options), &port_);
    SetArguments(options, builder);
    services_.Register(builder);
    queue_ = builder.AddCompletionQueue();
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port_ == 0) {
      queue_->Shutdown();
      Drain();
      return Error{ErrorCode::kUnavailable,
                   "cannot listen on " + options.listen +
                       ": in use, not an address of this machine, or bad TLS files",
                   "", ""};
    }
    services_.Listen(loop_, *queue_);
    thread_ = std::thread([this] { Run(); });
    return {};
  }

  void Stop(Duration grace) {
    if (!thread_.joinable()) {
      return;
    }
    mailbox_->PostStop();
    server_->Shutdown(std::chrono::system_clock::now() + grace);
    mailbox_->PostClose();
    thread_.join();
  }

  int port() const { return port_; }
  FrontCounters counters() const { return loop_.counters(); }
  const RequestMeter& meter() const { return loop_.meter(); }

 private:
  class RingTag final : public Completion {
   public:
    explicit RingTag(Mailbox& mailbox) : mailbox_(mailbox) {}
    void OnCompletion(bool /*ok*/) override { mailbox_.OnRung(); }

   private:
    Mailbox& mailbox_;
  };

  // Any thread, under the mailbox's mutex and before the queue is shut down.
  void Ring() {
    Completion* tag = &ring_tag_;
    alarm_.Set(queue_.get(), gpr_time_0(GPR_CLOCK_REALTIME), tag);
  }

  void Run() {
    loop_.Begin();
    void* tag = nullptr;
    bool ok = false;
    while (queue_->Next(&tag, &ok)) {
      static_cast<Completion*>(tag)->OnCompletion(ok);
      for (int events = 1, empty = 0; events < kTurnEventsMax && empty < kEmptyPollsMax;) {
        if (queue_->AsyncNext(&tag, &ok, gpr_time_0(GPR_CLOCK_REALTIME)) !=
            grpc::CompletionQueue::GOT_EVENT) {
          ++empty;
          continue;
        }
        empty = 0;
        ++events;
        static_cast<Completion*>(tag)->OnCompletion(ok);
      }
      loop_.EndTurn();
      if (loop_.close_wanted() && !loop_.closed()) {
        loop_.Close();
        queue_->Shutdown();
      }
    }
  }

  void Drain() {
    void* tag = nullptr;
    bool ok = false;
    while (queue_->Next(&tag, &ok)) {
    }
  }

  std::shared_ptr<Mailbox> mailbox_;
  RingTag ring_tag_{*mailbox_};
  // The loop's calls use the queue and the services, so these go last.
  Services services_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  grpc::Alarm alarm_;
  Loop loop_;
  int port_ = 0;
  std::thread thread_;
};

Result<std::unique_ptr<GrpcFront>> GrpcFront::Start(engine::Runner& runner, engine::Clock& clock,
                                                    const Authenticator& authenticator,
                                                    AuditLog* audit,
                                                    const GrpcFrontOptions& options) {
  auto impl = std::make_unique<Impl>(runner, clock, authenticator, audit, options);
  const Status status = impl->Listen(options);
  if (!status.ok()) {
    return status.error();
  }
  return std::unique_ptr<GrpcFront>(new GrpcFront(std::move(impl)));
}

GrpcFront::GrpcFront(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

GrpcFront::~GrpcFront() {
  Stop(Duration::zero());
}

int GrpcFront::port() const {
  return impl_->port();
}

FrontCounters GrpcFront::counters() const {
  return impl_->counters();
}

const RequestMeter& GrpcFront::meter() const {
  return impl_->meter();
}

void GrpcFront::Stop(Duration grace) {
  impl_->Stop(grace);
}

}  // namespace holdfast::server
