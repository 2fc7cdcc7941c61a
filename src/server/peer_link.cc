#include "server/peer_link.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include <fmt/core.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/grpcpp.h>

#include "base/crc32c.h"
#include "holdfast/internal/v1/peer.grpc.pb.h"

namespace holdfast::server {
namespace {

namespace pb = internal::v1;

constexpr int kKeepaliveMs = 2'000;
constexpr int kKeepaliveTimeoutMs = 1'000;
// A snapshot that does not move for this long is asked for elsewhere.
constexpr std::chrono::seconds kFetchPatience{60};

// Links that gRPC is not done with: they call the sink, so it must outlive them.
class LiveLinks {
 public:
  void Add() {
    const std::lock_guard lock(mutex_);
    ++count_;
  }
  void Remove() {
    const std::lock_guard lock(mutex_);
    --count_;
    none_.notify_all();
  }
  void WaitForNone() {
    std::unique_lock lock(mutex_);
    none_.wait(lock, [this] { return count_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable none_;
  int count_ = 0;
};

// One stream to a leader. Lives until gRPC is done with it.
class Link : public grpc::ClientBidiReactor<pb::Frame, pb::Frame> {
 public:
  Link(engine::PortSink& sink, std::uint64_t id, std::shared_ptr<grpc::Channel> channel,
       LiveLinks& live)
      : sink_(sink), id_(id), stub_(pb::Peer::NewStub(std::move(channel))), live_(live) {
    live_.Add();
  }

  // `self` keeps it alive.
  void Start(std::shared_ptr<Link> self) {
    self_ = std::move(self);
    stub_->async()->Forward(&context_, this);
    AddHold();  // writes begin outside of its callbacks
    StartRead(&in_);
    StartCall();
  }

  void Send(std::string frame) {
    const std::lock_guard lock(mutex_);
    if (closed_) {
      return;
    }
    queue_.emplace_back().set_body(std::move(frame));
    if (queue_.size() == 1) {
      StartWrite(&queue_.front());
    }
  }

  void Close() {
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(closed_, true)) {
        return;
      }
    }
    context_.TryCancel();
    RemoveHold();
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      sink_.OnPeerBroken(id_);
      Close();
      return;
    }
    sink_.OnPeerFrame(id_, std::move(*in_.mutable_body()));
    StartRead(&in_);
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    if (!ok || closed_) {
      return;
    }
    queue_.pop_front();
    if (!queue_.empty()) {
      StartWrite(&queue_.front());
    }
  }

  void OnDone(const grpc::Status& /*status*/) override {
    LiveLinks& live = live_;
    self_.reset();  // perhaps the last one
    live.Remove();
  }

 private:
  engine::PortSink& sink_;
  const std::uint64_t id_;
  std::unique_ptr<pb::Peer::Stub> stub_;
  LiveLinks& live_;
  std::shared_ptr<Link> self_;
  grpc::ClientContext context_;
  pb::Frame in_;
  std::mutex mutex_;
  // The first one is being written. Bounded by the requests that the forwarder has open.
  std::deque<pb::Frame> queue_;
  bool closed_ = false;
};

class GrpcPeerPort : public engine::PeerPort {
 public:
  GrpcPeerPort(engine::PortSink& sink, const PeerTls& tls) : sink_(sink) {
    credentials_ = tls.certificate.empty()
                       ? grpc::InsecureChannelCredentials()
                       : grpc::SslCredentials({tls.ca, tls.key, tls.certificate});
  }
  ~GrpcPeerPort() override {
    Close();
    live_.WaitForNone();
  }

  void Connect(std::uint64_t link, const std::string& address) override {
    Close();
    auto made = std::make_shared<Link>(sink_, link, ChannelTo(address), live_);
    made->Start(made);
    const std::lock_guard lock(mutex_);
    link_ = std::move(made);
    link_id_ = link;
  }

  void Send(std::uint64_t link, std::string frame) override {
    std::shared_ptr<Link> to;
    {
      const std::lock_guard lock(mutex_);
      to = link == link_id_ ? link_ : nullptr;
    }
    if (to != nullptr) {
      to->Send(std::move(frame));
    }
  }

  void Close() override {
    std::shared_ptr<Link> closing;
    {
      const std::lock_guard lock(mutex_);
      closing = std::exchange(link_, nullptr);
      link_id_ = 0;
      if (fetching_ != nullptr) {
        fetching_->TryCancel();
      }
    }
    if (closing != nullptr) {
      closing->Close();
    }
  }

