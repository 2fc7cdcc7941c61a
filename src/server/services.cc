#include "server/services.h"

#include <array>
#include <functional>
#include <utility>

#include <google/protobuf/arena.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/async_unary_call.h>

#include "grpc/health/v1/health.grpc.pb.h"
#include "holdfast/v1/admin.grpc.pb.h"
#include "holdfast/v1/elections.grpc.pb.h"
#include "holdfast/v1/locks.grpc.pb.h"
#include "holdfast/v1/sessions.grpc.pb.h"
#include "holdfast/v1/stream.grpc.pb.h"
#include "server/complete.h"
#include "server/rpc.h"
#include "server/stream_call.h"
#include "server/watch_call.h"

namespace holdfast::server {
namespace {

// Calls of one verb that can arrive in one turn without another round through the queue.
constexpr int kAcceptsPerVerb = 4;

// Request and response of most calls fit into this, so that they cost no allocation of their own.
constexpr std::size_t kArenaBytes = 1536;

// One call of a unary verb, from before its arrival to after its response.
template <typename Request, typename Response>
class UnaryCall final : public Call {
 public:
  using Accept = std::function<void(grpc::ServerContext*, Request*,
                                    grpc::ServerAsyncResponseWriter<Response>*, void*)>;
  struct Method {
    const Verb<Request, Response>& verb;
    Accept accept;
  };

  // Waits for one call, and when it is there for the next, and so on until the server shuts down.
  UnaryCall(Loop& loop, std::shared_ptr<const Method> method)
      : Call(loop),
        method_(std::move(method)),
        arena_(block_.data(), block_.size()),
        request_(google::protobuf::Arena::CreateMessage<Request>(&arena_)),
        writer_(&context_) {
    if constexpr (kMayWait<Request>) {
      context_.AsyncNotifyWhenDone(TagOf(done_step_));
    }
    method_->accept(&context_, request_, &writer_, Expect(start_step_));
  }

  void OnReply(std::uint32_t /*cookie*/, engine::Reply& reply) override {
    tag_ = 0;
    auto* response = google::protobuf::Arena::CreateMessage<Response>(&arena_);
    const Status status = method_->verb.write(*request_, reply, *response);
    if (!status.ok()) {
      Fail(status.error());
    } else if (!loop().closed()) {
      Complete(loop(), *caller_, *request_, *response);
      NameLeader(loop(), context_);
      writer_.Finish(*response, grpc::Status::OK, Expect(finish_step_));
    }
  }

  void OnStop() override {
    if (tag_ != 0) {
      loop().Abandon(std::exchange(tag_, 0));
      Fail({ErrorCode::kUnavailable, "the server is stopping; ask again with the same request id",
            "", ""});
    }
  }

 private:
  void OnStart(bool ok) {
    if (!ok) {
      return;  // the server shuts down
    }
    if constexpr (kMayWait<Request>) {
      Expect(done_step_);  // comes exactly for calls that have started
    }
    if (!loop().closed()) {
      new UnaryCall(loop(), method_);
    }
    auto caller = Welcome(loop(), context_, method_->verb.name);
    if (!caller.ok()) {
      return Fail(caller.error());
    }
    caller_ = std::move(*caller);
    auto request = method_->verb.read(*request_, caller_->principal);
    if (!request.ok()) {
      return Fail(request.error());
    }
    const Status permitted =
        loop().Permit(*caller_, method_->verb.access, method_->verb.name, *request);
    if (!permitted.ok()) {
      return Fail(permitted.error());
    }
    tag_ = loop().Propose(*this, 0, std::move(*request));
    if constexpr (kMayWait<Request>) {
      if (MayWait(*request_)) {
        loop().AddWaiting(*this);
      }
    }
  }

  // Also when the client went away: then gRPC says that the call was cancelled, or that the
  // response was not sent.
  void OnFinish(bool /*ok*/) {}

