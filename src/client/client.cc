#include "holdfast/client.h"

#include <algorithm>
#include <future>
#include <utility>

#include "client/acquire_all.h"
#include "client/hold_impl.h"
#include "client/observe.h"
#include "client/runner.h"
#include "client/single_call.h"
#include "client/wire.h"

namespace holdfast::client {

std::string NewRequestId() {
  return ToHex(RandomId());
}

class Client::Impl {
 public:
  Impl(const ClientOptions& client_options, std::unique_ptr<Transport> transport)
      : options(client_options),
        runner(std::move(transport), client_options.endpoints, client_options.metrics) {}

  // What makes the request and what looks at its end, both on the background thread.
  using Make = std::function<RawRequest(BootTime now)>;
  using AtEnd = std::function<void(const Result<SingleCall::Answer>&, BootTime now)>;

  Result<SingleCall::Answer> Wait(Repeat repeat, Duration wait, const Make& make,
                                  const AtEnd& at_end) {
    const auto promise = std::make_shared<std::promise<Result<SingleCall::Answer>>>();
    auto answer = promise->get_future();
    runner.Post([&, promise] {
      const BootTime now = runner.Now();
      const CallOptions call{.repeat = repeat,
                             .attempt_timeout = wait + options.attempt_timeout,
                             .deadline = now + wait + options.timeout};
      const RawRequest request = make(now);
      runner.Add(std::make_shared<SingleCall>(
          runner.shared(), request, call,
          [&, promise, verb = VerbOf(request.method)](Result<SingleCall::Answer> result) {
            if (!result.ok() && result.error().code == ErrorCode::kUnknownOutcome) {
              runner.CountUnknown(verb);
            }
            if (at_end) {
              at_end(result, runner.Now());
            }
            promise->set_value(std::move(result));
          },
          now));
    });
    return answer.get();
  }

  template <typename T>
  Result<T> Decode(const Result<SingleCall::Answer>& answer,
                   Result<T> (*decode)(std::string_view)) {
    if (!answer.ok()) {
      return answer.error();
    }
    Result<T> decoded = decode(answer->body);
    if constexpr (requires(T value) { value.sent_at; }) {
      if (decoded.ok()) {
        decoded->sent_at = answer->timing.sent;
      }
    }
    return decoded;
  }

  template <typename T>
  Result<T> Ask(Repeat repeat, const RawRequest& request, Result<T> (*decode)(std::string_view)) {
    return Decode(Wait(repeat, {}, [&](BootTime) { return request; }, {}), decode);
  }

  // A verb with a request id. Ids that the client made are under its watermark; so is one that
  // stayed unresolved and is asked again.
  template <typename T, typename Encoded>
  Result<T> AskOnce(std::string& request_id, std::optional<ClientContext>& context, Duration wait,
                    const Encoded& encoded, Result<T> (*decode)(std::string_view)) {
    const bool made = request_id.empty();
    if (made) {
      request_id = NewRequestId();
    }
    std::uint64_t sequence = 0;
    ClientIdentity& identity = runner.shared().identity;
    const Make make = [&](BootTime now) {
      if (made || identity.IsUnresolved(request_id)) {
        sequence = identity.Begin(request_id, now);
        context = identity.Context(sequence);
      }
      return encoded();
    };
    const AtEnd at_end = [&](const Result<SingleCall::Answer>& result, BootTime now) {
      if (sequence == 0) {
        return;
      }
      if (!result.ok() && result.error().code == ErrorCode::kUnknownOutcome) {
        identity.Unresolved(sequence, request_id, now);
      } else {
        identity.Answered(sequence);
      }
    };
    Result<T> result = Decode(Wait(Repeat::kIdempotent, BoundedWait(wait), make, at_end), decode);
    if (!result.ok() && result.error().code == ErrorCode::kUnknownOutcome) {
      return result.error().WithContext("request " + request_id);
    }
    return result;
  }

  Status Stream(const std::function<RawRequest()>& make,
                const std::function<Result<bool>(const std::string&)>& on_message,
                const std::stop_token& stop);

  std::string NamespaceOr(const std::string& name) const {
    return name.empty() ? options.namespace_name : name;
  }
  FlowOptions flow_options() const {
    return FlowOptions{.timeout = options.timeout, .attempt_timeout = options.attempt_timeout};
  }

  // Runs `task` on the background thread and waits for it.
  template <typename Task>
  auto OnThread(const Task& task) {
    const auto packaged = std::make_shared<std::packaged_task<decltype(task())()>>(task);
    auto result = packaged->get_future();
    runner.Post([packaged] { (*packaged)(); });
    return result.get();
  }

