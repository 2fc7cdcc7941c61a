#include "server/stream_call.h"

#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <google/protobuf/arena.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>

#include "holdfast/v1/stream.pb.h"
#include "server/rpc.h"

namespace holdfast::server {
namespace {

constexpr std::size_t kResultFrameBytes = std::size_t{1}
                                          << 20U;  // well below a client's default limit of 4 MiB

// A frame that was read. Operations that are answered at once stay in it until they are.
struct InFrame {
  google::protobuf::Arena arena;
  v1::OperationFrame* frame = google::protobuf::Arena::CreateMessage<v1::OperationFrame>(&arena);
};

// A frame that is being filled with results.
struct OutFrame {
  google::protobuf::Arena arena;
  v1::ResultFrame* frame = google::protobuf::Arena::CreateMessage<v1::ResultFrame>(&arena);
  std::size_t bytes = 0;

  void Reset() {
    arena.Reset();
    frame = google::protobuf::Arena::CreateMessage<v1::ResultFrame>(&arena);
    bytes = 0;
  }
};

// An operation that has no result yet.
struct Flight {
  std::uint64_t tag = 0;  // in the engine; 0: this place is free
  bool waits = false;
  std::shared_ptr<const void>
      owner;  // of `operation`: its frame, or for one that waits a copy of its own
  const v1::Operation* operation = nullptr;
};

class StreamCall final : public Call {
 public:
  StreamCall(Loop& loop, std::shared_ptr<const AcceptStream> accept)
      : Call(loop), accept_(std::move(accept)), stream_(&context_) {
    context_.AsyncNotifyWhenDone(TagOf(done_step_));
    (*accept_)(&context_, &stream_, Expect(start_step_));
  }

  void OnReply(std::uint32_t cookie, engine::Reply& reply) override {
    v1::OperationResult& result = NewResult();
    WriteResult(*flights_[cookie].operation, reply, result);
    Land(cookie);
    CountResult(result);
  }

  void OnTurnEnd() override { Advance(); }

  void OnStop() override {
    const Error stopping{ErrorCode::kUnavailable,
                         "the server is stopping; ask again with the same request id", "", ""};
    for (std::uint32_t cookie = 0; cookie < flights_.size(); ++cookie) {
      if (flights_[cookie].tag != 0 && flights_[cookie].waits) {
        loop().Abandon(flights_[cookie].tag);
        AddProblem(*flights_[cookie].operation, stopping);
        Land(cookie);
      }
    }
    End(stopping);
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
    new StreamCall(loop(), accept_);
    auto caller = Welcome(loop(), context_, "Stream");
    if (!caller.ok()) {
      return End(caller.error());
    }
    caller_ = std::move(*caller);
    ++loop().streams();
    loop().AddWaiting(*this);
    Advance();
  }

  void OnRead(bool ok) {
    reading_ = false;
    if (!ok || broken_ || loop().closed()) {
      input_over_ = true;
    } else if (in_->frame->operations_size() > kFrameOperationsMax) {
      End(InvalidArgument(
          "operations", "at most 1024 operations",
          "a frame has " + std::to_string(in_->frame->operations_size()) + " operations"));
    } else {
      read_after_write_ = in_->frame->operations_size() == 1;
      for (v1::Operation& operation : *in_->frame->mutable_operations()) {
        Take(operation);
      }
    }
    in_.reset();
    Advance();
  }

  void OnWritten(bool ok) {
    writing_ = false;
    broken_ = broken_ || !ok;
    Advance();
  }

  void OnFinish(bool /*ok*/) {}

  // The call is over: finished, cancelled, or its connection is gone.
  void OnDone(bool /*ok*/) {
    broken_ = true;
    for (std::uint32_t cookie = 0; cookie < flights_.size(); ++cookie) {
      if (flights_[cookie].tag != 0) {
        loop().Abandon(flights_[cookie].tag);
        Land(cookie);
      }
    }
    out_.clear();
  }

  void Take(v1::Operation& operation) {
    if (end_.has_value()) {
      return AddProblem(operation, *end_);
    }
    const bool waits = MayWait(operation);
    if (waits && waits_ >= kStreamWaitsMax) {
      return AddProblem(operation,
                        {ErrorCode::kOverloaded,
                         "too many acquires wait on this stream, the limit is 16384", "", ""});
    }
    auto request = ReadOperation(operation, caller_->principal);
    if (!request.ok()) {
      return AddProblem(operation, request.error());
    }
    const Status permitted = loop().Permit(*caller_, Access::kUser, "Stream", *request);
    if (!permitted.ok()) {
      return AddProblem(operation, permitted.error());
    }
    const std::uint32_t cookie = NewFlight();
    Flight& flight = flights_[cookie];
    flight.waits = waits;
    if (waits) {
      // Its frame must not stay for as long as it waits.
      auto copy = std::make_shared<v1::Operation>(operation);
      flight.operation = copy.get();
      flight.owner = std::move(copy);
    } else {
      flight.operation = &operation;
      flight.owner = in_;
    }
    ++(waits ? waits_ : prompt_);
    flight.tag = loop().Propose(*this, cookie, std::move(*request));
  }

