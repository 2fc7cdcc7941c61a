#include "sim/cluster.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "core/hash.h"
#include "sim/node.h"

namespace holdfast::sim {
namespace {

constexpr std::uint64_t kBehindAtMost = 10;  // entries, of a node that follows

}  // namespace

using engine::EngineInput;
using engine::Reply;
using engine::Role;
using engine::Route;

core::Command AcquireOf(std::string resource, std::string id, Duration ttl) {
  core::Acquire acquire;
  acquire.resource = std::move(resource);
  acquire.request_id = std::move(id);
  acquire.ttl = ttl;
  return core::Command{"p", "default", acquire};
}

Cluster::Cluster(std::uint64_t seed, int nodes, const Nastiness& nastiness)
    : Site(seed), nastiness_(nastiness) {
  options.prefix = "/t";
  for (int i = 0; i < nodes; ++i) {
    nodes_.push_back(std::make_unique<Node>(*this, i));
  }
}

Cluster::~Cluster() = default;

engine::Member& Cluster::member(int node) {
  return *At(node).member;
}

bool Cluster::IsUp(int node) const {
  return At(node).up();
}

int Cluster::LifeOf(int node) const {
  return At(node).life;
}

int Cluster::Leader() const {
  int leader = -1;
  std::uint64_t epoch = 0;
  for (const auto& node : nodes_) {
    if (node->up() && node->member->role() == Role::kLeading && node->paused_until <= now() &&
        node->member->Look().epoch >= epoch) {
      epoch = node->member->Look().epoch;
      leader = node->number;
    }
  }
  return leader;
}

void Cluster::Start(int number) {
  Node& node = At(number);
  engine::MemberOptions own = options;
  own.name = node.Address();
  own.address = node.Address();
  own.client_address = node.Address();
  own.zone = "zone" + std::to_string(number);
  own.incarnation = static_cast<std::uint64_t>(++node.life);
  node.StartProcess(own);
  Deliver(node, [](Node&) {});  // its machine may be paused
}

void Cluster::Kill(int node) {
  At(node).EndProcess();
  At(node).files->CrashProcess();
}

void Cluster::CutPower(int node) {
  At(node).EndProcess();
  At(node).files->CrashPower(dice_.Next(), storage::FateOdds{.garbled = 0});
}

storage::SimulatedFileSystem& Cluster::disk(int node) {
  return *At(node).files;
}

void Cluster::LoseDisk(int node) {
  At(node).files = std::make_unique<storage::SimulatedFileSystem>();
}

void Cluster::BeginAnotherLog(bool from_its_beginning) {
  slots_.clear();
  traces_.clear();
  checker_.reset();
  if (from_its_beginning) {
    checker_.emplace();
  }
}

void Cluster::Pause(int node, Duration duration) {
  At(node).paused_until = now() + duration;
}

bool Cluster::IsPaused(int node) const {
  return At(node).paused_until > now();
}

void Cluster::CutOff(int node, Duration duration) {
  At(node).cut_off_until = now() + duration;
}

void Cluster::CutPeers(int node, Duration duration) {
  At(node).peers_cut_until = now() + duration;
}

void Cluster::StopEtcd(Duration duration) {
  etcd_down_until_ = now() + duration;
}

void Cluster::SetClock(int node, const ClockFault& fault) {
  At(node).clocks.Set(now(), fault);
}

void Cluster::Deliver(Node& node, std::function<void(Node&)> input) {
  const int life = node.life;
  scheduler_.At(node.paused_until, [this, &node, life, input = std::move(input)] {
    if (node.life != life || !node.up()) {
      return;
    }
    if (node.paused_until > now()) {
      Deliver(node, input);
      return;
    }
    input(node);
    Turn(node);
  });
}

// After every input of a node, and when it wants to be woken.
void Cluster::Turn(Node& node) {
  if (!node.up() || node.paused_until > now()) {
    return;
  }
  node.Turn();
  const BootTime wake = std::max(node.clocks.TrueTime(node.member->NextWake()), now() + Millis(1));
  if (node.turn_at <= now() || wake < node.turn_at) {
    node.turn_at = wake;
    const int life = node.life;
    scheduler_.At(wake, [this, &node, life, wake] {
      if (node.life == life && node.turn_at == wake) {
        Deliver(node, [](Node&) {});
      }
    });
  }
}

void Cluster::Execute(const etcd::Txn& txn, const std::function<void(etcd::TxnResult)>& reply) {
  etcd::TxnResult result = store_.Run(txn);
  scheduler_.Note(static_cast<std::uint64_t>(result.revision) * 2 + (result.succeeded ? 1 : 0));
  bool wrote = false;
  if (result.succeeded) {
    for (const etcd::Operation& operation : txn.then) {
      wrote = wrote || !std::holds_alternative<etcd::Get>(operation);
      const auto* put = std::get_if<etcd::Put>(&operation);
      if (put != nullptr && put->key.starts_with("/t/log/")) {
        scheduler_.Note(put->value);
        if (!slots_.insert(put->key).second) {
          Violated("a slot was written twice: " + put->key);
        }
      }
    }
  }
  reply(std::move(result));
  if (wrote) {
    for (const auto& node : nodes_) {
      scheduler_.In(Delay(), [this, &node = *node] { PushChanges(node); });
    }
  }
}

// The caller hears once: what became of it, or that its time is over.
void Cluster::Send(Node& node, engine::CallId id, const etcd::Txn& txn, Duration timeout) {
  const auto answered = std::make_shared<bool>(false);
  const auto answer = [this, &node, id, answered, life = node.life](etcd::Answer&& given) {
    if (!std::exchange(*answered, true) && node.life == life) {
      Deliver(node, [id, given = std::move(given)](Node& to) { to.member->OnAnswer(id, given); });
    }
  };
  const auto unknown = [answer] {
    answer(etcd::Failure{etcd::Certainty::kUnknown,
                         Error{ErrorCode::kDeadlineExceeded, "no answer", {}, {}}});
  };
  scheduler_.In(timeout, unknown);
  if (etcd_damaged_) {
    scheduler_.In(Delay(), [answer] {
      answer(etcd::Failure{etcd::Certainty::kFatal,
                           Error{ErrorCode::kCorrupt, "corrupt cluster", {}, {}}});
    });
    return;
  }
  if (now() < node.cut_off_until) {
    return;
  }
  if (dice_.PerThousand(nastiness_.lost_requests)) {
    Count("etcd request lost");
    return;
  }
  if (dice_.PerThousand(nastiness_.late_requests)) {
    Count("etcd request late");
    scheduler_.In(timeout + Delay() * 20, [this, txn] { Execute(txn, [](etcd::TxnResult) {}); });
    return;
  }
  const bool lost = dice_.PerThousand(nastiness_.lost_replies);
  const bool full = !lost && dice_.PerThousand(nastiness_.no_space);
  WhenEtcdIsUp(now() + Delay(), [this, &node, txn, answer, unknown, lost, full, life = node.life] {
    Execute(txn, [&](etcd::TxnResult result) {
      if (full) {
        Count("etcd says no space");
        unknown();
      } else if (lost || now() < node.cut_off_until) {
        Count("etcd reply lost");
      } else if (node.life == life) {
        scheduler_.In(Delay(),
                      [answer, result = std::move(result)] { answer(etcd::Answer(result)); });
      }
    });
  });
}

void Cluster::WhenEtcdIsUp(BootTime at, const std::function<void()>& run) {
  scheduler_.At(at, [this, run] {
    if (now() < etcd_down_until_) {
      WhenEtcdIsUp(etcd_down_until_, run);
    } else {
      run();
    }
  });
}

void Cluster::PushChanges(Node& node) {
  if (node.watch == 0 || !node.up() || now() < node.cut_off_until || now() < etcd_down_until_) {
    return;
  }
  const engine::EtcdWatchId id = node.watch;
  etcd::WatchChanges changes;
  const bool there = store_.ChangesSince(node.watch_from, "/t/", changes);
  if (there && changes.changes.empty()) {
    return;
  }
  if (!there || dice_.PerThousand(nastiness_.watch_ends)) {
    Count(there ? "watch ended" : "watch behind a compaction");
    node.watch = 0;
    Deliver(node, [id](Node& to) {
      to.member->OnNews(id, etcd::WatchEnd{Error{ErrorCode::kUnavailable, "gone", {}, {}}});
    });
    return;
  }
  if (dice_.PerThousand(nastiness_.watch_repeats)) {
    Count("watch repeats");
  } else {
    node.watch_from = changes.revision + 1;
  }
  if (loses) {
    std::erase_if(changes.changes, loses);
  }
  if (!changes.changes.empty() && dice_.PerThousand(nastiness_.watch_loses)) {
    Count("watch loses");
    changes.changes.erase(changes.changes.begin() +
                          static_cast<std::ptrdiff_t>(dice_.Below(changes.changes.size())));
  }
  Deliver(node, [id, changes](Node& to) { to.member->OnNews(id, changes); });
}

void Cluster::Applied(const core::Batch& batch, const core::Applied& applied,
                      const core::Machine& machine) {
  const auto [known, added] = traces_.emplace(batch.index, machine.trace());
  if (!added) {
    if (known->second != machine.trace()) {
      Violated(fmt::format("I10: two nodes differ after entry {}", batch.index));
    }
    return;
  }
  if (known != std::prev(traces_.end())) {
    Violated(fmt::format("a batch appeared in the past, at entry {}", batch.index));
  }
  Observe(batch, applied, machine);
}

std::string Cluster::WhyBehind(int node) {
  if (!IsUp(node)) {
    return "a node is down";
  }
  if (member(node).role() == Role::kFailed) {
    return "a node failed: " + member(node).error().message;
  }
  if (member(node).machine().index() + kBehindAtMost < applied()) {
    return fmt::format("a node does not follow, it is {} at {} of {}",
                       engine::RoleName(member(node).role()), member(node).machine().index(),
                       applied());
  }
  return {};
}

bool Cluster::ProposeAny(std::uint64_t tag, EngineRequest request) {
  for (const auto& node : nodes_) {  // also at one that does not know yet that it is deposed
    if (node->up() && node->member->RouteOf() == Route::kHere && node->paused_until <= now()) {
      node->member->Accept(
          {EngineInput::Kind::kPropose, kTestFront, engine::Proposal{tag, std::move(request)}});
      Turn(*node);
      return true;
    }
  }
  return false;
}

bool Cluster::Propose(std::uint64_t tag, core::Command command) {
  return ProposeAny(tag, std::move(command));
}

bool Cluster::Ask(std::uint64_t tag, core::Query query) {
  return ProposeAny(tag, std::move(query));
}

std::optional<Reply> Cluster::TakeReply(std::uint64_t tag) {
  const auto found = replies_.find(tag);
  if (found == replies_.end()) {
    return std::nullopt;
  }
  std::optional<Reply> reply = std::move(found->second);
  replies_.erase(found);
  return reply;
}

std::uint64_t Cluster::Serve(int number, EngineRequest request, OnReply reply) {
  Node& node = At(number);
  const std::uint64_t tag = ++served_;
  node.open.emplace(tag, std::move(reply));
  node.router->Take(
      {EngineInput::Kind::kPropose, kClientFront, engine::Proposal{tag, std::move(request)}}, false,
      node.output);
  Turn(node);
  return tag;
}

void Cluster::Abandon(int number, std::uint64_t tag) {
  Node& node = At(number);
  if (node.up() && node.open.erase(tag) > 0) {
    node.router->Take({EngineInput::Kind::kAbandon, kClientFront, engine::Proposal{tag, {}}}, false,
                      node.output);
    Turn(node);
  }
}

}  // namespace holdfast::sim