  void OnDone(bool /*ok*/) {
    if (tag_ != 0) {
      loop().Abandon(std::exchange(tag_, 0));
    }
  }

  void Fail(const Error& error) {
    if (!loop().closed()) {
      writer_.FinishWithError(RpcStatusOf(error), Expect(finish_step_));
    }
  }

  ~UnaryCall() override {
    if (caller_ != nullptr) {
      loop().Leave();
    }
  }

  const std::shared_ptr<const Method> method_;
  alignas(std::max_align_t) std::array<char, kArenaBytes> block_;
  google::protobuf::Arena arena_;
  grpc::ServerContext context_;
  Request* request_;
  grpc::ServerAsyncResponseWriter<Response> writer_;
  std::shared_ptr<const Caller> caller_;  // null: not admitted
  std::uint64_t tag_ = 0;                 // of the request in the engine, if there is one
  Step<UnaryCall> start_step_{*this, &UnaryCall::OnStart};
  Step<UnaryCall> finish_step_{*this, &UnaryCall::OnFinish};
  Step<UnaryCall> done_step_{*this, &UnaryCall::OnDone};
};

// Is the server there? Answered without the engine.
class HealthCall final : public Call {
 public:
  using Service = grpc::health::v1::Health::AsyncService;
  HealthCall(Loop& loop, Service& service, grpc::ServerCompletionQueue& queue)
      : Call(loop), service_(service), queue_(queue), writer_(&context_) {
    service_.RequestCheck(&context_, &request_, &writer_, &queue_, &queue_, Expect(start_step_));
  }
  void OnReply(std::uint32_t /*cookie*/, engine::Reply& /*reply*/) override {}

 private:
  void OnStart(bool ok) {
    if (!ok || loop().closed()) {
      return;
    }
    new HealthCall(loop(), service_, queue_);
    const std::string& name = request_.service();
    if (!name.empty() && name.rfind("holdfast.v1.", 0) != 0) {
      writer_.FinishWithError(
          RpcStatusOf({ErrorCode::kNotFound, "there is no service " + name, "service", ""}),
          Expect(finish_step_));
      return;
    }
    using Response = grpc::health::v1::HealthCheckResponse;
    Response response;
    response.set_status(loop().stopping() ? Response::NOT_SERVING : Response::SERVING);
    writer_.Finish(response, grpc::Status::OK, Expect(finish_step_));
  }
  void OnFinish(bool /*ok*/) {}

  Service& service_;
  grpc::ServerCompletionQueue& queue_;
  grpc::ServerContext context_;
  grpc::health::v1::HealthCheckRequest request_;
  grpc::ServerAsyncResponseWriter<grpc::health::v1::HealthCheckResponse> writer_;
  Step<HealthCall> start_step_{*this, &HealthCall::OnStart};
  Step<HealthCall> finish_step_{*this, &HealthCall::OnFinish};
};

// Registers verbs with their generated Request methods.
class Table {
 public:
  Table(Loop& loop, grpc::ServerCompletionQueue& queue) : loop_(loop), queue_(queue) {}

  template <typename Service, typename Base, typename Request, typename Response>
  void Add(Service& service,
           void (Base::*accept)(grpc::ServerContext*, Request*,
                                grpc::ServerAsyncResponseWriter<Response>*, grpc::CompletionQueue*,
                                grpc::ServerCompletionQueue*, void*),
           const Verb<Request, Response>& verb) {
    using Unary = UnaryCall<Request, Response>;
    auto method = std::make_shared<const typename Unary::Method>(typename Unary::Method{
        verb, [&service, accept, &queue = queue_](grpc::ServerContext* context, Request* request,
                                                  grpc::ServerAsyncResponseWriter<Response>* writer,
                                                  void* tag) {
          (service.*accept)(context, request, writer, &queue, &queue, tag);
        }});
    for (int i = 0; i < kAcceptsPerVerb; ++i) {
      new Unary(loop_, method);
    }
  }

