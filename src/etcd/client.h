// The gRPC shell around the replicated journal: carries its transactions and its watch to an etcd
// cluster, over one completion-queue thread. It decides nothing but which endpoint to ask: the
// first that works, and the next one after each failure.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/time.h"
#include "holdfast/result.h"
#include "journal/etcd_wire.h"

namespace holdfast::etcd {

namespace wire = journal::etcd;

struct ClientOptions {
  std::vector<std::string> endpoints;  // HOST:PORT, at least one
  std::string prefix;                  // what the watch is about, such as "/holdfast/"
  std::string user;                    // empty: no authentication
  std::string password;
  bool tls = false;
  std::string ca;  // PEM; empty: the system's
  std::string certificate;
  std::string key;
};

class Client {
 public:
  struct Handlers {
    // Called by the client's thread; must not block.
    std::function<void(std::uint64_t id, wire::Answer&&)> on_answer;
    std::function<void(std::uint64_t id, wire::WatchNews&&)> on_news;
  };

  // Connects in the background. kInvalidArgument without endpoints.
  static Result<std::unique_ptr<Client>> Create(const ClientOptions& options, Handlers handlers);
  virtual ~Client() = default;

  // Exactly one on_answer follows. Thread-safe, as are the others.
  virtual void Send(std::uint64_t id, const wire::Txn& txn, Duration timeout) = 0;
  // In place of the watch before, of which nothing more is heard... except what is on its way.
  virtual void Watch(std::uint64_t id, wire::Revision revision) = 0;
  virtual void StopWatch() = 0;
  // Asks every endpoint, for at most `timeout`. Blocks.
  virtual std::vector<wire::EndpointHealth> Health(Duration timeout) = 0;
};

}  // namespace holdfast::etcd
