#include "cli/demo.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <future>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <sys/types.h>

#include "base/id.h"
#include "cli/program_path.h"
#include "cli/service.h"

namespace holdfast::cli {
namespace {

constexpr const char* kOrder = "orders/7";
constexpr const char* kInvoice = "invoices/3";
constexpr Duration kLeaseOfA = Seconds(3);
// Long enough for a restart of the server on a slow disk.
constexpr Duration kLeaseOfB = Seconds(30);
constexpr Duration kPatience = Seconds(10);
constexpr auto kPollInterval = std::chrono::milliseconds(10);

std::string Problem(const Error& error) {
  return fmt::format("{}: {}", ErrorCodeName(error.code), error.message);
}

Error Failed(const std::string& what) {
  return Error{ErrorCode::kInternal, what, "", ""};
}

}  // namespace

bool ProtectedStore::Write(std::uint64_t token, const std::string& value) {
  if (token < highest_) {
    return false;
  }
  highest_ = token;
  value_ = value;
  return true;
}

DemoServer::DemoServer(bench::ScratchDirectory directory, int port)
    : directory_(std::move(directory)), address_(fmt::format("127.0.0.1:{}", port)) {}

Result<std::unique_ptr<DemoServer>> DemoServer::Start() {
  const auto port = bench::FreePort();
  if (!port.ok()) {
    return port.error();
  }
  std::error_code ignored;
  const auto temporary = std::filesystem::temp_directory_path(ignored);
  auto directory = bench::ScratchDirectory::Create(temporary.empty() ? "/tmp" : temporary.string());
  if (!directory.ok()) {
    return directory.error();
  }
  std::unique_ptr<DemoServer> server(new DemoServer(std::move(*directory), *port));
  const Status started = server->Restart();
  if (!started.ok()) {
    return started.error();
  }
  return server;
}

Status DemoServer::Restart() {
  Connection connection;
  connection.endpoints = {address_};
  connection.timeout = Millis(500);
  auto client = Connect(connection);
  if (!client.ok()) {
    return client.error();
  }
  bench::LocalServer::Options options{
      .name = "the demonstration's server",
      .command = {ProgramPath(), "server", "--data-dir", directory_.path() + "/data", "--listen",
                  address_, "--set", "segment_bytes=1MiB"},
      .log_file = directory_.path() + "/server.log",
      .ready = [&client] { return (*client)->GetStatus().ok(); }};
  auto process = bench::LocalServer::Start(std::move(options));
  if (!process.ok()) {
    return process.error();
  }
  process_.emplace(std::move(*process));
  return {};
}

void DemoServer::Kill() {
  kill(process_->pid(), SIGKILL);
  process_.reset();
}

Demo::Demo(Connection connection, DemoServer* server, DemoReport& report)
    : connection_(std::move(connection)), server_(server), report_(report) {
  connection_.name_space = "demo-" + ToHex(RandomId()).substr(0, 8);
}

Demo::~Demo() = default;

Status Demo::Run() {
  Status status = Connect();
  if (status.ok()) {
    status = MakeNamespace();
  }
  if (!status.ok()) {
    return status;
  }
  if (PausedHolderIsFenced() && LostReplyIsAskedForAgain() && KilledServerForgetsNothing() &&
      EveryoneLetsGo() && server_ == nullptr) {
    DeleteNamespace();
  }
  return {};
}

Status Demo::Connect() {
  for (auto* client : {&admin_, &a_, &b_}) {
    auto connected = cli::Connect(connection_);
    if (!connected.ok()) {
      return connected.error();
    }
    *client = std::move(*connected);
  }
  auto proxy = LossyProxy::Start(connection_.endpoints.front());
  if (!proxy.ok()) {
    return proxy.error();
  }
  proxy_ = std::move(*proxy);
  Connection through_proxy = connection_;
  through_proxy.endpoints = {proxy_->address()};
  auto connected = cli::Connect(through_proxy);
  if (!connected.ok()) {
    return connected.error();
  }
  c_ = std::move(*connected);
  return {};
}

Status Demo::MakeNamespace() {
  client::Policy policy;
  policy.protection = client::Guarantee::kFenced;
  const auto made = admin_->CreateNamespace(connection_.name_space, policy);
  if (!made.ok()) {
    return made.error();
  }
  if (made->outcome != client::NamespaceOutcome::kOk) {
    return Failed(fmt::format("cannot create the namespace {}: {}", connection_.name_space,
                              Name(made->outcome)));
  }
  report_.Note("server", fmt::format("listens on {}; made the fenced namespace {}",
                                     connection_.endpoints.front(), connection_.name_space));
  return {};
}

client::AcquireRequest Demo::Request(const std::string& resource, const std::string& owner,
                                     Duration ttl) const {
  client::AcquireRequest request;
  request.resource = resource;
  request.request_id = client::NewRequestId();
  request.owner = owner;
  request.ttl = ttl;
  return request;
}

bool Demo::Granted(const Lease& lease, const std::string& actor, const std::string& what) {
  if (!lease.ok()) {
    return report_.Check(false, actor, fmt::format("{}: {}", what, Problem(lease.error())));
  }
  if (const client::Refusal* refusal = lease->refused()) {
    return report_.Check(false, actor, fmt::format("{}: {}", what, Name(refusal->code)));
  }
  return report_.Check(true, actor, fmt::format("{} {}", what, lease->granted()->fencing_token));
}

bool Demo::HeldWith(const std::string& resource, const client::Grant& grant) {
  const auto found = admin_->Describe(resource);
  return found.ok() && found->holder.has_value() &&
         found->holder->fencing_token == grant.fencing_token &&
         found->holder->lease_fp == grant.lease_fp;
}

bool Demo::WaitUntil(Duration limit, const std::function<bool()>& condition) const {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) {
      return false;
    }
    std::this_thread::sleep_for(kPollInterval);
  }
  return true;
}

