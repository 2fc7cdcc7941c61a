#include "server/watch_call.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>

#include "holdfast/v1/elections.pb.h"
#include "holdfast/v1/locks.pb.h"
#include "server/fields.h"
#include "server/rpc.h"

namespace holdfast::server {
namespace {

constexpr std::size_t kTakenAtOnce = 64;

// What both kinds of server stream do: arrive, subscribe, write one message at a time, end.
template <typename Request, typename Response>
class FeedCall : public Call {
 public:
  using Accept = std::function<void(grpc::ServerContext*, Request*,
                                    grpc::ServerAsyncWriter<Response>*, void*)>;

  FeedCall(Loop& loop, std::shared_ptr<const Accept> accept)
      : Call(loop), accept_(std::move(accept)), writer_(&context_) {
    context_.AsyncNotifyWhenDone(TagOf(done_step_));
    (*accept_)(&context_, &request_, &writer_, Expect(start_step_));
  }

  void OnStop() final { End({ErrorCode::kUnavailable, "the server is stopping", "", ""}); }

 protected:
  ~FeedCall() override {
    Unsubscribe();
    if (caller_ != nullptr) {
      --loop().watches();
      loop().Leave();
    }
  }

  // A new call that waits to arrive.
  virtual void AcceptNext(std::shared_ptr<const Accept> accept) = 0;
  // The call has arrived: reads the request. What it returns goes to the engine if the caller may
  // use its namespace.
  virtual Result<EngineRequest> ReadRequest(Request& request, const std::string& principal) = 0;
  virtual const char* Name() const = 0;
  // A message was sent, or the engine or the hub has something: writes the next message if there is
  // one.
  virtual void Pump() = 0;

  const Caller& caller() const { return *caller_; }
  Request& request() { return request_; }
  bool Over() const { return over_ || loop().closed(); }
  bool CanWrite() const { return !writing_ && !Over(); }
  void Write(const Response& response) {
    writing_ = true;
    writer_.Write(response, Expect(written_step_));
  }

  bool Subscribe(const engine::WatchFilter& filter, std::uint64_t after_index) {
    subscription_ =
        loop().runner().watches().Subscribe(filter, after_index, loop().AddWakeable(*this));
    if (subscription_.id == 0) {
      End({ErrorCode::kOverloaded, "too many watches", "", ""});
    }
    return subscription_.id != 0;
  }
  std::uint64_t started_at() const { return subscription_.started_at; }
  std::vector<engine::WatchItem> TakeItems(std::size_t max) {
    return loop().runner().watches().Take(subscription_.id, max);
  }

  // Ends the call with this error as soon as no write is in flight.
  void End(const Error& error) {
    if (!over_) {
      over_ = true;
      end_ = error;
      FinishIfIdle();
    }
  }

 private:
  void OnStart(bool ok) {
    if (!ok) {
      return;  // the server shuts down
    }
    Expect(done_step_);  // comes exactly for calls that have started
    if (loop().closed()) {
      return;
    }
    AcceptNext(accept_);
    auto caller = Welcome(loop(), context_, Name());
    if (!caller.ok()) {
      return End(caller.error());
    }
    caller_ = std::move(*caller);
    ++loop().watches();
    loop().AddWaiting(*this);
    auto query = ReadRequest(request_, caller_->principal);
    if (!query.ok()) {
      return End(query.error());
    }
    const Status permitted = loop().Permit(*caller_, Access::kUser, Name(), *query);
    if (!permitted.ok()) {
      return End(permitted.error());
    }
    loop().Propose(*this, 0, std::move(*query));
  }

  void OnWritten(bool ok) {
    writing_ = false;
    if (!ok) {
      over_ = true;  // nobody reads any more: the end of the call follows
    }
    FinishIfIdle();
    if (CanWrite()) {
      Pump();
    }
  }

  void OnFinish(bool /*ok*/) {}

  void OnDone(bool /*ok*/) {
    over_ = true;
    end_.reset();
    Unsubscribe();
  }

  void FinishIfIdle() {
    if (end_.has_value() && !writing_ && !loop().closed()) {
      writer_.Finish(RpcStatusOf(*end_), Expect(finish_step_));
      end_.reset();
      Unsubscribe();
    }
  }

  void Unsubscribe() {
    if (subscription_.id != 0) {
      loop().runner().watches().Unsubscribe(std::exchange(subscription_.id, 0));
    }
  }

  const std::shared_ptr<const Accept> accept_;
  grpc::ServerContext context_;
  Request request_;
  grpc::ServerAsyncWriter<Response> writer_;
  std::shared_ptr<const Caller> caller_;  // null: not admitted
  engine::WatchHub::Subscription subscription_;
  std::optional<Error> end_;  // to be sent
  bool writing_ = false;
  bool over_ = false;  // no more messages
  Call::Step<FeedCall> start_step_{*this, &FeedCall::OnStart};
  Call::Step<FeedCall> written_step_{*this, &FeedCall::OnWritten};
  Call::Step<FeedCall> finish_step_{*this, &FeedCall::OnFinish};
  Call::Step<FeedCall> done_step_{*this, &FeedCall::OnDone};
};

class WatchCall final : public FeedCall<v1::WatchRequest, v1::WatchResponse> {
 public:
  using FeedCall::FeedCall;

