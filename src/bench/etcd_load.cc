#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <grpcpp/grpcpp.h>

#include "bench/channel.h"
#include "bench/grpc_link.h"
#include "bench/grpc_status.h"
#include "bench/peer_load.h"
#include "etcdserverpb/lease.grpc.pb.h"
#include "etcdserverpb/lock.grpc.pb.h"

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

// One call at a time, to be made again and again.
template <typename Response>
class Call {
 public:
  explicit Call(std::function<void()> done) : done_([done = std::move(done)](bool) { done(); }) {}

  // `method`: of the stub, with (context, request, queue).
  template <typename Method>
  void Start(const Method& method) {
    context_.emplace();
    context_->set_deadline(std::chrono::system_clock::now() + kCallTimeout);
    reader_ = method(&*context_);
    reader_->Finish(&response_, &status_, &done_);
  }

  // Of the last one, from `done` on.
  const grpc::Status& status() const { return status_; }
  const Response& response() const { return response_; }

 private:
  std::optional<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> reader_;
  Response response_;
  grpc::Status status_;
  QueueEvent done_;
};

// The services on one connection.
struct Stubs {
  std::unique_ptr<etcdserverpb::Lease::Stub> lease;
  std::unique_ptr<v3lockpb::Lock::Stub> lock;
};

