#include "etcd/client.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include <fmt/core.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/grpcpp.h>
#include <pthread.h>

#include "base/log.h"
#include "etcd/convert.h"
#include "etcdserverpb/rpc.grpc.pb.h"

namespace holdfast::etcd {
namespace {

namespace pb = etcdserverpb;

// etcd ends connections that ping more often than every 5 s.
constexpr int kKeepaliveMs = 10'000;
constexpr int kKeepaliveTimeoutMs = 3'000;
constexpr int kConnectTimeoutMs = 1'000;
constexpr int kReconnectMaxMs = 2'000;

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& endpoint,
                                           const std::shared_ptr<grpc::ChannelCredentials>& how) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);  // a list or a watch may bring many entries at once
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // gRPC takes this for the time that a connection may need, too.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMaxMs);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);  // only the journal knows what may be sent again
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(endpoint, how, arguments);
}

std::chrono::system_clock::time_point DeadlineAfter(Duration timeout) {
  return std::chrono::system_clock::now() +
         std::chrono::duration_cast<std::chrono::system_clock::duration>(timeout);
}

// What a completion is about. Deleted by Done when it returns false.
class Tag {
 public:
  virtual ~Tag() = default;
  virtual bool Done(bool ok) = 0;
};

class GrpcClient;

struct TxnCall : Tag {
  GrpcClient* client = nullptr;
  std::uint64_t id = 0;
  std::size_t endpoint = 0;
  grpc::ClientContext context;
  pb::TxnResponse response;
  grpc::Status status;
  std::unique_ptr<grpc::ClientAsyncResponseReader<pb::TxnResponse>> reader;
  bool Done(bool ok) override;
};

struct LoginCall : Tag {
  GrpcClient* client = nullptr;
  std::size_t endpoint = 0;
  grpc::ClientContext context;
  pb::AuthenticateResponse response;
  grpc::Status status;
  std::unique_ptr<grpc::ClientAsyncResponseReader<pb::AuthenticateResponse>> reader;
  bool Done(bool ok) override;
};

// One operation of the stream is in flight at any time, so one tag is enough.
struct WatchCall : Tag {
  enum class State : std::uint8_t { kStarting, kWriting, kReading, kFinishing };
  GrpcClient* client = nullptr;
  std::uint64_t id = 0;
  std::size_t endpoint = 0;
  State state = State::kStarting;
  grpc::ClientContext context;
  pb::WatchRequest request;
  pb::WatchResponse response;
  grpc::Status status;
  std::string why;  // the server cancelled it
  std::unique_ptr<grpc::ClientAsyncReaderWriter<pb::WatchRequest, pb::WatchResponse>> stream;
  bool Done(bool ok) override;

 private:
  void Finish();
};

class GrpcClient : public Client {
 public:
  GrpcClient(const ClientOptions& options, Handlers handlers)
      : options_(options), handlers_(std::move(handlers)) {
    std::shared_ptr<grpc::ChannelCredentials> how = grpc::InsecureChannelCredentials();
    if (options_.tls) {
      how = grpc::SslCredentials({options_.ca, options_.key, options_.certificate});
    }
    for (const std::string& endpoint : options_.endpoints) {
      // The watch has a connection of its own: much that it brings must not hold up appends.
      channels_.push_back(MakeChannel(endpoint, how));
      watch_channels_.push_back(MakeChannel(endpoint, how));
    }
    if (!options_.user.empty()) {
      LogIn();
    }
    thread_ = std::thread([this] {
      pthread_setname_np(pthread_self(), "etcd");
      Run();
    });
  }

  // The queue may be shut down only when nothing will be started on it any more.
  ~GrpcClient() override {
    StopWatch();
    {
      std::unique_lock lock(mutex_);
      closing_ = true;
      for (TxnCall* call : calls_) {
        call->context.TryCancel();
      }
      if (login_ != nullptr) {
        login_->context.TryCancel();
      }
      idle_.wait(lock, [this] { return calls_.empty() && watches_ == 0 && login_ == nullptr; });
    }
    queue_.Shutdown();
    thread_.join();
  }

