// Three etcd members and three Holdfast nodes over them, on loopback, with directories of their
// own. Members of etcd can be killed and started again.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/time.h"
#include "bench/local_server.h"
#include "bench/metrics_text.h"
#include "holdfast/result.h"

namespace holdfast::bench {

class ClusterServers {
 public:
  static constexpr int kSize = 3;

  struct Options {
    std::string holdfast;        // program
    std::string etcd;            // program
    std::string work_dir = ".";  // on a disk
    std::string snapshot_bytes;  // of log between two snapshots, as the server's option wants it
  };

  // Returns when somebody leads in both. All processes die with the calling thread, which has to be
  // the one that uses and destroys this too. kUnavailable with the end of the log of what did not
  // come up, after several attempts.
  static Result<std::unique_ptr<ClusterServers>> Start(const Options& options);

  // 0 while it does not run.
  pid_t EtcdPid(int member) const;
  pid_t NodePid(int node) const { return nodes_[Index(node)].server->pid(); }
  Result<Metrics> EtcdMetrics(int member) const;
  Result<Metrics> NodeMetrics(int node) const;
  // HOST:PORT of its gRPC listener.
  std::string NodeEndpoint(int node) const;
  // None while nobody leads, or who leads does not answer.
  std::optional<int> EtcdLeader() const;
  // Of several that believe it, the one in the newest epoch.
  std::optional<int> Leader() const;

  // SIGKILL; its data stays.
  void KillEtcd(int member);
  // Returns when it answers.
  Status StartEtcd(int member);

 private:
  struct Process {
    std::string log;
    int port = 0;         // clients
    int second_port = 0;  // other members or nodes
    int http_port = 0;    // metrics; of etcd the clients' port
    std::optional<LocalServer> server;
  };

  ClusterServers(Options options, ScratchDirectory directory);
  static std::size_t Index(int number) { return static_cast<std::size_t>(number); }
  Status ChoosePorts();
  Status StartAll();
  Status StartNode(int node);
  LocalServer::Options EtcdProcess(int member) const;
  Status StartEtcd(int member, std::function<bool()> ready);

  const Options options_;
  ScratchDirectory directory_;
  // Below the directory, so that they end before it goes; nodes end before etcd.
  std::array<Process, kSize> etcd_;
  std::array<Process, kSize> nodes_;
};

}  // namespace holdfast::bench