// One lock name: lock, unlock, and again.
class Worker {
 public:
  // `lease`: for all pairs; 0: each pair has one of its own, of `ttl`.
  Worker(int number, const Stubs* stubs, std::int64_t lease, std::chrono::seconds ttl,
         grpc::CompletionQueue* queue, Recorder* recorder)
      : stubs_(stubs), queue_(queue), recorder_(recorder), lease_per_lock_(lease == 0) {
    lock_.set_name(fmt::format("bench/{}", number));
    lock_.set_lease(lease);
    grant_.set_ttl(ttl.count());
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  bool idle() const { return idle_; }

  void Begin(LoadTime now) {
    idle_ = false;
    failed_ = false;
    pair_from_ = now;
    from_ = now;
    if (!lease_per_lock_) {
      Lock();
      return;
    }
    granting_.Start([this](grpc::ClientContext* context) {
      return stubs_->lease->AsyncLeaseGrant(context, grant_, queue_);
    });
  }

 private:
  void Granted() {
    if (!granting_.status().ok() || !granting_.response().error().empty()) {
      Fail(granting_.status(), "NO_LEASE");
      Again();
      return;
    }
    lock_.set_lease(granting_.response().id());
    Lock();
  }

  void Lock() {
    locking_.Start([this](grpc::ClientContext* context) {
      return stubs_->lock->AsyncLock(context, lock_, queue_);
    });
  }

  void Locked() {
    if (!locking_.status().ok() || locking_.response().key().empty()) {
      Fail(locking_.status(), "NO_KEY");
      Release();
      return;
    }
    const LoadTime now = LoadClock::now();
    recorder_->Operation(Verb::kAcquire, from_, now);
    from_ = now;
    unlock_.set_key(locking_.response().key());
    unlocking_.Start([this](grpc::ClientContext* context) {
      return stubs_->lock->AsyncUnlock(context, unlock_, queue_);
    });
  }

  void Unlocked() {
    if (!unlocking_.status().ok()) {
      Fail(unlocking_.status(), "");
    }
    Release();
  }

  // Ends the pair, and its lease if that is its own: also after a failure, since what the lease
  // still holds would block the next pair.
  void Release() {
    if (!lease_per_lock_) {
      Done();
      return;
    }
    revoke_.set_id(lock_.lease());
    revoking_.Start([this](grpc::ClientContext* context) {
      return stubs_->lease->AsyncLeaseRevoke(context, revoke_, queue_);
    });
  }

  void Revoked() {
    if (!revoking_.status().ok()) {
      Fail(revoking_.status(), "");
    }
    Done();
  }

  void Done() {
    if (!failed_) {
      const LoadTime now = LoadClock::now();
      recorder_->Operation(Verb::kRelease, from_, now);
      recorder_->Pair(pair_from_, now);
    }
    Again();
  }

  // `kind`: of a failure that the status does not show.
  void Fail(const grpc::Status& status, std::string_view kind) {
    failed_ = true;
    recorder_->Failed(status.ok() ? kind : ErrorCodeName(ErrorOf(status).code), LoadClock::now());
  }

  void Again() {
    idle_ = true;
    const LoadTime now = LoadClock::now();
    if (!recorder_->Over(now)) {
      Begin(now);
    }
  }

  const Stubs* const stubs_;
  grpc::CompletionQueue* const queue_;
  Recorder* const recorder_;
  const bool lease_per_lock_;
  bool idle_ = true;
  bool failed_ = false;  // the pair at hand
  LoadTime pair_from_;
  LoadTime from_;
  etcdserverpb::LeaseGrantRequest grant_;
  v3lockpb::LockRequest lock_;
  v3lockpb::UnlockRequest unlock_;
  etcdserverpb::LeaseRevokeRequest revoke_;
  Call<etcdserverpb::LeaseGrantResponse> granting_{[this] { Granted(); }};
  Call<v3lockpb::LockResponse> locking_{[this] { Locked(); }};
  Call<v3lockpb::UnlockResponse> unlocking_{[this] { Unlocked(); }};
  Call<etcdserverpb::LeaseRevokeResponse> revoking_{[this] { Revoked(); }};
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

// One for each element. They outlast the run, so that none has to be renewed in it.
Status GrantLeases(const std::shared_ptr<grpc::Channel>& channel, const PeerLoadOptions& options,
                   std::vector<std::int64_t>& leases) {
  const auto ttl = std::chrono::duration_cast<std::chrono::seconds>(
      2 * (options.warm_up + options.duration) + options.ttl + kCallTimeout);
  const auto stub = etcdserverpb::Lease::NewStub(channel);
  for (std::int64_t& lease : leases) {
    Result<std::int64_t> granted = GrantLease(*stub, ttl.count());
    if (!granted.ok()) {
      return granted.error();
    }
    lease = *granted;
  }
  return {};
}

}  // namespace

bool EtcdAnswers(int port) {
  const auto channel = MakeChannel(Address(port), 0);
  if (!WaitConnected(*channel, Address(port), LoadClock::now() + Millis(200)).ok()) {
    return false;
  }
  return GrantLease(*etcdserverpb::Lease::NewStub(channel), 60).ok();
}

Result<LoadResult> RunEtcdLoad(const PeerLoadOptions& options, EtcdLease lease) {
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
  std::vector<std::int64_t> leases(
      static_cast<std::size_t>(options.connections * options.outstanding));  // 0: one for each pair
  if (lease == EtcdLease::kReused) {
    if (Status granted = GrantLeases(channels.front(), options, leases); !granted.ok()) {
      return granted.error();
    }
  }

  const LoadTime begin = LoadClock::now();
  Recorder recorder({.begin = begin,
                     .warm_up = options.warm_up,
                     .duration = options.duration,
                     .server_pid = options.server_pid,
                     .progress = options.progress,
                     .label = options.progress_label});
  grpc::CompletionQueue queue;
  std::vector<std::unique_ptr<Stubs>> stubs;
  std::vector<std::unique_ptr<Worker>> workers;
  for (const auto& channel : channels) {
    stubs.push_back(std::make_unique<Stubs>(
        Stubs{etcdserverpb::Lease::NewStub(channel), v3lockpb::Lock::NewStub(channel)}));
    for (int i = 0; i < options.outstanding; ++i) {
      workers.push_back(std::make_unique<Worker>(
          static_cast<int>(workers.size()), stubs.back().get(), leases[workers.size()],
          std::chrono::ceil<std::chrono::seconds>(options.ttl), &queue, &recorder));
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
