#include "client/transport.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <utility>

#include <grpcpp/alarm.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

namespace holdfast::client {
namespace {

using Event = Transport::Event;

// gRPC's own timers follow the monotonic clock here: steps of the wall clock change nothing.
gpr_timespec After(Duration duration) {
  const auto span = gpr_time_from_nanos(std::max<std::int64_t>(duration.count(), 0), GPR_TIMESPAN);
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), span);
}

bool Passed(const gpr_timespec& deadline) {
  return gpr_time_cmp(gpr_now(GPR_CLOCK_MONOTONIC), deadline) >= 0;
}

grpc::ByteBuffer ToBuffer(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

std::string ToString(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (buffer.Valid() && buffer.Dump(&slices).ok()) {
    for (const grpc::Slice& slice : slices) {
      bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
  }
  return bytes;
}

Result<std::string> ReadPem(const std::string& path, const std::string& field) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file || text.str().empty()) {
    return InvalidArgument(field, "a readable PEM file", "cannot read " + path);
  }
  return text.str();
}

Result<std::shared_ptr<grpc::ChannelCredentials>> MakeCredentials(const TransportOptions& options) {
  if (!options.tls) {
    return grpc::InsecureChannelCredentials();
  }
  grpc::SslCredentialsOptions ssl;
  const std::pair<const std::string&, std::string&> files[] = {
      {options.tls_ca_file, ssl.pem_root_certs},
      {options.tls_cert_file, ssl.pem_cert_chain},
      {options.tls_key_file, ssl.pem_private_key}};
  const char* fields[] = {"tls_ca_file", "tls_cert_file", "tls_key_file"};
  for (std::size_t i = 0; i < 3; ++i) {
    if (files[i].first.empty()) {
      continue;
    }
    auto pem = ReadPem(files[i].first, fields[i]);
    if (!pem.ok()) {
      return pem.error();
    }
    files[i].second = std::move(*pem);
  }
  return grpc::SslCredentials(ssl);
}

grpc::ChannelArguments MakeArguments(Duration connect_timeout) {
  grpc::ChannelArguments arguments;
  // One connection for each channel: a fresh channel is a fresh connection.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES,
                   0);  // retries are ours: the request id must be known to be the same
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // Despite its name this is how long a connection may take until it is usable; shorter than the
  // round trips of the handshakes, and a distant or busy service can never be reached.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, static_cast<int>(std::clamp<std::int64_t>(
                                                          ToMillis(connect_timeout), 100, 60'000)));
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // Notices a dead peer while a wait or a watch is silent.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  return arguments;
}

}  // namespace

class Transport::Impl {
 public:
  Impl(const TransportOptions& options, std::shared_ptr<grpc::ChannelCredentials> credentials)
      : options_(options),
        credentials_(std::move(credentials)),
        channels_(options.endpoints.size()) {}

  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    for (const auto& item : operations_) {
      item.second->Cancel();
    }
    // A queue that is shut down takes no new tags, so the operations come to their end first.
    while (!operations_.empty()) {
      Next(Millis(50));
    }
    alarm_.Cancel();
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  void Start(AttemptId id, std::size_t endpoint, const RawRequest& request, Duration timeout) {
    Add(std::make_unique<Attempt>(*this, id, endpoint, request, After(timeout)));
  }
  void Open(AttemptId id, std::size_t endpoint, const RawRequest& request) {
    Add(std::make_unique<Stream>(*this, id, endpoint, request));
  }
  void Read(AttemptId id) {
    if (const auto found = operations_.find(id); found != operations_.end()) {
      found->second->Read();
    }
  }
  void Cancel(AttemptId id) {
    if (const auto found = operations_.find(id); found != operations_.end()) {
      found->second->Cancel();
    }
  }

  std::optional<Event> Next(Duration timeout) {
    void* tag = nullptr;
    bool ok = false;
    if (queue_.AsyncNext(&tag, &ok, After(timeout)) != grpc::CompletionQueue::GOT_EVENT) {
      return std::nullopt;
    }
    if (tag == nullptr) {
      const std::lock_guard lock(wake_mutex_);
      wake_pending_ = false;
      return std::nullopt;
    }
    return Finish(static_cast<Operation*>(tag)->OnEvent(ok));
  }

  void Wake() {
    const std::lock_guard lock(wake_mutex_);
    if (!wake_pending_) {
      wake_pending_ = true;
      // The past: an alarm for now would come with the next millisecond.
      alarm_.Set(&queue_, gpr_time_0(GPR_CLOCK_REALTIME), nullptr);
    }
  }

 private:
  // What an event of the completion queue leads to.
  struct Outcome {
    std::optional<Event> event;  // to report, unless the operation was cancelled
    bool over = false;
    AttemptId id{};
  };