  std::uint32_t NewFlight() {
    if (free_flights_.empty()) {
      flights_.emplace_back();
      return static_cast<std::uint32_t>(flights_.size() - 1);
    }
    const std::uint32_t cookie = free_flights_.back();
    free_flights_.pop_back();
    return cookie;
  }

  void Land(std::uint32_t cookie) {
    --(flights_[cookie].waits ? waits_ : prompt_);
    flights_[cookie] = {};
    free_flights_.push_back(cookie);
  }

  v1::OperationResult& NewResult() {
    if (out_.empty() || out_.back()->bytes >= kResultFrameBytes) {
      out_.push_back(spare_ != nullptr ? std::move(spare_) : std::make_unique<OutFrame>());
    }
    return *out_.back()->frame->add_results();
  }

  void CountResult(const v1::OperationResult& result) {
    out_.back()->bytes += result.ByteSizeLong();
    ++unsent_;
    loop().FlushLater(*this);
  }

  void AddProblem(const v1::Operation& operation, const Error& error) {
    v1::OperationResult& result = NewResult();
    WriteProblemResult(operation, error, result);
    CountResult(result);
  }

  // Nothing more is read; what is in the engine is answered, then the stream ends with this error.
  void End(const Error& error) {
    if (!end_.has_value()) {
      end_ = error;
      loop().FlushLater(*this);
    }
  }

  // Starts whatever can be started now: a write, a read, the end.
  void Advance() {
    if (broken_ || finishing_ || loop().closed()) {
      return;
    }
    if (!writing_ && !out_.empty()) {
      WriteFrame();
    }
    const bool may_read = !input_over_ && !end_.has_value() && caller_ != nullptr;
    const bool later = read_after_write_ && prompt_ + unsent_ > 0;
    if (may_read && !reading_ && !later && prompt_ + unsent_ < kStreamPromptMax) {
      reading_ = true;
      in_ = std::make_shared<InFrame>();
      stream_.Read(in_->frame, Expect(read_step_));
    }
    const bool answered = prompt_ == 0 && out_.empty() && !writing_;
    if (answered && (end_.has_value() || (input_over_ && waits_ == 0))) {
      finishing_ = true;
      stream_.Finish(end_.has_value() ? RpcStatusOf(*end_) : grpc::Status::OK,
                     Expect(finish_step_));
    }
  }

  void WriteFrame() {
    std::unique_ptr<OutFrame> out = std::move(out_.front());
    out_.pop_front();
    writing_ = true;
    stream_.Write(*out->frame, Expect(written_step_));  // serialises at once
    unsent_ -= static_cast<std::size_t>(out->frame->results_size());
    out->Reset();
    spare_ = std::move(out);
  }

  ~StreamCall() override {
    if (caller_ != nullptr) {
      --loop().streams();
      loop().Leave();
    }
  }

  const std::shared_ptr<const AcceptStream> accept_;
  grpc::ServerContext context_;
  grpc::ServerAsyncReaderWriter<v1::ResultFrame, v1::OperationFrame> stream_;
  std::shared_ptr<const Caller> caller_;  // null: not admitted
  std::shared_ptr<InFrame> in_;           // what is being read
  std::deque<std::unique_ptr<OutFrame>> out_;
  std::unique_ptr<OutFrame> spare_;
  std::vector<Flight> flights_;
  std::vector<std::uint32_t> free_flights_;
  std::size_t prompt_ = 0;  // flights that do not wait
  std::size_t waits_ = 0;   // flights that do
  std::size_t unsent_ = 0;  // results in out_
  std::optional<Error> end_;
  bool reading_ = false;
  bool writing_ = false;
  // A client that sends single operations waits for each answer. To read on only then saves a
  // packet for each operation: gRPC sends the window update, which a new read causes, with the
  // answer.
  bool read_after_write_ = false;
  bool input_over_ = false;  // the client has closed its side
  bool finishing_ = false;
  bool broken_ = false;  // nobody reads any more
  Step<StreamCall> start_step_{*this, &StreamCall::OnStart};
  Step<StreamCall> read_step_{*this, &StreamCall::OnRead};
  Step<StreamCall> written_step_{*this, &StreamCall::OnWritten};
  Step<StreamCall> finish_step_{*this, &StreamCall::OnFinish};
  Step<StreamCall> done_step_{*this, &StreamCall::OnDone};
};

}  // namespace

void ListenForStreams(Loop& loop, AcceptStream accept) {
  new StreamCall(loop, std::make_shared<const AcceptStream>(std::move(accept)));
}

}  // namespace holdfast::server
