#include "bench/fake_service.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>

#include <grpcpp/grpcpp.h>

#include "base/check.h"
#include "holdfast/v1/locks.grpc.pb.h"
#include "holdfast/v1/stream.grpc.pb.h"

namespace holdfast::bench {

class FakeService::Impl final : public v1::Operations::Service, public v1::Locks::Service {
 public:
  Impl() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(static_cast<v1::Operations::Service*>(this));
    builder.RegisterService(static_cast<v1::Locks::Service*>(this));
    server_ = builder.BuildAndStart();
    HF_CHECK(server_ != nullptr, "the fake service cannot listen");
  }
  ~Impl() override { server_->Shutdown(std::chrono::system_clock::now()); }

  grpc::Status Stream(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::ResultFrame, v1::OperationFrame>* stream) override {
    {
      const std::lock_guard lock(mutex);
      ++seen.streams;
    }
    v1::OperationFrame frame;
    while (stream->Read(&frame)) {
      v1::ResultFrame results;
      {
        std::unique_lock lock(mutex);
        seen.largest_frame = std::max<std::uint64_t>(
            seen.largest_frame, static_cast<std::uint64_t>(frame.operations_size()));
        for (const v1::Operation& operation : frame.operations()) {
          Serve(operation, *results.add_results(), lock);
          if (operation.has_acquire() && std::exchange(lose_next, false)) {
            return grpc::Status(grpc::StatusCode::UNAVAILABLE, "reply lost on purpose");
          }
        }
      }
      stream->Write(results);
    }
    return grpc::Status::OK;
  }

  grpc::Status Acquire(grpc::ServerContext*, const v1::AcquireRequest* request,
                       v1::AcquireResponse* response) override {
    v1::Operation operation;
    *operation.mutable_acquire() = *request;
    v1::OperationResult result;
    const grpc::Status status = ServeUnary(operation, result);
    *response = result.acquire();
    return status;
  }
  grpc::Status Renew(grpc::ServerContext*, const v1::RenewRequest* request,
                     v1::RenewResponse* response) override {
    v1::Operation operation;
    *operation.mutable_renew() = *request;
    v1::OperationResult result;
    const grpc::Status status = ServeUnary(operation, result);
    *response = result.renew();
    return status;
  }
  grpc::Status Release(grpc::ServerContext*, const v1::ReleaseRequest* request,
                       v1::ReleaseResponse* response) override {
    v1::Operation operation;
    *operation.mutable_release() = *request;
    v1::OperationResult result;
    const grpc::Status status = ServeUnary(operation, result);
    *response = result.release();
    return status;
  }

  int port() const { return port_; }

  std::mutex mutex;  // guards everything below
  Seen seen;
  int fail_next = 0;
  int fail_code = 0;
  bool lose_next = false;
  Duration stall{0};

 private:
  grpc::Status ServeUnary(const v1::Operation& operation, v1::OperationResult& result) {
    std::unique_lock lock(mutex);
    Serve(operation, result, lock);
    if (!result.has_problem()) {
      return grpc::Status::OK;
    }
    const bool transient = result.problem().code() == v1::Problem::UNAVAILABLE;
    return grpc::Status(
        transient ? grpc::StatusCode::UNAVAILABLE : grpc::StatusCode::INVALID_ARGUMENT, "problem");
  }

  void Serve(const v1::Operation& operation, v1::OperationResult& result,
             std::unique_lock<std::mutex>& lock) {
    if (stall > Duration(0)) {
      stalled_until_ = std::chrono::steady_clock::now() + std::exchange(stall, Duration(0));
    }
    while (std::chrono::steady_clock::now() < stalled_until_) {
      never_.wait_until(lock, stalled_until_);
    }
    result.set_tag(operation.tag());
    if (fail_next > 0) {
      --fail_next;
      result.mutable_problem()->set_code(static_cast<v1::Problem::Code>(fail_code));
      result.mutable_problem()->set_message("problem");
    } else if (operation.has_acquire()) {
      ServeAcquire(operation.acquire(), *result.mutable_acquire());
    } else if (operation.has_renew()) {
      ServeRenew(operation.renew(), *result.mutable_renew());
    } else if (operation.has_cancel()) {
      ++seen.cancels;
      result.mutable_cancel()->set_outcome(v1::CancelResponse::ALREADY_OVER);
    } else {
      ServeRelease(operation.release(), *result.mutable_release());
    }
  }

  void ServeAcquire(const v1::AcquireRequest& request, v1::AcquireResponse& response) {
    if (request.has_client()) {
      std::uint64_t& watermark = watermarks_[request.client().client_id()];
      seen.below_watermark += request.client().sequence() < watermark ? 1 : 0;
      watermark = std::max<std::uint64_t>(watermark, request.client().answered_below());
    }
    names_.insert(request.resource());
    seen.resources = names_.size();
    const auto [holder, free] = holders_.emplace(request.resource(), request.request_id());
    if (!free && (request.request_id().empty() || holder->second != request.request_id())) {
      response.mutable_refused()->set_code(v1::HELD);
      return;
    }
    seen.acquires += free ? 1 : 0;
    seen.held = holders_.size();
    response.mutable_granted()->set_lease_id("lease of " + request.resource());
  }

  void ServeRenew(const v1::RenewRequest& request, v1::RenewResponse& response) {
    if (!Holds(request.resource(), request.lease_id())) {
      response.mutable_not_renewed()->set_cause(v1::NEVER_HELD);
      return;
    }
    ++seen.renewals;
    response.mutable_renewed();
  }

  void ServeRelease(const v1::ReleaseRequest& request, v1::ReleaseResponse& response) {
    response.set_released(Holds(request.resource(), request.lease_id()));
    if (!response.released()) {
      response.set_cause(v1::NEVER_HELD);
      return;
    }
    ++seen.releases;
    holders_.erase(request.resource());
    seen.held = holders_.size();
  }

  bool Holds(const std::string& resource, const std::string& lease_id) const {
    return holders_.count(resource) == 1 && lease_id == "lease of " + resource;
  }

  std::condition_variable never_;
  std::chrono::steady_clock::time_point stalled_until_;
  std::map<std::string, std::string> holders_;  // resource -> request id
  std::set<std::string> names_;
  std::map<std::string, std::uint64_t> watermarks_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

FakeService::FakeService() : impl_(std::make_unique<Impl>()) {}
FakeService::~FakeService() = default;

std::string FakeService::endpoint() const {
  return "127.0.0.1:" + std::to_string(impl_->port());
}

FakeService::Seen FakeService::seen() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->seen;
}

void FakeService::FailNext(int count, int problem_code) {
  const std::lock_guard lock(impl_->mutex);
  impl_->fail_next = count;
  impl_->fail_code = problem_code;
}

void FakeService::LoseNextReply() {
  const std::lock_guard lock(impl_->mutex);
  impl_->lose_next = true;
}

void FakeService::StallOnce(Duration time) {
  const std::lock_guard lock(impl_->mutex);
  impl_->stall = time;
}

}  // namespace holdfast::bench
