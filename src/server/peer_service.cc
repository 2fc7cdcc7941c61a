#include "server/peer_service.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <mutex>
#include <utility>

#include <grpcpp/grpcpp.h>
#include <grpcpp/server_builder.h>

#include "base/crc32c.h"
#include "base/log.h"
#include "engine/forwarder.h"
#include "holdfast/internal/v1/peer.grpc.pb.h"

namespace holdfast::server {
namespace {

namespace pb = internal::v1;

constexpr std::size_t kChunkBytes = std::size_t{256} << 10U;
constexpr int kFrameBytesMax = 64 << 20;

// The leader's end of one standby's link.
class ForwardStream : public grpc::ServerBidiReactor<pb::Frame, pb::Frame>, public engine::Front {
 public:
  explicit ForwardStream(engine::ReplicatedRunner& runner)
      : runner_(runner), front_(runner.AttachPeer(*this)) {
    StartRead(&in_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      End(grpc::Status::OK);
      return;
    }
    Result<engine::Forwarded> forwarded = engine::DecodeForwarded(in_.body());
    if (!forwarded.ok()) {
      log::Error("a peer sends what does not decode error=\"{}\"", forwarded.error().message);
      End({grpc::StatusCode::INVALID_ARGUMENT, forwarded.error().message});
      return;
    }
    if (!forwarded->refused.empty()) {
      OnReplies(std::move(forwarded->refused));
    }
    if (!forwarded->proposals.empty()) {
      runner_.Submit(front_, std::move(forwarded->proposals));
    }
    if (!forwarded->abandoned.empty()) {
      runner_.Abandon(front_, std::move(forwarded->abandoned));
    }
    StartRead(&in_);
  }

  void OnReplies(std::vector<engine::Reply>&& replies) override {
    const std::lock_guard lock(mutex_);
    if (ended_) {
      return;
    }
    queue_.emplace_back().set_body(engine::EncodeReplies(replies));
    if (queue_.size() == 1) {
      StartWrite(&queue_.front());
    }
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    if (!ok || ended_) {
      return;
    }
    queue_.pop_front();
    if (!queue_.empty()) {
      StartWrite(&queue_.front());
    }
  }

  void OnDone() override {
    runner_.Detach(front_);
    delete this;
  }

 private:
  void End(const grpc::Status& status) {
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(ended_, true)) {
        return;
      }
    }
    Finish(status);
  }

  engine::ReplicatedRunner& runner_;
  const engine::FrontId front_;
  pb::Frame in_;
  std::mutex mutex_;
  std::deque<pb::Frame> queue_;  // the first one is being written; bounded by what is asked
  bool ended_ = false;
};

// Flow control paces it: the receiver writes to its disk only at the end, but reads as it likes.
class SnapshotStream : public grpc::ServerWriteReactor<pb::SnapshotChunk> {
 public:
  SnapshotStream(engine::ReplicatedRunner& runner, const pb::FetchSnapshotRequest& request) {
    Result<journal::Snapshot> newest = runner.NewestSnapshot();
    if (!newest.ok() || newest->header.index == 0 || newest->header.index < request.index_min()) {
      Finish({grpc::StatusCode::NOT_FOUND, "this node has no such snapshot"});
      return;
    }
    snapshot_ = std::move(*newest);
    const bool same = request.index() == snapshot_.header.index;
    offset_ = same ? std::min<std::size_t>(request.offset(), snapshot_.payload.size()) : 0;
    Next();
  }

  void OnWriteDone(bool ok) override {
    if (!ok) {
      Finish(grpc::Status::CANCELLED);
      return;
    }
    Next();
  }
  void OnDone() override { delete this; }

 private:
  void Next() {
    if (offset_ >= snapshot_.payload.size()) {
      Finish(grpc::Status::OK);
      return;
    }
    const journal::SnapshotHeader& header = snapshot_.header;
    chunk_.set_index(header.index);
    chunk_.set_epoch(header.epoch);
    chunk_.set_entry_hash(header.entry_hash.data(), header.entry_hash.size());
    chunk_.set_state_time_ns(header.time.time_since_epoch().count());
    chunk_.set_payload_bytes(snapshot_.payload.size());
    chunk_.set_offset(offset_);
    chunk_.set_data(snapshot_.payload.substr(offset_, kChunkBytes));
    chunk_.set_crc32c(Crc32c(chunk_.data()));
    offset_ += chunk_.data().size();
    StartWrite(&chunk_);
  }

  journal::Snapshot snapshot_;
  std::size_t offset_ = 0;
  pb::SnapshotChunk chunk_;
};

class Service : public pb::Peer::CallbackService {
 public:
  explicit Service(engine::ReplicatedRunner& runner) : runner_(runner) {}

  grpc::ServerBidiReactor<pb::Frame, pb::Frame>* Forward(
      grpc::CallbackServerContext* /*context*/) override {
    return new ForwardStream(runner_);
  }
  grpc::ServerWriteReactor<pb::SnapshotChunk>* FetchSnapshot(
      grpc::CallbackServerContext* /*context*/, const pb::FetchSnapshotRequest* request) override {
    return new SnapshotStream(runner_, *request);
  }

 private:
  engine::ReplicatedRunner& runner_;
};

class GrpcPeerServer : public PeerServer {
 public:
  GrpcPeerServer(engine::ReplicatedRunner& runner, const std::string& listen, const PeerTls& tls)
      : service_(runner) {
    std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
    if (!tls.certificate.empty()) {
      grpc::SslServerCredentialsOptions ssl(
          GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
      ssl.pem_root_certs = tls.ca;
      ssl.pem_key_cert_pairs.push_back({tls.key, tls.certificate});
      credentials = grpc::SslServerCredentials(ssl);
    }
    grpc::ServerBuilder builder;
    builder.SetMaxReceiveMessageSize(kFrameBytesMax);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 2000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 1000);
    builder.AddListeningPort(listen, credentials, &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
  }
  ~GrpcPeerServer() override { Stop(); }

  bool listens() const { return server_ != nullptr && port_ != 0; }

  void Stop() override {
    if (server_ != nullptr) {
      server_->Shutdown(std::chrono::system_clock::now());
      server_->Wait();
      server_.reset();
    }
  }

 private:
  Service service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

Result<std::unique_ptr<PeerServer>> PeerServer::Start(engine::ReplicatedRunner& runner,
                                                      const std::string& listen,
                                                      const PeerTls& tls) {
  auto server = std::make_unique<GrpcPeerServer>(runner, listen, tls);
  if (!server->listens()) {
    return Error{ErrorCode::kUnavailable, "cannot listen for peers on " + listen, {}, {}};
  }
  return std::unique_ptr<PeerServer>(std::move(server));
}

}  // namespace holdfast::server
