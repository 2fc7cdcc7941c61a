// Unary calls on a connection of their own, one at a time.
#include <optional>

#include <grpcpp/grpcpp.h>

#include "base/check.h"
#include "bench/channel.h"
#include "bench/grpc_link.h"
#include "bench/grpc_status.h"
#include "holdfast/v1/locks.grpc.pb.h"
#include "holdfast/v1/stream.pb.h"

namespace holdfast::bench {
namespace {

v1::Problem::Code ProblemOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kOverloaded:
      return v1::Problem::OVERLOADED;
    case ErrorCode::kUnavailable:
      return v1::Problem::UNAVAILABLE;
    case ErrorCode::kUnknownOutcome:
      return v1::Problem::UNKNOWN_OUTCOME;
    case ErrorCode::kInvalidArgument:
      return v1::Problem::INVALID_ARGUMENT;
    case ErrorCode::kNotFound:
      return v1::Problem::NOT_FOUND;
    case ErrorCode::kAlreadyExists:
      return v1::Problem::ALREADY_EXISTS;
    case ErrorCode::kUnauthenticated:
      return v1::Problem::UNAUTHENTICATED;
    case ErrorCode::kPermissionDenied:
      return v1::Problem::PERMISSION_DENIED;
    case ErrorCode::kUnsupported:
      return v1::Problem::FAILED_PRECONDITION;
    case ErrorCode::kDeadlineExceeded:
    case ErrorCode::kBusy:
    case ErrorCode::kDiskFull:
    case ErrorCode::kCorrupt:
    case ErrorCode::kIo:
    case ErrorCode::kInternal:
      return v1::Problem::INTERNAL;
  }
  return v1::Problem::INTERNAL;
}

class UnaryLink final : public Link {
 public:
  explicit UnaryLink(const LinkTarget& target)
      : endpoint_(target.endpoint),
        queue_(target.queue),
        owner_(target.owner),
        channel_(MakeChannel(target.endpoint, target.number)),
        stub_(v1::Locks::NewStub(channel_)) {}

  Status Connect(LoadTime deadline) override {
    return WaitConnected(*channel_, endpoint_, deadline);
  }
  void Open() override {}
  void Flush() override {}

  void Send(std::uint64_t tag) override {
    HF_CHECK(!in_flight_, "a unary link carries one operation at a time");
    operation_.Clear();
    owner_->FillOperation(tag, operation_);
    result_.Clear();
    result_.set_tag(tag);
    context_.emplace();
    in_flight_ = true;
    if (operation_.has_acquire()) {
      acquire_ = stub_->AsyncAcquire(&*context_, operation_.acquire(), queue_);
      acquire_->Finish(result_.mutable_acquire(), &status_, &on_done_);
    } else if (operation_.has_renew()) {
      renew_ = stub_->AsyncRenew(&*context_, operation_.renew(), queue_);
      renew_->Finish(result_.mutable_renew(), &status_, &on_done_);
    } else {
      HF_CHECK(operation_.has_release(), "unary links carry only acquire, renew and release");
      release_ = stub_->AsyncRelease(&*context_, operation_.release(), queue_);
      release_->Finish(result_.mutable_release(), &status_, &on_done_);
    }
  }

  void Close() override {
    closing_ = true;
    if (in_flight_) {
      context_->TryCancel();
    }
  }
  bool Closed() const override { return !in_flight_; }

 private:
  void Done(bool) {
    in_flight_ = false;
    if (closing_) {
      return;
    }
    if (!status_.ok()) {
      const Error error = ErrorOf(status_);
      result_.mutable_problem()->set_code(ProblemOf(error.code));
      result_.mutable_problem()->set_message(error.message);
    }
    owner_->OnResult(result_, LoadClock::now());
  }

  const std::string endpoint_;
  grpc::CompletionQueue* const queue_;
  LinkOwner* const owner_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::Locks::Stub> stub_;

  bool closing_ = false;
  bool in_flight_ = false;
  v1::Operation operation_;
  v1::OperationResult result_;
  grpc::Status status_;
  std::optional<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::AcquireResponse>> acquire_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::RenewResponse>> renew_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::ReleaseResponse>> release_;
  QueueEvent on_done_ = [this](bool ok) { Done(ok); };
};

}  // namespace

std::unique_ptr<Link> MakeUnaryLink(const LinkTarget& target) {
  return std::make_unique<UnaryLink>(target);
}

}  // namespace holdfast::bench