bool Demo::PausedHolderIsFenced() {
  report_.Scene("A holder that pauses for too long is fenced off");
  const auto asked_at = std::chrono::steady_clock::now();
  const Lease a = a_->Acquire(Request(kOrder, "A", kLeaseOfA));
  if (!Granted(a, "A", fmt::format("takes {} for {}: token", kOrder, ShowDuration(kLeaseOfA)))) {
    return false;
  }
  const client::Grant& old = *a->granted();
  report_.Check(old.guarantee == client::Guarantee::kFenced, "A",
                "is told that the grant is FENCED");
  report_.Check(store_.Write(old.fencing_token, "packed by A"), "store",
                fmt::format("accepts a write with token {}", old.fencing_token));

  client::LockGoal goal;
  goal.acquire = Request(kOrder, "B", kLeaseOfB);
  goal.acquire.wait = kPatience;
  b_lock_ = b_->Lock(goal);
  const bool queued = WaitUntil(kPatience, [&] {
    const auto seen = admin_->Describe(kOrder);
    return seen.ok() && seen->queue_length == 1;
  });
  report_.Check(queued, "B", "waits in the queue");
  report_.Note("A", "stops renewing and sleeps, as in a long garbage collection");

  const client::LockUpdate b = b_lock_->WaitUntilAcquired();
  const auto waited = std::chrono::steady_clock::now() - asked_at;
  if (!report_.Check(b.state == client::LockState::kHeld, "B",
                     b.grant.has_value()
                         ? fmt::format("is granted the lock: token {}", b.grant->fencing_token)
                         : "is granted the lock")) {
    return false;
  }
  report_.Check(
      waited >= kLeaseOfA, "B",
      fmt::format("had to wait until A's lease was over: {} after A asked", ShowDuration(waited)));
  report_.Check(
      b.grant->fencing_token > old.fencing_token, "B",
      fmt::format("its token is higher: {} > {}", b.grant->fencing_token, old.fencing_token));
  report_.Check(store_.Write(b.grant->fencing_token, "shipped by B"), "store",
                fmt::format("accepts B's write with token {}", b.grant->fencing_token));
  return OldHolderWakesUp(*a);
}

bool Demo::OldHolderWakesUp(const client::AcquireResult& old) {
  const client::Grant& grant = *old.granted();
  report_.Note("A", "wakes up and goes on as if nothing had happened");
  report_.Check(!store_.Write(grant.fencing_token, "packed by A, again"), "store",
                fmt::format("refuses A's write with token {}: it has seen {}", grant.fencing_token,
                            store_.highest()));
  report_.Check(store_.value() == "shipped by B", "store", "still says: shipped by B");
  const auto renewed =
      a_->Renew({.namespace_name = {}, .resource = kOrder, .lease_id = grant.lease_id});
  report_.Check(renewed.ok() && renewed->not_renewed() != nullptr, "A",
                renewed.ok() && renewed->not_renewed() != nullptr
                    ? fmt::format("cannot renew: {}", Name(renewed->not_renewed()->cause))
                    : "cannot renew");
  const auto released =
      a_->Release({.namespace_name = {}, .resource = kOrder, .lease_id = grant.lease_id});
  report_.Check(released.ok() && !released->released, "A", "its release changes nothing");
  return report_.Check(HeldWith(kOrder, *b_lock_->Current().grant), "B", "still holds the lock");
}

