// The client of Holdfast for programs of this repository: one blocking call per verb of the API,
// and objects that keep a lock or a session alive in the background (hold.h, session.h,
// candidate.h). A thin shell around the state machines of this module; gRPC stays in transport.cc.
//
// Every method is thread-safe, and none may be called from a callback. Domain refusals are data in
// the result. Failed attempts are retried inside the call, with the same request id and on the next
// endpoint, for at most `timeout`. The errors that calls give:
//
//   kInvalidArgument (with field and limit), kUnauthenticated, kPermissionDenied, kNotFound,
//   kAlreadyExists, kUnsupported: refused by the service. kOverloaded, kUnavailable: nothing was
//   done.
//
//   kUnknownOutcome: it may have been done. Verbs with a request id may be asked again with the
//   same one; renew, release, resign, cancel, close, proclaim, namespace set and feature level may
//   simply be repeated; after break and namespace create and delete, look before repeating.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "holdfast/candidate.h"
#include "holdfast/export.h"
#include "holdfast/hold.h"
#include "holdfast/hold_set.h"
#include "holdfast/metrics.h"
#include "holdfast/result.h"
#include "holdfast/session.h"
#include "holdfast/time.h"
#include "holdfast/types.h"

namespace holdfast::client {

struct ClientOptions {
  std::vector<std::string> endpoints;  // HOST:PORT, tried in this order
  std::string namespace_name;          // of requests that name none; empty: "default"
  std::string token;                   // sent as `authorization: Bearer <token>`; empty: none
  bool tls = false;
  std::string tls_ca_file;    // PEM; empty: the system's roots
  std::string tls_cert_file;  // PEM, with tls_key_file: the client's own certificate
  std::string tls_key_file;
  Duration timeout =
      Seconds(10);  // of a whole call with its retries; an acquire's wait comes on top
  Duration attempt_timeout = Seconds(3);  // of one attempt, the connecting included
  std::shared_ptr<Metrics> metrics;       // told what happens; null: nobody is
};

// 32 hexadecimal digits from the CSPRNG.
HOLDFAST_API std::string NewRequestId();

class HOLDFAST_API Client {
 public:
  // Checks the options and reads the certificates; connects only when it is first needed.
  static Result<std::unique_ptr<Client>> Create(const ClientOptions& options);
  // What Lock, KeepSession, AcquireAll and Lead made must be gone before.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // --- locks ---
  Result<AcquireResult> Acquire(const AcquireRequest& request);
  Result<RenewResult> Renew(const RenewRequest& request);
  Result<ReleaseResult> Release(const ReleaseRequest& request);
  Result<CancelResult> Cancel(const CancelRequest& request);
  Result<DescribeResult> Describe(const std::string& resource,
                                  const std::string& namespace_name = {});
  Result<ListResult> List(const ListRequest& request);
  Result<CheckTokenResult> CheckToken(const std::string& resource, std::uint64_t fencing_token,
                                      const std::string& namespace_name = {});
  Result<BreakResult> Break(const BreakRequest& request);

  // Blocks and calls `on_item` in the calling thread for each item, until it returns false, `stop`
  // is requested or an error is final. A broken stream is resumed after the last index that was
  // seen.
  Status Watch(const WatchRequest& request, const std::function<bool(const WatchItem&)>& on_item,
               const std::stop_token& stop = {});

  // Acquires (or campaigns), then renews in the background until released or lost; see hold.h.
  std::unique_ptr<Hold> Lock(const LockGoal& goal, LockCallback on_update = {});
  // Blocks: acquires, runs `work` in the calling thread, and releases when it has returned. The end
  // tells: kReleased, it was held all the time; kLost, it was lost on the way or before the work
  // began; kNotAcquired, nothing was run.
  LockUpdate RunWhileHeld(const LockGoal& goal, const std::function<void(Work&)>& work);
  // Blocks: takes several locks in the order of their names, and all or none; see hold_set.h.
  AcquireAllResult AcquireAll(const AcquireAllGoal& goal);

  // --- sessions ---
  Result<OpenSessionResult> OpenSession(const OpenSessionRequest& request);
  Result<KeepAliveResult> KeepAlive(const KeepAliveRequest& request);
  Result<CloseSessionResult> CloseSession(const CloseSessionRequest& request);
  Result<SessionDescription> DescribeSession(const std::string& session_id,
                                             const std::string& namespace_name = {});

  // Opens a session and keeps it alive in the background until closed or expired; see session.h.
  std::unique_ptr<Session> KeepSession(const SessionGoal& goal, SessionCallback on_update = {});

  // --- elections ---
  Result<AcquireResult> Campaign(const CampaignRequest& request);
  Result<ProclaimResult> Proclaim(const ProclaimRequest& request);
  Result<ReleaseResult> Resign(const ReleaseRequest& request);
  Result<LeaderInfo> Leader(const std::string& resource, const std::string& namespace_name = {});
  // As Watch. Tokens strictly rise from one leader to the next; the same leader comes again when
  // its value changed.
  Status Observe(const std::string& resource, const std::string& namespace_name,
                 const std::function<bool(const LeaderInfo&)>& on_leader,
                 const std::stop_token& stop = {});

  // Campaigns in the background and runs `work` whenever elected; see candidate.h.
  std::unique_ptr<Candidate> Lead(const ElectionGoal& goal, LeaderWork work);

  // --- administration ---
  Result<NamespaceResult> CreateNamespace(const std::string& name, const Policy& policy);
  Result<NamespaceResult> SetNamespace(const std::string& name, const Policy& policy);
  Result<NamespaceResult> GetNamespace(const std::string& name);
  Result<std::vector<NamespaceResult>> ListNamespaces();
  Result<NamespaceResult> DeleteNamespace(const std::string& name);
  Result<FeatureLevelResult> SetFeatureLevel(std::uint32_t level);
  Result<ServiceStatus> GetStatus();
  // The node that answers lets another one lead; false if it does not lead.
  Result<bool> StepDown();
  // Of all namespaces that the caller may use if `namespace_name` is empty. `limit`: 0 .. 1024.
  Result<HotResources> ListHotResources(const std::string& namespace_name, std::uint32_t limit);

 private:
  class Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast::client
