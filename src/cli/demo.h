// The demonstration: two clients and a small store that is protected by a lock, on a server that
// loses a reply and is killed. Every step is asserted.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "bench/local_server.h"
#include "cli/command_line.h"
#include "cli/demo_report.h"
#include "cli/lossy_proxy.h"
#include "holdfast/client.h"
#include "holdfast/result.h"

namespace holdfast::cli {

// The resource that the lock protects. It, not the lock service, has the last word: it remembers
// the highest fencing token that it has seen and refuses what comes with a lower one.
class ProtectedStore {
 public:
  bool Write(std::uint64_t token, const std::string& value);
  const std::string& value() const { return value_; }
  std::uint64_t highest() const { return highest_; }

 private:
  std::uint64_t highest_ = 0;
  std::string value_;
};

// A server of its own, in a directory that goes away with it.
class DemoServer {
 public:
  static Result<std::unique_ptr<DemoServer>> Start();
  const std::string& address() const { return address_; }
  // SIGKILL, and waits for its end.
  void Kill();
  Status Restart();

 private:
  DemoServer(bench::ScratchDirectory directory, int port);

  const bench::ScratchDirectory directory_;
  const std::string address_;
  std::optional<bench::LocalServer> process_;
};

class Demo {
 public:
  // `server` may be null: then the service is somebody else's, and nothing is killed.
  Demo(Connection connection, DemoServer* server, DemoReport& report);
  ~Demo();
  Demo(const Demo&) = delete;
  Demo& operator=(const Demo&) = delete;

  // Blocks for about ten seconds. An error if the service cannot be used at all; what is wrong with
  // its behaviour is in the report.
  Status Run();

 private:
  using Lease = Result<client::AcquireResult>;

  Status Connect();
  Status MakeNamespace();
  // Each returns false if the rest makes no sense any more.
  bool PausedHolderIsFenced();
  bool OldHolderWakesUp(const client::AcquireResult& old);
  bool LostReplyIsAskedForAgain();
  bool KilledServerForgetsNothing();
  bool EveryoneLetsGo();
  void DeleteNamespace();

  client::AcquireRequest Request(const std::string& resource, const std::string& owner,
                                 Duration ttl) const;
  // An assertion that it was granted. `what` ends in "token N".
  bool Granted(const Lease& lease, const std::string& actor, const std::string& what);
  // Whether it is held with this token and lease.
  bool HeldWith(const std::string& resource, const client::Grant& grant);
  bool WaitUntil(Duration limit, const std::function<bool()>& condition) const;

  Connection connection_;
  DemoServer* const server_;
  DemoReport& report_;
  ProtectedStore store_;
  std::unique_ptr<LossyProxy> proxy_;
  std::unique_ptr<client::Client> admin_;
  std::unique_ptr<client::Client> a_;
  std::unique_ptr<client::Client> b_;
  std::unique_ptr<client::Client> c_;  // through the proxy
  std::unique_ptr<client::Hold> b_lock_;
  std::optional<client::AcquireRequest> c_request_;
  std::optional<client::Grant> c_grant_;
};

}  // namespace holdfast::cli
