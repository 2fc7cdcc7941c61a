#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include <fmt/core.h>
#include <grpcpp/grpcpp.h>

#include "bench/channel.h"
#include "bench/grpc_link.h"
#include "bench/grpc_status.h"
#include "bench/peer_load.h"
#include "etcd/lease.grpc.pb.h"
#include "etcd/lock.grpc.pb.h"

namespace holdfast::bench {
namespace {

constexpr int kEventsPerTurn = 256;
constexpr Duration kPollAtMost = Millis(50);
constexpr Duration kConnectTimeout = Seconds(10);
constexpr Duration kCallTimeout = Seconds(30);

std::string Address(int port) {
  return fmt::format("127.0.0.1:{}", port);
}

Result<std::int64_t> GrantLease(etcdserverpb::Lease::Stub& stub, std::int64_t ttl_seconds) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kConnectTimeout);
  etcdserverpb::LeaseGrantRequest request;
  request.set_ttl(ttl_seconds);
  etcdserverpb::LeaseGrantResponse response;
  const grpc::Status status = stub.LeaseGrant(&context, request, &response);
  if (!status.ok()) {
    return ErrorOf(status).WithContext("etcd LeaseGrant");
  }
  if (!response.error().empty()) {
    return Error{ErrorCode::kInternal, "etcd LeaseGrant: " + response.error(), {}, {}};
  }
  return response.id();
}

// One lock name: lock, unlock, and again.
class Worker {
 public:
  Worker(int number, v3lockpb::Lock::Stub* stub, std::int64_t lease, grpc::CompletionQueue* queue,
         Recorder* recorder)
      : stub_(stub), queue_(queue), recorder_(recorder) {
    lock_.set_name(fmt::format("bench/{}", number));
    lock_.set_lease(lease);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  bool idle() const { return idle_; }

  void Begin(LoadTime now) {
    idle_ = false;
    pair_from_ = now;
    from_ = now;
    NewContext();
    locking_ = stub_->AsyncLock(&*context_, lock_, queue_);
    locking_->Finish(&locked_, &status_, &on_locked_);
  }

 private:
  void NewContext() {
    context_.emplace();
    context_->set_deadline(std::chrono::system_clock::now() + kCallTimeout);
  }

  void Locked() {
    const LoadTime now = LoadClock::now();
    if (!status_.ok() || locked_.key().empty()) {
      Fail(now);
      return;
    }
    recorder_->Operation(Verb::kAcquire, from_, now);
    from_ = now;
    unlock_.set_key(locked_.key());
    NewContext();
    unlocking_ = stub_->AsyncUnlock(&*context_, unlock_, queue_);
    unlocking_->Finish(&unlocked_, &status_, &on_unlocked_);
  }

  void Unlocked() {
    const LoadTime now = LoadClock::now();
    if (!status_.ok()) {
      Fail(now);
      return;
    }
    recorder_->Operation(Verb::kRelease, from_, now);
    recorder_->Pair(pair_from_, now);
    Again(now);
  }

  void Fail(LoadTime now) {
    recorder_->Failed(status_.ok() ? "NO_KEY" : ErrorCodeName(ErrorOf(status_).code), now);
    Again(now);
  }

  void Again(LoadTime now) {
    idle_ = true;
    if (!recorder_->Over(now)) {
      Begin(now);
    }
  }

  v3lockpb::Lock::Stub* const stub_;
  grpc::CompletionQueue* const queue_;
  Recorder* const recorder_;
  bool idle_ = true;
  LoadTime pair_from_;
  LoadTime from_;
  v3lockpb::LockRequest lock_;
  v3lockpb::LockResponse locked_;
  v3lockpb::UnlockRequest unlock_;
  v3lockpb::UnlockResponse unlocked_;
  grpc::Status status_;
  std::optional<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v3lockpb::LockResponse>> locking_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v3lockpb::UnlockResponse>> unlocking_;
  QueueEvent on_locked_ = [this](bool) { Locked(); };
  QueueEvent on_unlocked_ = [this](bool) { Unlocked(); };
};

// Serves the queue until the end is reached and every worker is idle, which the deadline of each
// call bounds.
void Serve(grpc::CompletionQueue& queue, const std::vector<std::unique_ptr<Worker>>& workers,
           Recorder& recorder) {
  for (;;) {
    const LoadTime now = LoadClock::now();
    recorder.Advance(now);
    if (recorder.Over(now)) {
      bool all_idle = true;
      for (const auto& worker : workers) {
        all_idle = all_idle && worker->idle();
      }
      if (all_idle) {
        return;
      }
    }
    auto deadline = std::chrono::system_clock::now() + kPollAtMost;
    void* tag = nullptr;
    bool ok = false;
    for (int events = 0; events < kEventsPerTurn; ++events) {
      if (queue.AsyncNext(&tag, &ok, deadline) != grpc::CompletionQueue::GOT_EVENT) {
        break;
      }
      (*static_cast<QueueEvent*>(tag))(ok);
      deadline = {};
    }
  }
}

}  // namespace

bool EtcdAnswers(int port) {
  const auto channel = MakeChannel(Address(port), 0);
  if (!WaitConnected(*channel, Address(port), LoadClock::now() + Millis(200)).ok()) {
    return false;
  }
  return GrantLease(*etcdserverpb::Lease::NewStub(channel), 60).ok();
}

Result<LoadResult> RunEtcdLoad(const PeerLoadOptions& options) {
  const std::string address = Address(options.port);
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (int i = 0; i < options.connections; ++i) {
    channels.push_back(MakeChannel(address, i));
  }
  const LoadTime connect_deadline = LoadClock::now() + kConnectTimeout;
  for (const auto& channel : channels) {
    if (Status up = WaitConnected(*channel, address, connect_deadline); !up.ok()) {
      return up.error();
    }
  }
  // The leases outlast the run, so that none has to be renewed in it.
  const auto lease_ttl = std::chrono::duration_cast<std::chrono::seconds>(
      2 * (options.warm_up + options.duration) + options.ttl + kCallTimeout);
  std::vector<std::int64_t> leases;
  const auto leasing = etcdserverpb::Lease::NewStub(channels.front());
  for (int i = 0; i < options.connections * options.outstanding; ++i) {
    Result<std::int64_t> lease = GrantLease(*leasing, lease_ttl.count());
    if (!lease.ok()) {
      return lease.error();
    }
    leases.push_back(*lease);
  }

  const LoadTime begin = LoadClock::now();
  Recorder recorder({.begin = begin,
                     .warm_up = options.warm_up,
                     .duration = options.duration,
                     .server_pid = options.server_pid,
                     .progress = options.progress,
                     .label = options.progress_label});
  grpc::CompletionQueue queue;
  std::vector<std::unique_ptr<v3lockpb::Lock::Stub>> stubs;
  std::vector<std::unique_ptr<Worker>> workers;
  for (const auto& channel : channels) {
    stubs.push_back(v3lockpb::Lock::NewStub(channel));
    for (int i = 0; i < options.outstanding; ++i) {
      workers.push_back(std::make_unique<Worker>(static_cast<int>(workers.size()),
                                                 stubs.back().get(), leases[workers.size()], &queue,
                                                 &recorder));
    }
  }
  for (const auto& worker : workers) {
    worker->Begin(begin);
  }
  Serve(queue, workers, recorder);
  queue.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) {
    (*static_cast<QueueEvent*>(tag))(ok);
  }
  return recorder.Finish();
}

}  // namespace holdfast::bench