bool Demo::LostReplyIsAskedForAgain() {
  report_.Scene("A lost reply is asked for again, and nothing happens twice");
  if (connection_.tls || !connection_.ca.empty() || !connection_.cert.empty()) {
    report_.Note("C", "left out: replies are lost by a proxy, which certificates do not name");
    return true;
  }
  const auto before = c_->GetStatus();
  c_request_ = Request(kInvoice, "C", Seconds(30));
  proxy_->LoseReplies();
  auto answer = std::async(std::launch::async, [&] { return c_->Acquire(*c_request_); });
  client::Holder holder;
  const bool arrived = WaitUntil(kPatience, [&] {
    const auto seen = admin_->Describe(kInvoice);
    if (seen.ok() && seen->holder.has_value()) {
      holder = *seen->holder;
    }
    return holder.fencing_token != 0;
  });
  report_.Check(arrived, "C",
                fmt::format("asks for {}: the server grants token {}, the reply is lost", kInvoice,
                            holder.fencing_token));
  proxy_->CutAndHeal();
  report_.Note("C", "its connection breaks; it asks again with the same request id");
  const Lease retried = answer.get();
  if (!Granted(retried, "C", "gets an answer: token")) {
    return false;
  }
  c_grant_ = *retried->granted();
  report_.Check(
      c_grant_->fencing_token == holder.fencing_token && c_grant_->lease_fp == holder.lease_fp, "C",
      fmt::format("it is the same lease, {}", holder.lease_fp));
  const auto after = admin_->GetStatus();
  if (server_ != nullptr) {  // elsewhere others are granted tokens too
    report_.Check(before.ok() && after.ok() && after->fencing_token == before->fencing_token + 1,
                  "server", "one request, one grant: the token counter rose by one");
  }
  client::AcquireRequest other = *c_request_;
  other.resource = "invoices/4";
  const Lease reused = a_->Acquire(other);
  const bool refused = reused.ok() && reused->refused() != nullptr &&
                       reused->refused()->code == client::RefusalCode::kRequestIdReused;
  return report_.Check(refused, "server", "the same request id for another lock is refused");
}

bool Demo::KilledServerForgetsNothing() {
  if (server_ == nullptr) {
    report_.Scene("The server is not this demonstration's own, so it is not killed");
    return true;
  }
  report_.Scene("The server is killed with kill -9 and started again");
  const client::LockUpdate held = b_lock_->Current();
  server_->Kill();
  report_.Note("server", "is killed");
  report_.Check(b_lock_->EnsureHeld(), "B", "may go on working: its lease is still good");
  const Status restarted = server_->Restart();
  if (!report_.Check(restarted.ok(), "server",
                     restarted.ok() ? "is back, from its journal" : Problem(restarted.error()))) {
    return false;
  }
  report_.Check(HeldWith(kOrder, *held.grant), "B",
                fmt::format("still holds {} with token {}", kOrder, held.grant->fencing_token));
  const auto renewed =
      b_->Renew({.namespace_name = {}, .resource = kOrder, .lease_id = held.grant->lease_id});
  report_.Check(renewed.ok() && renewed->renewed() != nullptr && b_lock_->EnsureHeld(), "B",
                "renews its lease");
  const Lease again = c_->Acquire(*c_request_);
  report_.Check(
      again.ok() && again->granted() != nullptr && again->granted()->lease_id == c_grant_->lease_id,
      "C", "asks once more with its old request id: still the same lease");
  const Lease fresh = a_->Acquire(Request("orders/8", "A", kLeaseOfA));
  if (!Granted(fresh, "A", "takes orders/8: token")) {
    return false;
  }
  return report_.Check(fresh->granted()->fencing_token > c_grant_->fencing_token, "server",
                       "tokens go on rising");
}

bool Demo::EveryoneLetsGo() {
  report_.Scene("Ownership is handed over");
  const std::uint64_t last = b_lock_->Current().grant->fencing_token;
  b_lock_->Release();
  report_.Check(b_lock_->WaitUntilOver().state == client::LockState::kReleased, "B",
                "releases the lock");
  if (c_grant_.has_value()) {
    const auto released =
        c_->Release({.namespace_name = {}, .resource = kInvoice, .lease_id = c_grant_->lease_id});
    report_.Check(released.ok() && released->released, "C", "releases its lock");
  }
  const Lease a = a_->Acquire(Request(kOrder, "A", kLeaseOfA));
  if (!Granted(a, "A", "takes the lock again, properly: token")) {
    return false;
  }
  report_.Check(a->granted()->fencing_token > last &&
                    store_.Write(a->granted()->fencing_token, "closed by A"),
                "store", "accepts A's write, for its token is the highest now");
  const auto released =
      a_->Release({.namespace_name = {}, .resource = kOrder, .lease_id = a->granted()->lease_id});
  return report_.Check(released.ok() && released->released, "A", "releases the lock");
}

void Demo::DeleteNamespace() {
  const auto deleted = admin_->DeleteNamespace(connection_.name_space);
  const bool gone = deleted.ok() && deleted->outcome == client::NamespaceOutcome::kOk;
  report_.Note("server",
               gone ? "the namespace is deleted"
                    : "the namespace stays: holdfast namespace delete " + connection_.name_space);
}

}  // namespace holdfast::cli