 private:
  Loop& loop_;
  grpc::ServerCompletionQueue& queue_;
};

}  // namespace

struct Services::Async {
  v1::Locks::AsyncService locks;
  v1::Sessions::AsyncService sessions;
  v1::Elections::AsyncService elections;
  v1::Admin::AsyncService admin;
  v1::Operations::AsyncService operations;
  grpc::health::v1::Health::AsyncService health;
};

Services::Services() : async_(std::make_unique<Async>()) {}
Services::~Services() = default;

void Services::Register(grpc::ServerBuilder& builder) {
  builder.RegisterService(&async_->locks);
  builder.RegisterService(&async_->sessions);
  builder.RegisterService(&async_->elections);
  builder.RegisterService(&async_->admin);
  builder.RegisterService(&async_->operations);
  builder.RegisterService(&async_->health);
}

void Services::Listen(Loop& loop, grpc::ServerCompletionQueue& queue) {
  Table table(loop, queue);
  auto& [locks, sessions, elections, admin, operations, health] = *async_;
  using Locks = v1::Locks::AsyncService;
  table.Add(locks, &Locks::RequestAcquire, kAcquire);
  table.Add(locks, &Locks::RequestRenew, kRenew);
  table.Add(locks, &Locks::RequestRelease, kRelease);
  table.Add(locks, &Locks::RequestCancel, kCancel);
  table.Add(locks, &Locks::RequestDescribe, kDescribe);
  table.Add(locks, &Locks::RequestList, kList);
  table.Add(locks, &Locks::RequestCheckToken, kCheckToken);
  table.Add(locks, &Locks::RequestBreak, kBreak);
  using Sessions = v1::Sessions::AsyncService;
  table.Add(sessions, &Sessions::RequestOpen, kOpenSession);
  table.Add(sessions, &Sessions::RequestKeepAlive, kKeepAlive);
  table.Add(sessions, &Sessions::RequestClose, kCloseSession);
  table.Add(sessions, &Sessions::RequestDescribeSession, kDescribeSession);
  using Elections = v1::Elections::AsyncService;
  table.Add(elections, &Elections::RequestCampaign, kCampaign);
  table.Add(elections, &Elections::RequestProclaim, kProclaim);
  table.Add(elections, &Elections::RequestResign, kResign);
  table.Add(elections, &Elections::RequestLeader, kLeader);
  using Admin = v1::Admin::AsyncService;
  table.Add(admin, &Admin::RequestCreateNamespace, kCreateNamespace);
  table.Add(admin, &Admin::RequestSetNamespace, kSetNamespace);
  table.Add(admin, &Admin::RequestGetNamespace, kGetNamespace);
  table.Add(admin, &Admin::RequestListNamespaces, kListNamespaces);
  table.Add(admin, &Admin::RequestDeleteNamespace, kDeleteNamespace);
  table.Add(admin, &Admin::RequestSetFeatureLevel, kSetFeatureLevel);
  table.Add(admin, &Admin::RequestGetStatus, kGetStatus);
  table.Add(admin, &Admin::RequestStepDown, kStepDown);
  table.Add(admin, &Admin::RequestListHotResources, kListHotResources);
  new HealthCall(loop, health, queue);

  ListenForStreams(loop,
                   [service = &async_->operations, &queue](auto* context, auto* stream, void* tag) {
                     service->RequestStream(context, stream, &queue, &queue, tag);
                   });
  ListenForWatches(loop, [service = &async_->locks, &queue](auto* context, auto* request,
                                                            auto* writer, void* tag) {
    service->RequestWatch(context, request, writer, &queue, &queue, tag);
  });
  ListenForObservers(loop, [service = &async_->elections, &queue](auto* context, auto* request,
                                                                  auto* writer, void* tag) {
    service->RequestObserve(context, request, writer, &queue, &queue, tag);
  });
}

}  // namespace holdfast::server
