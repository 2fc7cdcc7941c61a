// A replicated node in one object: its runner over etcd, and what it does for its peers.
#pragma once

#include <memory>

#include "engine/clock.h"
#include "engine/cluster_recovery.h"
#include "engine/replicated_runner.h"
#include "holdfast/result.h"
#include "server/config.h"
#include "server/peer_service.h"
#include "storage/file_system.h"

namespace holdfast::server {

struct Node {
  std::unique_ptr<engine::ReplicatedRunner> runner;
  std::unique_ptr<PeerServer> peers;  // before the runner in time of destruction
};

// Errors: kInvalidArgument of the configuration, kUnsupported for a version of etcd that loses
// entries, kUnavailable when it cannot listen. An etcd that does not answer yet is waited for in
// the background.
Result<Node> StartNode(storage::FileSystem& files, engine::Clock& clock, const Config& config,
                       const engine::EngineOptions& engine);

// Begins a new log in the etcd of `config`: see engine/cluster_recovery.h, whose errors these are.
// Blocks.
Result<engine::ClusterRecoveryReport> RecoverLog(storage::FileSystem& files, engine::Clock& clock,
                                                 const Config& config,
                                                 const engine::ClusterRecoveryOptions& options);

}  // namespace holdfast::server