  // The answer whether the namespace exists.
  void OnReply(std::uint32_t /*cookie*/, engine::Reply& reply) override {
    if (const auto* error = std::get_if<Error>(&reply.answer)) {
      return End(*error);
    }
    const auto* view = std::get_if<core::View>(&reply.answer);
    const auto* found = view == nullptr ? nullptr : std::get_if<core::NamespaceView>(view);
    if (found == nullptr || found->result != core::NamespaceResult::kOk) {
      return End(NoNamespace(start_.filter.name_space));
    }
    if (!Over() && Subscribe(start_.filter, start_.after_index)) {
      v1::WatchResponse response;
      response.set_started_at(started_at());
      Write(response);
    }
  }

  void OnWake() override { Pump(); }

 private:
  void AcceptNext(std::shared_ptr<const Accept> accept) override {
    new WatchCall(loop(), std::move(accept));
  }
  const char* Name() const override { return "Watch"; }

  Result<EngineRequest> ReadRequest(v1::WatchRequest& request,
                                    const std::string& /*principal*/) override {
    auto start = ReadWatch(request);
    if (!start.ok()) {
      return start.error();
    }
    start_ = std::move(*start);
    return EngineRequest(core::Query(core::GetNamespace{start_.filter.name_space}));
  }

  void Pump() override {
    if (!CanWrite()) {
      return;
    }
    if (next_ == items_.size()) {
      items_ = TakeItems(kTakenAtOnce);
      next_ = 0;
    }
    if (next_ < items_.size()) {
      v1::WatchResponse response;
      WriteWatchItem(items_[next_++], response);
      Write(response);
    }
  }

  WatchStart start_;
  std::vector<engine::WatchItem> items_;  // taken from the hub
  std::size_t next_ = 0;                  // of items_, to be written
};

// Reads the leader anew whenever something happened to the election, and sends it if it is another
// one.
class ObserveCall final : public FeedCall<v1::LeaderRequest, v1::LeaderResponse> {
 public:
  using FeedCall::FeedCall;

  void OnReply(std::uint32_t /*cookie*/, engine::Reply& reply) override {
    asking_ = false;
    v1::LeaderResponse leader;
    const Status status = kLeader.write(request(), reply, leader);
    if (!status.ok()) {
      return End(status.error());
    }
    latest_ = std::move(leader);
    Pump();
    AskIfChanged();
  }

  void OnWake() override {
    if (Over()) {
      return;
    }
    while (TakeItems(engine::WatchHub::kBufferMax).size() == engine::WatchHub::kBufferMax) {
    }
    changed_ = true;
    AskIfChanged();
  }

 private:
  void AcceptNext(std::shared_ptr<const Accept> accept) override {
    new ObserveCall(loop(), std::move(accept));
  }
  const char* Name() const override { return "Observe"; }

  Result<EngineRequest> ReadRequest(v1::LeaderRequest& request,
                                    const std::string& principal) override {
    auto query = kLeader.read(request, principal);
    // Before the first look, so that no change is missed.
    if (query.ok() && !Subscribe({request.namespace_(), request.resource(), true}, 0)) {
      return Error{ErrorCode::kOverloaded, "too many watches", "", ""};
    }
    asking_ = query.ok();
    return query;
  }

  void AskIfChanged() {
    if (changed_ && !asking_ && !Over()) {
      auto query = kLeader.read(request(), caller().principal);
      changed_ = false;
      asking_ = true;
      loop().Propose(*this, 0, std::move(*query));
    }
  }

  void Pump() override {
    if (CanWrite() && latest_.has_value()) {
      const v1::LeaderResponse leader = std::move(*latest_);
      latest_.reset();
      const bool same = sent_.has_value() && sent_->vacant() == leader.vacant() &&
                        sent_->fencing_token() == leader.fencing_token() &&
                        sent_->value() == leader.value();
      if (!same) {
        sent_ = leader;
        Write(leader);
      }
    }
  }

  bool asking_ = false;                       // a query is in the engine
  bool changed_ = false;                      // since it was asked
  std::optional<v1::LeaderResponse> latest_;  // read and not yet compared
  std::optional<v1::LeaderResponse> sent_;
};

}  // namespace

void ListenForWatches(Loop& loop, AcceptWatch accept) {
  new WatchCall(loop, std::make_shared<const AcceptWatch>(std::move(accept)));
}

void ListenForObservers(Loop& loop, AcceptObserver accept) {
  new ObserveCall(loop, std::make_shared<const AcceptObserver>(std::move(accept)));
}

}  // namespace holdfast::server