  Result<journal::Snapshot> FetchSnapshot(const std::string& address,
                                          std::uint64_t index) override {
    if (partial_.header.index >= index && Complete()) {
      return TakePartial();  // all of it came, only the end of the stream did not
    }
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kFetchPatience);
    const Fetching fetching(*this, context);
    pb::FetchSnapshotRequest request;
    request.set_index_min(index);
    if (partial_.header.index >= index && !partial_.payload.empty()) {
      request.set_index(partial_.header.index);
      request.set_offset(partial_.payload.size());
    }
    const auto stub = pb::Peer::NewStub(ChannelTo(address));
    const auto reader = stub->FetchSnapshot(&context, request);
    pb::SnapshotChunk chunk;
    while (reader->Read(&chunk)) {
      if (const Status taken = TakeChunk(chunk); !taken.ok()) {
        partial_ = {};
        context.TryCancel();
        return taken.error();
      }
    }
    const grpc::Status status = reader->Finish();
    if (!Complete()) {
      return Error{ErrorCode::kUnavailable,
                   fmt::format("a snapshot from {} broke off: {}", address, status.error_message()),
                   {},
                   {}};
    }
    return TakePartial();
  }

 private:
  // Lets Close cancel it.
  class Fetching {
   public:
    Fetching(GrpcPeerPort& port, grpc::ClientContext& context) : port_(port) {
      const std::lock_guard lock(port_.mutex_);
      port_.fetching_ = &context;
    }
    ~Fetching() {
      const std::lock_guard lock(port_.mutex_);
      port_.fetching_ = nullptr;
    }
    Fetching(const Fetching&) = delete;
    Fetching& operator=(const Fetching&) = delete;

   private:
    GrpcPeerPort& port_;
  };

  bool Complete() const { return partial_total_ != 0 && partial_.payload.size() == partial_total_; }
  journal::Snapshot TakePartial() {
    partial_total_ = 0;
    return std::exchange(partial_, {});
  }

  Status TakeChunk(const pb::SnapshotChunk& chunk) {
    if (chunk.index() != partial_.header.index) {
      partial_ = {};  // the peer has another one
      partial_.header.index = chunk.index();
      partial_.header.epoch = chunk.epoch();
      partial_.header.time = Timestamp(Duration(chunk.state_time_ns()));
      if (chunk.entry_hash().size() != partial_.header.entry_hash.size()) {
        return Error{ErrorCode::kCorrupt, "a chunk of a snapshot has no hash", {}, {}};
      }
      std::copy(chunk.entry_hash().begin(), chunk.entry_hash().end(),
                partial_.header.entry_hash.begin());
    }
    if (chunk.offset() != partial_.payload.size() || Crc32c(chunk.data()) != chunk.crc32c()) {
      return Error{ErrorCode::kCorrupt, "a chunk of a snapshot is damaged", {}, {}};
    }
    partial_total_ = chunk.payload_bytes();
    partial_.payload += chunk.data();
    partial_.header.payload_bytes = partial_.payload.size();
    return {};
  }

  std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<grpc::Channel>& channel = channels_[address];
    if (channel == nullptr) {
      grpc::ChannelArguments arguments;
      arguments.SetMaxReceiveMessageSize(-1);
      arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
      arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
      arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
      arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
      arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
      arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
      channel = grpc::CreateCustomChannel(address, credentials_, arguments);
    }
    return channel;
  }

  engine::PortSink& sink_;
  std::shared_ptr<grpc::ChannelCredentials> credentials_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<grpc::Channel>> channels_;  // of the cluster's nodes
  std::shared_ptr<Link> link_;
  std::uint64_t link_id_ = 0;
  grpc::ClientContext* fetching_ = nullptr;
  LiveLinks live_;
  // Only FetchSnapshot: what has come of a transfer that may have broken off.
  journal::Snapshot partial_;
  std::uint64_t partial_total_ = 0;
};

}  // namespace

std::unique_ptr<engine::PeerPort> MakePeerLink(engine::PortSink& sink, const PeerTls& tls) {
  return std::make_unique<GrpcPeerPort>(sink, tls);
}

}  // namespace holdfast::server