  // One attempt or stream. It always has exactly one tag in the completion queue, itself, unless it
  // is over or waits for Read().
  class Operation {
   public:
    Operation(Impl& owner, AttemptId id, std::size_t endpoint, RawRequest request,
              gpr_timespec deadline)
        : owner_(owner),
          id_(id),
          endpoint_(endpoint),
          request_(std::move(request)),
          deadline_(deadline) {
      connect_deadline_ = gpr_time_min(deadline, After(owner.options_.connect_timeout));
    }
    virtual ~Operation() = default;
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;

    void Connect() {
      channel_ = owner_.ChannelTo(endpoint_);
      AwaitConnection();
    }

    Outcome OnEvent(bool ok) {
      switch (phase_) {
        case Phase::kConnecting:
          if (cancelled_ || Passed(connect_deadline_)) {
            return Fail(WireFailure{.sent = false,
                                    .grpc_code = grpc::StatusCode::UNAVAILABLE,
                                    .message = "cannot connect to " + endpoint_name() + " in time",
                                    .details = {}});
          }
          AwaitConnection();
          return {};
        case Phase::kDiagnosing:
          owner_.Forget(endpoint_, channel_);
          return Fail(WireFailure{
              .sent = false,
              .grpc_code = grpc::StatusCode::UNAVAILABLE,
              .message = "cannot connect to " + endpoint_name() + ": " + status_.error_message(),
              .details = {}});
        case Phase::kSent:
          return OnProgress(ok);
      }
      return {};
    }

    virtual void Cancel() {
      cancelled_ = true;
      context_.TryCancel();
      diagnosis_context_.TryCancel();
    }
    virtual void Read() {}
    AttemptId id() const { return id_; }
    bool cancelled() const { return cancelled_; }

   protected:
    // Sends, with itself as the tag of what comes next.
    virtual void Send(grpc::GenericStub& stub) = 0;
    virtual Outcome OnProgress(bool ok) = 0;

    Outcome Fail(WireFailure failure) {
      return Outcome{Event{Event::Kind::kFailure, id_, {}, std::move(failure), {}}, true, id_};
    }
    Outcome FailWithStatus() {
      if (status_.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
        owner_.Forget(endpoint_, channel_);
      }
      return Fail(WireFailure{.sent = true,
                              .grpc_code = status_.error_code(),
                              .message = endpoint_name() + ": " + status_.error_message(),
                              .details = status_.error_details()});
    }
    const std::string& endpoint_name() const { return owner_.options_.endpoints[endpoint_]; }

    Impl& owner_;
    const AttemptId id_;
    const std::size_t endpoint_;
    RawRequest request_;
    const gpr_timespec deadline_;
    grpc::ClientContext context_;
    grpc::Status status_;
    bool cancelled_ = false;

   private:
    enum class Phase { kConnecting, kDiagnosing, kSent };

    void AwaitConnection() {
      const grpc_connectivity_state state = channel_->GetState(/*try_to_connect=*/true);
      if (state == GRPC_CHANNEL_READY) {
        phase_ = Phase::kSent;
        context_.set_deadline(deadline_);
        if (!owner_.options_.token.empty()) {
          context_.AddMetadata("authorization", "Bearer " + owner_.options_.token);
        }
        grpc::GenericStub stub(channel_);
        Send(stub);
      } else if (state == GRPC_CHANNEL_TRANSIENT_FAILURE) {
        Diagnose();
      } else {
        // In small steps, so that a shutdown need not wait for the whole time.
        channel_->NotifyOnStateChange(state, gpr_time_min(connect_deadline_, After(Millis(50))),
                                      &owner_.queue_, this);
      }
    }

    // Only an RPC says why a channel cannot connect. This one fails at once, and would do no harm
    // if it did not.
    void Diagnose() {
      phase_ = Phase::kDiagnosing;
      diagnosis_context_.set_deadline(gpr_time_min(deadline_, After(Millis(100))));
      grpc::GenericStub stub(channel_);
      diagnosis_ = stub.PrepareUnaryCall(&diagnosis_context_, "/grpc.health.v1.Health/Check",
                                         ToBuffer({}), &owner_.queue_);
      diagnosis_->StartCall();
      diagnosis_->Finish(&diagnosis_reply_, &status_, this);
    }

    gpr_timespec connect_deadline_{};
    Phase phase_ = Phase::kConnecting;
    std::shared_ptr<grpc::Channel> channel_;
    grpc::ClientContext diagnosis_context_;
    grpc::ByteBuffer diagnosis_reply_;
    std::unique_ptr<grpc::GenericClientAsyncResponseReader> diagnosis_;
  };

  class Attempt : public Operation {
   public:
    using Operation::Operation;

   private:
    void Send(grpc::GenericStub& stub) override {
      call_ = stub.PrepareUnaryCall(&context_, request_.method, ToBuffer(request_.body),
                                    &owner_.queue_);
      call_->StartCall();
      call_->Finish(&reply_, &status_, this);
    }
    Outcome OnProgress(bool) override {
      if (!status_.ok()) {
        return FailWithStatus();
      }
      Event event{Event::Kind::kReply, id_, ToString(reply_), {}, {}};
      const auto& trailer = context_.GetServerTrailingMetadata();
      if (const auto leader = trailer.find("holdfast-leader"); leader != trailer.end()) {
        event.leader.assign(leader->second.data(), leader->second.size());
      }
      return Outcome{std::move(event), true, id_};
    }

