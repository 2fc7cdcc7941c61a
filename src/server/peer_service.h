// What a node does for its peers: takes the requests that standbys pass on, and gives them
// snapshots. A listener of its own, which clients have no business with.
#pragma once

#include <memory>
#include <string>

#include "engine/replicated_runner.h"
#include "holdfast/result.h"
#include "server/peer_link.h"

namespace holdfast::server {

class PeerServer {
 public:
  // kUnavailable when it cannot listen. `runner` must outlive it.
  static Result<std::unique_ptr<PeerServer>> Start(engine::ReplicatedRunner& runner,
                                                   const std::string& listen, const PeerTls& tls);
  virtual ~PeerServer() = default;
  // Ends every link. Idempotent.
  virtual void Stop() = 0;
};

}  // namespace holdfast::server