  void Send(std::uint64_t id, const wire::Txn& txn, Duration timeout) override {
    auto call = std::make_unique<TxnCall>();
    call->client = this;
    call->id = id;
    call->endpoint = current_;
    call->context.set_deadline(DeadlineAfter(timeout));
    const std::lock_guard lock(mutex_);
    if (closing_) {
      return;
    }
    Authorize(call->context);
    call->reader = pb::KV::NewStub(channels_[call->endpoint])
                       ->PrepareAsyncTxn(&call->context, RequestOf(txn), &queue_);
    call->reader->StartCall();
    calls_.insert(call.get());
    TxnCall* tag = call.release();
    tag->reader->Finish(&tag->response, &tag->status, static_cast<Tag*>(tag));
  }

  void Watch(std::uint64_t id, wire::Revision revision) override {
    StopWatch();
    auto call = std::make_unique<WatchCall>();
    call->client = this;
    call->id = id;
    call->endpoint = current_;
    pb::WatchCreateRequest& create = *call->request.mutable_create_request();
    create.set_key(options_.prefix);
    create.set_range_end(wire::PrefixEnd(options_.prefix));
    create.set_start_revision(revision);
    // A member without a leader ends the watch, instead of being silent for ever.
    call->context.AddMetadata("hasleader", "true");
    const std::lock_guard lock(mutex_);
    if (closing_) {
      return;
    }
    Authorize(call->context);
    watch_ = call.release();
    ++watches_;
    watch_->stream = pb::Watch::NewStub(watch_channels_[watch_->endpoint])
                         ->PrepareAsyncWatch(&watch_->context, &queue_);
    watch_->stream->StartCall(static_cast<Tag*>(watch_));
  }

  void StopWatch() override {
    const std::lock_guard lock(mutex_);
    if (watch_ != nullptr) {
      watch_->context.TryCancel();
      watch_ = nullptr;
    }
  }

  std::vector<wire::EndpointHealth> Health(Duration timeout) override {
    std::vector<wire::EndpointHealth> all;
    for (std::size_t i = 0; i < channels_.size(); ++i) {
      wire::EndpointHealth health;
      health.endpoint = options_.endpoints[i];
      grpc::ClientContext context;
      context.set_deadline(DeadlineAfter(timeout));
      context.set_wait_for_ready(true);
      {
        const std::lock_guard lock(mutex_);
        Authorize(context);
      }
      pb::StatusResponse response;
      const grpc::Status status =
          pb::Maintenance::NewStub(channels_[i])->Status(&context, {}, &response);
      health.answers = status.ok();
      health.problem = status.ok() ? WhyRefused(response.version()) : status.error_message();
      health.version = response.version();
      health.advice = status.ok() ? WhyOld(response.version()) : std::string();
      health.db_bytes = static_cast<std::uint64_t>(response.dbsize());
      health.db_bytes_in_use = static_cast<std::uint64_t>(response.dbsizeinuse());
      health.leads = status.ok() && response.leader() == response.header().member_id();
      health.reports.assign(response.errors().begin(), response.errors().end());
      health.no_space = std::any_of(
          health.reports.begin(), health.reports.end(),
          [](const std::string& report) { return report.find("NOSPACE") != std::string::npos; });
      all.push_back(std::move(health));
    }
    return all;
  }

  void OnTxn(TxnCall& call) {
    {
      const std::lock_guard lock(mutex_);
      calls_.erase(&call);
      idle_.notify_one();
      if (closing_) {
        return;
      }
    }
    if (call.status.ok()) {
      handlers_.on_answer(call.id, ResultOf(std::move(call.response)));
      return;
    }
    Failed(call.endpoint);
    {
      const std::lock_guard lock(mutex_);
      if (token_.empty() || call.status.error_code() == grpc::StatusCode::UNAUTHENTICATED ||
          call.status.error_message().find("auth") != std::string::npos) {
        LogIn();
      }
    }
    handlers_.on_answer(call.id, FailureOf(call.status));
  }

  void OnWatchMessage(WatchCall& call) {
    if (!call.response.events().empty()) {
      handlers_.on_news(call.id, ChangesOf(std::move(call.response)));
    }
    call.response.Clear();
  }

