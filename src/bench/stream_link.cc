// One bidirectional stream. gRPC allows one Write and one Read at a time: operations that become
// ready while a Write is out wait and leave together in the next frame.
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include "bench/channel.h"
#include "bench/grpc_link.h"
#include "bench/grpc_status.h"
#include "holdfast/v1/stream.grpc.pb.h"

namespace holdfast::bench {
namespace {

constexpr std::size_t kFrameOperations = 1024;  // the API's limit
constexpr auto kReopenDelay = std::chrono::milliseconds(100);

class StreamLink final : public Link {
 public:
  explicit StreamLink(const LinkTarget& target)
      : endpoint_(target.endpoint),
        queue_(target.queue),
        owner_(target.owner),
        channel_(MakeChannel(target.endpoint, target.number)),
        stub_(v1::Operations::NewStub(channel_)) {}

  Status Connect(LoadTime deadline) override {
    return WaitConnected(*channel_, endpoint_, deadline);
  }

  void Open() override {
    context_.emplace();
    stream_ = stub_->PrepareAsyncStream(&*context_, queue_);
    state_ = State::kOpening;
    stream_->StartCall(&on_started_);
  }

  void Send(std::uint64_t tag) override {
    if (state_ == State::kOpening || state_ == State::kOpen) {
      outbox_.push_back(tag);
    }
  }

  void Flush() override {
    if (state_ != State::kOpen || writing_ || broken_ || outbox_.empty()) {
      return;
    }
    out_.Clear();
    const std::size_t count = std::min(outbox_.size(), kFrameOperations);
    for (std::size_t i = 0; i < count; ++i) {
      v1::Operation* operation = out_.add_operations();
      operation->set_tag(outbox_[i]);
      owner_->FillOperation(outbox_[i], *operation);
    }
    outbox_.erase(outbox_.begin(), outbox_.begin() + static_cast<std::ptrdiff_t>(count));
    writing_ = true;
    stream_->Write(out_, &on_written_);
  }

  void Close() override {
    closing_ = true;
    if (state_ == State::kWaiting) {
      alarm_.Cancel();
    } else if (state_ != State::kClosed) {
      context_->TryCancel();
    }
  }

  bool Closed() const override { return state_ == State::kClosed; }

 private:
  enum class State { kClosed, kOpening, kOpen, kFinishing, kWaiting };

  void Started(bool ok) {
    if (!ok) {
      Finish();
      return;
    }
    state_ = State::kOpen;
    stream_->Read(&in_, &on_read_);
    Flush();
  }

  void Read(bool ok) {
    if (!ok) {
      broken_ = true;
      if (!writing_) {
        Finish();
      }
      return;
    }
    if (!closing_) {
      const LoadTime now = LoadClock::now();
      for (const v1::OperationResult& result : in_.results()) {
        owner_->OnResult(result, now);
      }
      Flush();
    }
    stream_->Read(&in_, &on_read_);
  }

  void Written(bool ok) {
    writing_ = false;
    if (broken_) {
      Finish();  // the read has failed before
    } else if (ok) {
      Flush();
    }  // else the read is about to fail
  }

  void Finish() {
    state_ = State::kFinishing;
    stream_->Finish(&status_, &on_finished_);
  }

  void Finished(bool) {
    stream_.reset();
    outbox_.clear();
    broken_ = false;
    if (closing_) {
      state_ = State::kClosed;
      return;
    }
    state_ = State::kWaiting;
    alarm_.Set(queue_, std::chrono::system_clock::now() + kReopenDelay, &on_alarm_);
    owner_->OnLost(ErrorOf(status_), LoadClock::now());
  }

  void Alarmed(bool) {
    if (closing_) {
      state_ = State::kClosed;
      return;
    }
    Open();
    owner_->OnReopened(*this);
  }

  const std::string endpoint_;
  grpc::CompletionQueue* const queue_;
  LinkOwner* const owner_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::Operations::Stub> stub_;

  State state_ = State::kClosed;
  bool closing_ = false;
  bool writing_ = false;
  bool broken_ = false;
  std::vector<std::uint64_t> outbox_;
  v1::OperationFrame out_;
  v1::ResultFrame in_;
  std::optional<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<v1::OperationFrame, v1::ResultFrame>> stream_;
  grpc::Status status_;
  grpc::Alarm alarm_;

  QueueEvent on_started_ = [this](bool ok) { Started(ok); };
  QueueEvent on_read_ = [this](bool ok) { Read(ok); };
  QueueEvent on_written_ = [this](bool ok) { Written(ok); };
  QueueEvent on_finished_ = [this](bool ok) { Finished(ok); };
  QueueEvent on_alarm_ = [this](bool ok) { Alarmed(ok); };
};

}  // namespace

std::unique_ptr<Link> MakeStreamLink(const LinkTarget& target) {
  return std::make_unique<StreamLink>(target);
}

}  // namespace holdfast::bench