  const ClientOptions options;
  Runner runner;
};

namespace {

std::optional<Transport::Event> Take(StreamInbox& inbox, const std::stop_token& stop) {
  std::unique_lock lock(inbox.mutex);
  if (!inbox.changed.wait(lock, stop, [&] { return !inbox.events.empty(); })) {
    return std::nullopt;
  }
  Transport::Event event = std::move(inbox.events.front());
  inbox.events.pop_front();
  return event;
}

}  // namespace

Status Client::Impl::Stream(const std::function<RawRequest()>& make,
                            const std::function<Result<bool>(const std::string&)>& on_message,
                            const std::stop_token& stop) {
  const auto inbox = std::make_shared<StreamInbox>();
  StreamRetry retry(runner.shared());  // used on the background thread only
  const BootTime started = runner.Now();
  bool worked = false;
  while (true) {
    const RawRequest request = make();
    std::size_t endpoint = 0;
    const AttemptId stream = OnThread([&] {
      endpoint = retry.endpoint();
      return runner.OpenStream(endpoint, request, inbox);
    });
    auto event = Take(*inbox, stop);
    while (event.has_value() && event->kind == Transport::Event::Kind::kMessage) {
      worked = true;
      const Result<bool> more = on_message(event->body);
      if (!more.ok() || !*more) {
        OnThread([&] { runner.CloseStream(stream); });
        return more.ok() ? Status() : Status(more.error());
      }
      OnThread([&] {
        retry.OnMessage();
        runner.ReadStream(stream);
      });
      event = Take(*inbox, stop);
    }
    if (!event.has_value()) {
      OnThread([&] { runner.CloseStream(stream); });
      return {};
    }
    const Failure failure = Classify(event->failure);
    const auto next = OnThread([&] { return retry.OnEnd(endpoint, failure, runner.Now()); });
    if (!next.has_value() || (!worked && *next - started >= options.timeout)) {
      Error error = failure.error;
      if (error.code == ErrorCode::kUnknownOutcome) {
        error.code = ErrorCode::kUnavailable;  // a stream only reads
      }
      return error;
    }
    std::unique_lock lock(inbox->mutex);
    inbox->changed.wait_for(lock, stop, *next - runner.Now(), [] { return false; });
    if (stop.stop_requested()) {
      return {};
    }
  }
}

Result<std::unique_ptr<Client>> Client::Create(const ClientOptions& options) {
  const auto bad = [](const char* field, const char* limit) {
    return InvalidArgument(field, limit, std::string(field) + " must be " + limit);
  };
  const auto printable = [](const std::string& text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
  };
  const auto is_endpoint = [&](const std::string& endpoint) {
    return endpoint.find(':') != std::string::npos && printable(endpoint);
  };
  if (options.endpoints.empty() ||
      !std::all_of(options.endpoints.begin(), options.endpoints.end(), is_endpoint)) {
    return bad("endpoints", "at least one HOST:PORT");
  }
  if (!printable(options.token)) {
    return bad("token", "printable ASCII without spaces");
  }
  if (options.tls_cert_file.empty() != options.tls_key_file.empty()) {
    return bad("tls_cert_file", "given together with tls_key_file");
  }
  if (options.timeout <= Duration::zero() || options.attempt_timeout <= Duration::zero()) {
    return bad("timeout", "above 0");
  }
  auto transport = Transport::Create(TransportOptions{.endpoints = options.endpoints,
                                                      .token = options.token,
                                                      .tls = options.tls,
                                                      .tls_ca_file = options.tls_ca_file,
                                                      .tls_cert_file = options.tls_cert_file,
                                                      .tls_key_file = options.tls_key_file,
                                                      .connect_timeout = options.attempt_timeout});
  if (!transport.ok()) {
    return transport.error();
  }
  return std::unique_ptr<Client>(
      new Client(std::make_unique<Impl>(options, std::move(*transport))));
}

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::~Client() = default;

Result<AcquireResult> Client::Acquire(const AcquireRequest& request) {
  AcquireRequest copy = request;
  copy.namespace_name = impl_->NamespaceOr(request.namespace_name);
  return impl_->AskOnce<AcquireResult>(
      copy.request_id, copy.context, request.wait, [&] { return Encode(copy); }, DecodeAcquire);
}

Result<AcquireResult> Client::Campaign(const CampaignRequest& request) {
  CampaignRequest copy = request;
  copy.acquire.namespace_name = impl_->NamespaceOr(request.acquire.namespace_name);
  return impl_->AskOnce<AcquireResult>(
      copy.acquire.request_id, copy.acquire.context, request.acquire.wait,
      [&] { return Encode(copy); }, DecodeAcquire);
}

Result<RenewResult> Client::Renew(const RenewRequest& request) {
  RenewRequest copy = request;
  copy.namespace_name = impl_->NamespaceOr(request.namespace_name);
  return impl_->Ask<RenewResult>(Repeat::kIdempotent, Encode(copy), DecodeRenew);
}

Result<ReleaseResult> Client::Release(const ReleaseRequest& request) {
  ReleaseRequest copy = request;
  copy.namespace_name = impl_->NamespaceOr(request.namespace_name);
  return impl_->Ask<ReleaseResult>(Repeat::kIdempotent, Encode(copy), DecodeRelease);
}

Result<ReleaseResult> Client::Resign(const ReleaseRequest& request) {
  ReleaseRequest copy = request;
  copy.namespace_name = impl_->NamespaceOr(request.namespace_name);
  return impl_->Ask<ReleaseResult>(Repeat::kIdempotent, EncodeResign(copy), DecodeRelease);
}

Result<CancelResult> Client::Cancel(const CancelRequest& request) {
  CancelRequest copy = request;
  copy.namespace_name = impl_->NamespaceOr(request.namespace_name);
  return impl_->Ask<CancelResult>(Repeat::kIdempotent, Encode(copy), DecodeCancel);
}

Result<DescribeResult> Client::Describe(const std::string& resource,
                                        const std::string& namespace_name) {
  return impl_->Ask<DescribeResult>(
      Repeat::kRead, EncodeDescribe(impl_->NamespaceOr(namespace_name), resource), DecodeDescribe);
}

Result<ListResult> Client::List(const ListRequest& request) {
  ListRequest copy = request;
  copy.namespace_name = impl_->NamespaceOr(request.namespace_name);
  return impl_->Ask<ListResult>(Repeat::kRead, EncodeList(copy), DecodeList);
}

Result<CheckTokenResult> Client::CheckToken(const std::string& resource,
                                            std::uint64_t fencing_token,
                                            const std::string& namespace_name) {
  return impl_->Ask<CheckTokenResult>(
      Repeat::kRead, EncodeCheckToken(impl_->NamespaceOr(namespace_name), resource, fencing_token),
      DecodeCheckToken);
}

Result<BreakResult> Client::Break(const BreakRequest& request) {
  BreakRequest copy = request;
  copy.namespace_name = impl_->NamespaceOr(request.namespace_name);
  // Repeated blindly it could break the next holder.
  return impl_->Ask<BreakResult>(request.dry_run ? Repeat::kRead : Repeat::kOnce, EncodeBreak(copy),
                                 DecodeBreak);
}

Status Client::Watch(const WatchRequest& request,
                     const std::function<bool(const WatchItem&)>& on_item,
                     const std::stop_token& stop) {
  WatchCursor cursor(request.after_index);
  const auto make = [&] {
    WatchRequest resumed = request;
    resumed.namespace_name = impl_->NamespaceOr(request.namespace_name);
    resumed.after_index = cursor.after_index();
    cursor.Restart();
    return EncodeWatch(resumed);
  };
  const auto on_message = [&](const std::string& body) -> Result<bool> {
    const Result<WatchItem> item = DecodeWatch(body);
    if (!item.ok()) {
      return item.error();
    }
    return !cursor.Accept(*item) || on_item(*item);
  };
  return impl_->Stream(make, on_message, stop);
}

std::unique_ptr<Hold> Client::Lock(const LockGoal& goal, LockCallback on_update) {
  LockGoal copy = goal;
  copy.acquire.namespace_name = impl_->NamespaceOr(goal.acquire.namespace_name);
  return StartLock(impl_->runner, copy, impl_->flow_options(), std::move(on_update));
}

LockUpdate Client::RunWhileHeld(const LockGoal& goal, const std::function<void(Work&)>& work) {
  const std::unique_ptr<Hold> hold = Lock(goal);
  hold->WaitUntilAcquired();
  if (auto begun = hold->BeginWork(); begun.has_value()) {
    work(*begun);
  }
  hold->Release();
  return hold->WaitUntilOver();
}

AcquireAllResult Client::AcquireAll(const AcquireAllGoal& goal) {
  return AcquireInOrder(
      goal, [this] { return impl_->runner.Now(); },
      [this](const LockGoal& one) { return Lock(one); });
}

Result<OpenSessionResult> Client::OpenSession(const OpenSessionRequest& request) {
  OpenSessionRequest copy = request;
  copy.namespace_name = impl_->NamespaceOr(request.namespace_name);
  return impl_->AskOnce<OpenSessionResult>(
      copy.request_id, copy.context, {}, [&] { return Encode(copy); }, DecodeOpenSession);
}

Result<KeepAliveResult> Client::KeepAlive(const KeepAliveRequest& request) {
  KeepAliveRequest copy = request;
  copy.namespace_name = impl_->NamespaceOr(request.namespace_name);
  return impl_->Ask<KeepAliveResult>(Repeat::kIdempotent, Encode(copy), DecodeKeepAlive);
}

Result<CloseSessionResult> Client::CloseSession(const CloseSessionRequest& request) {
  CloseSessionRequest copy = request;
  copy.namespace_name = impl_->NamespaceOr(request.namespace_name);
  return impl_->Ask<CloseSessionResult>(Repeat::kIdempotent, Encode(copy), DecodeCloseSession);
}

Result<SessionDescription> Client::DescribeSession(const std::string& session_id,
                                                   const std::string& namespace_name) {
  return impl_->Ask<SessionDescription>(
      Repeat::kRead, EncodeDescribeSession(impl_->NamespaceOr(namespace_name), session_id),
      DecodeDescribeSession);
}

std::unique_ptr<Session> Client::KeepSession(const SessionGoal& goal, SessionCallback on_update) {
  SessionGoal copy = goal;
  copy.open.namespace_name = impl_->NamespaceOr(goal.open.namespace_name);
  return StartSession(impl_->runner, copy, impl_->flow_options(), std::move(on_update));
}

Result<ProclaimResult> Client::Proclaim(const ProclaimRequest& request) {
  ProclaimRequest copy = request;
  copy.namespace_name = impl_->NamespaceOr(request.namespace_name);
  return impl_->Ask<ProclaimResult>(Repeat::kIdempotent, EncodeProclaim(copy), DecodeProclaim);
}

Result<LeaderInfo> Client::Leader(const std::string& resource, const std::string& namespace_name) {
  return impl_->Ask<LeaderInfo>(
      Repeat::kRead, EncodeLeader(impl_->NamespaceOr(namespace_name), resource), DecodeLeader);
}

Status Client::Observe(const std::string& resource, const std::string& namespace_name,
                       const std::function<bool(const LeaderInfo&)>& on_leader,
                       const std::stop_token& stop) {
  LeaderObserver observer;
  RawRequest request = EncodeObserve(impl_->NamespaceOr(namespace_name), resource);
  const auto on_message = [&](const std::string& body) -> Result<bool> {
    const Result<LeaderInfo> leader = DecodeLeader(body);
    if (!leader.ok()) {
      return leader.error();
    }
    return !observer.Accept(*leader) || on_leader(*leader);
  };
  return impl_->Stream([&]() -> RawRequest { return request; }, on_message, stop);
}

Result<NamespaceResult> Client::CreateNamespace(const std::string& name, const Policy& policy) {
  return impl_->Ask<NamespaceResult>(Repeat::kOnce, EncodeCreateNamespace(name, policy),
                                     DecodeNamespace);
}

Result<NamespaceResult> Client::SetNamespace(const std::string& name, const Policy& policy) {
  return impl_->Ask<NamespaceResult>(Repeat::kIdempotent, EncodeSetNamespace(name, policy),
                                     DecodeNamespace);
}

Result<NamespaceResult> Client::GetNamespace(const std::string& name) {
  return impl_->Ask<NamespaceResult>(Repeat::kRead, EncodeGetNamespace(name), DecodeNamespace);
}

Result<std::vector<NamespaceResult>> Client::ListNamespaces() {
  return impl_->Ask<std::vector<NamespaceResult>>(Repeat::kRead, EncodeListNamespaces(),
                                                  DecodeNamespaces);
}

Result<NamespaceResult> Client::DeleteNamespace(const std::string& name) {
  return impl_->Ask<NamespaceResult>(Repeat::kOnce, EncodeDeleteNamespace(name), DecodeNamespace);
}

Result<FeatureLevelResult> Client::SetFeatureLevel(std::uint32_t level) {
  return impl_->Ask<FeatureLevelResult>(Repeat::kIdempotent, EncodeSetFeatureLevel(level),
                                        DecodeFeatureLevel);
}

Result<bool> Client::StepDown() {
  return impl_->Ask<bool>(Repeat::kOnce, EncodeStepDown(), DecodeStepDown);
}

Result<ServiceStatus> Client::GetStatus() {
  return impl_->Ask<ServiceStatus>(Repeat::kRead, EncodeGetStatus(), DecodeStatus);
}

Result<HotResources> Client::ListHotResources(const std::string& namespace_name,
                                              std::uint32_t limit) {
  return impl_->Ask<HotResources>(Repeat::kRead, EncodeListHotResources(namespace_name, limit),
                                  DecodeHotResources);
}

}  // namespace holdfast::client