    std::unique_ptr<grpc::GenericClientAsyncResponseReader> call_;
    grpc::ByteBuffer reply_;
  };

  class Stream : public Operation {
   public:
    Stream(Impl& owner, AttemptId id, std::size_t endpoint, const RawRequest& request)
        : Operation(owner, id, endpoint, request, gpr_inf_future(GPR_CLOCK_MONOTONIC)) {}

    void Read() override {
      if (step_ == Step::kIdle) {
        step_ = Step::kReading;
        call_->Read(&message_, this);
      }
    }
    void Cancel() override {
      Operation::Cancel();
      Read();  // an idle stream has no tag in the queue, and must end through one
    }

   private:
    enum class Step { kStarting, kWriting, kReading, kIdle, kFinishing };

    void Send(grpc::GenericStub& stub) override {
      call_ = stub.PrepareCall(&context_, request_.method, &owner_.queue_);
      call_->StartCall(this);
    }
    Outcome OnProgress(bool ok) override {
      if (step_ == Step::kFinishing) {
        return FailWithStatus();
      }
      if (!ok) {
        step_ = Step::kFinishing;
        call_->Finish(&status_, this);
        return {};
      }
      switch (step_) {
        case Step::kStarting:
          step_ = Step::kWriting;
          call_->WriteLast(ToBuffer(request_.body), grpc::WriteOptions(), this);
          return {};
        case Step::kWriting:
          step_ = Step::kReading;
          call_->Read(&message_, this);
          return {};
        case Step::kReading:
          step_ = Step::kIdle;
          if (cancelled_) {
            Read();
            return {};
          }
          return Outcome{Event{Event::Kind::kMessage, id_, ToString(message_), {}, {}}, false, id_};
        case Step::kIdle:
        case Step::kFinishing:
          break;
      }
      return {};
    }

    Step step_ = Step::kStarting;
    std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
    grpc::ByteBuffer message_;
  };

  void Add(std::unique_ptr<Operation> operation) {
    Operation& added = *operation;
    operations_[added.id()] = std::move(operation);
    added.Connect();
  }

  std::optional<Event> Finish(Outcome outcome) {
    if (outcome.event.has_value() && operations_.at(outcome.event->id)->cancelled()) {
      outcome.event.reset();
    }
    if (outcome.over) {
      operations_.erase(outcome.id);
    }
    return std::move(outcome.event);
  }

  std::shared_ptr<grpc::Channel> ChannelTo(std::size_t endpoint) {
    std::shared_ptr<grpc::Channel>& channel = channels_[endpoint];
    // A channel that failed pauses before it tries again; the pauses between attempts are ours, so
    // take a new one.
    if (channel == nullptr ||
        channel->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_TRANSIENT_FAILURE) {
      channel = grpc::CreateCustomChannel(options_.endpoints[endpoint], credentials_,
                                          MakeArguments(options_.connect_timeout));
    }
    return channel;
  }

  void Forget(std::size_t endpoint, const std::shared_ptr<grpc::Channel>& channel) {
    if (channels_[endpoint] == channel) {
      channels_[endpoint].reset();
    }
  }

  const TransportOptions options_;
  const std::shared_ptr<grpc::ChannelCredentials> credentials_;
  grpc::CompletionQueue queue_;
  std::vector<std::shared_ptr<grpc::Channel>>
      channels_;  // null: none yet, or not to be used any more
  std::map<AttemptId, std::unique_ptr<Operation>> operations_;

  // Guarded by wake_mutex_.
  std::mutex wake_mutex_;
  grpc::Alarm alarm_;
  bool wake_pending_ = false;
};

Result<std::unique_ptr<Transport>> Transport::Create(const TransportOptions& options) {
  auto credentials = MakeCredentials(options);
  if (!credentials.ok()) {
    return credentials.error();
  }
  return std::unique_ptr<Transport>(
      new Transport(std::make_unique<Impl>(options, std::move(*credentials))));
}

Transport::Transport(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Transport::~Transport() = default;

void Transport::Start(AttemptId id, std::size_t endpoint, const RawRequest& request,
                      Duration timeout) {
  impl_->Start(id, endpoint, request, timeout);
}
void Transport::Open(AttemptId id, std::size_t endpoint, const RawRequest& request) {
  impl_->Open(id, endpoint, request);
}
void Transport::Read(AttemptId id) {
  impl_->Read(id);
}
void Transport::Cancel(AttemptId id) {
  impl_->Cancel(id);
}
std::optional<Transport::Event> Transport::Next(Duration timeout) {
  return impl_->Next(timeout);
}
void Transport::Wake() {
  impl_->Wake();
}

}  // namespace holdfast::client