  void OnWatchEnd(WatchCall& call) {
    {
      const std::lock_guard lock(mutex_);
      --watches_;
      idle_.notify_one();
      if (watch_ != &call) {
        return;  // stopped
      }
      watch_ = nullptr;
    }
    Failed(call.endpoint);
    const std::string why = call.why.empty() ? call.status.error_message() : call.why;
    handlers_.on_news(call.id,
                      wire::WatchEnd{Error{ErrorCode::kUnavailable, "etcd: " + why, {}, {}}});
  }

  void OnLogin(LoginCall& call) {
    const std::lock_guard lock(mutex_);
    login_ = nullptr;
    idle_.notify_one();
    if (call.status.ok()) {
      token_ = call.response.token();
    } else {
      log::Warning("etcd does not take the login user={} error=\"{}\"", options_.user,
                   call.status.error_message());
      Failed(call.endpoint);  // the next call that fails tries again, elsewhere
    }
  }

 private:
  void Run() {
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
      auto* done = static_cast<Tag*>(tag);
      if (!done->Done(ok)) {
        delete done;
      }
    }
  }

  // Under mutex_.
  void Authorize(grpc::ClientContext& context) const {
    if (!token_.empty()) {
      context.AddMetadata("token", token_);
    }
  }

  // Under mutex_, or before the thread runs.
  void LogIn() {
    if (options_.user.empty() || login_ != nullptr || closing_) {
      return;
    }
    token_.clear();
    auto* call = new LoginCall;
    login_ = call;
    call->client = this;
    call->endpoint = current_;
    call->context.set_deadline(DeadlineAfter(Seconds(2)));
    call->context.set_wait_for_ready(true);
    pb::AuthenticateRequest request;
    request.set_name(options_.user);
    request.set_password(options_.password);
    call->reader = pb::Auth::NewStub(channels_[call->endpoint])
                       ->PrepareAsyncAuthenticate(&call->context, request, &queue_);
    call->reader->StartCall();
    call->reader->Finish(&call->response, &call->status, static_cast<Tag*>(call));
  }

  void Failed(std::size_t endpoint) {
    std::size_t expected = endpoint;
    current_.compare_exchange_strong(expected, (endpoint + 1) % channels_.size());
  }

  const ClientOptions options_;
  const Handlers handlers_;
  std::vector<std::shared_ptr<grpc::Channel>> channels_;
  std::vector<std::shared_ptr<grpc::Channel>> watch_channels_;
  grpc::CompletionQueue queue_;
  std::atomic<std::size_t> current_{0};

  std::mutex mutex_;
  std::condition_variable idle_;
  std::set<TxnCall*> calls_;
  WatchCall* watch_ = nullptr;  // the one that counts
  std::size_t watches_ = 0;     // of which gRPC still has something
  LoginCall* login_ = nullptr;
  std::string token_;
  bool closing_ = false;

  std::thread thread_;
};

bool TxnCall::Done(bool /*ok*/) {
  client->OnTxn(*this);
  return false;
}

bool LoginCall::Done(bool /*ok*/) {
  client->OnLogin(*this);
  return false;
}

void WatchCall::Finish() {
  state = State::kFinishing;
  stream->Finish(&status, static_cast<Tag*>(this));
}

bool WatchCall::Done(bool ok) {
  if (state == State::kFinishing) {
    client->OnWatchEnd(*this);
    return false;
  }
  if (!ok) {
    Finish();
    return true;
  }
  if (state == State::kStarting) {
    state = State::kWriting;
    stream->Write(request, static_cast<Tag*>(this));
    return true;
  }
  if (state == State::kReading) {
    if (response.canceled()) {
      why = response.compact_revision() != 0
                ? fmt::format("the revision was compacted away, {} is the oldest",
                              response.compact_revision())
                : response.cancel_reason();
      context.TryCancel();
      Finish();
      return true;
    }
    client->OnWatchMessage(*this);
  }
  state = State::kReading;
  stream->Read(&response, static_cast<Tag*>(this));
  return true;
}

}  // namespace

Result<std::unique_ptr<Client>> Client::Create(const ClientOptions& options, Handlers handlers) {
  if (options.endpoints.empty()) {
    return InvalidArgument("etcd.endpoints", "at least one HOST:PORT", "no endpoint of etcd");
  }
  return std::unique_ptr<Client>(std::make_unique<GrpcClient>(options, std::move(handlers)));
}

}  // namespace holdfast::etcd
