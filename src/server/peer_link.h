// The connections of a node to its peers: requests on their way to the leader, and snapshots.
#pragma once

#include <memory>
#include <string>

#include "engine/ports.h"

namespace holdfast::server {

// PEM texts; empty: no TLS. Peers prove themselves to each other.
struct PeerTls {
  std::string certificate;
  std::string key;
  std::string ca;
};

std::unique_ptr<engine::PeerPort> MakePeerLink(engine::PortSink& sink, const PeerTls& tls);

}  // namespace holdfast::server
