// What a replicated node needs of the outside, as interfaces: etcd, and its peers. The gRPC shells
// are in etcd/client.h and server/peer_link.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/time.h"
#include "holdfast/result.h"
#include "journal/etcd_wire.h"
#include "journal/snapshot_store.h"

namespace holdfast::engine {

// Thread-safe; only Health blocks.
class EtcdPort {
 public:
  virtual ~EtcdPort() = default;
  // Exactly one OnEtcdAnswer follows.
  virtual void Send(std::uint64_t id, const journal::etcd::Txn& txn, Duration timeout) = 0;
  virtual void Watch(std::uint64_t id, journal::etcd::Revision revision) = 0;
  virtual void StopWatch() = 0;
  // Asks every endpoint, each for at most `timeout`.
  virtual std::vector<journal::etcd::EndpointHealth> Health(Duration timeout) = 0;
};

// Thread-safe; only FetchSnapshot blocks.
class PeerPort {
 public:
  virtual ~PeerPort() = default;
  // A link to the leader, in place of the one before. It carries frames in order until
  // OnPeerBroken.
  virtual void Connect(std::uint64_t link, const std::string& address) = 0;
  virtual void Send(std::uint64_t link, std::string frame) = 0;
  // Ends the link, and a FetchSnapshot that is running.
  virtual void Close() = 0;
  // The newest snapshot of that node; kNotFound if it has none of at least `index`.
  virtual Result<journal::Snapshot> FetchSnapshot(const std::string& address,
                                                  std::uint64_t index) = 0;
};

// Where ports report. Thread-safe.
class PortSink {
 public:
  virtual ~PortSink() = default;
  virtual void OnEtcdAnswer(std::uint64_t id, journal::etcd::Answer&& answer) = 0;
  virtual void OnEtcdNews(std::uint64_t watch, journal::etcd::WatchNews&& news) = 0;
  virtual void OnPeerFrame(std::uint64_t link, std::string&& frame) = 0;
  virtual void OnPeerBroken(std::uint64_t link) = 0;
};

struct Ports {
  std::unique_ptr<EtcdPort> etcd;
  std::unique_ptr<PeerPort> peers;
};
using PortFactory = std::function<Result<Ports>(PortSink&)>;

}  // namespace holdfast::engine
