#include "tests/cluster/test_cluster.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

namespace holdfast::engine {

core::Command AcquireOf(std::string resource, std::string id, Duration ttl) {
  core::Acquire acquire;
  acquire.resource = std::move(resource);
  acquire.request_id = std::move(id);
  acquire.ttl = ttl;
  return core::Command{"p", "default", acquire};
}

struct TestCluster::Node : MemberHost, Clock {
  Node(TestCluster& cluster_in, int number_in) : cluster(cluster_in), number(number_in) {}

  BootTime Boot() override { return cluster.now_; }
  WallTime Wall() override {
    return WallTime(Seconds(1'000'000) + cluster.now_.time_since_epoch());
  }

  void Send(CallId id, const etcd::Txn& txn, Duration timeout) override {
    cluster.Send(*this, id, txn, timeout);
  }
  void Watch(EtcdWatchId id, etcd::Revision revision) override {
    watch = id;
    watch_from = revision;
    cluster.At(cluster.now_ + cluster.Delay(), [this] { cluster.PushChanges(*this); });
  }
  void StopWatch() override { watch = 0; }
  void OnApplied(const core::Batch& batch, const core::Applied& applied,
                 std::vector<core::Event>& /*events*/) override {
    cluster.Applied(batch, applied, member->machine());
  }
  void OnRole(Role /*role*/) override {}
  void SaveSnapshot(const journal::SnapshotHeader& header, const core::Machine& machine) override {
    std::string bytes;
    machine.Save([&](std::string_view piece) { bytes += piece; });
    cluster.At(cluster.now_ + Millis(50), [this, header, bytes, life_then = life] {
      if (life == life_then) {
        snapshot = {header, bytes};
        cluster.Deliver(*this,
                        [header](Node& node) { node.member->OnSnapshotSaved(header, true); });
      }
    });
  }
  void CheckStore() override {
    cluster.At(cluster.now_ + cluster.Delay(), [this] {
      cluster.Deliver(*this, [this](Node& node) {
        etcd::EndpointHealth health;
        health.answers = true;
        health.db_bytes = cluster.store_bytes;
        node.member->OnStoreHealth({health});
      });
    });
  }
  void FetchSnapshot(std::uint64_t index, const std::vector<std::string>& addresses) override {
    cluster.At(cluster.now_ + Millis(100), [this, index, addresses] {
      const Node* best = nullptr;
      for (const auto& other : cluster.nodes_) {
        const bool asked =
            std::find(addresses.begin(), addresses.end(), other->Address()) != addresses.end();
        if (asked && other->member != nullptr && other->snapshot.header.index >= index) {
          best = other.get();
        }
      }
      if (best == nullptr) {
        cluster.Deliver(*this, [](Node& node) { node.member->OnSnapshotFailed(); });
        return;
      }
      snapshot = best->snapshot;
      cluster.Deliver(*this, [](Node& node) {
        node.member->OnSnapshotInstalled(node.snapshot.header,
                                         std::move(*core::Machine::Load(node.snapshot.payload)));
      });
    });
  }
  std::string Address() const { return "node" + std::to_string(number); }

  TestCluster& cluster;
  const int number;
  std::unique_ptr<Member> member;
  int life = 0;  // messages to an earlier one are lost
  BootTime paused_until{};
  BootTime cut_off_until{};
  BootTime turn_at{};
  EtcdWatchId watch = 0;
  etcd::Revision watch_from = 0;
  journal::Snapshot snapshot;
  Id128 log_id{};
};

TestCluster::TestCluster(std::uint64_t seed, int nodes, const Nastiness& nastiness)
    : random_(seed), nastiness_(nastiness) {
  options.prefix = "/t";
  for (int i = 0; i < nodes; ++i) {
    nodes_.push_back(std::make_unique<Node>(*this, i));
  }
}

TestCluster::~TestCluster() = default;

Member& TestCluster::member(int node) {
  return *nodes_[static_cast<std::size_t>(node)]->member;
}

bool TestCluster::IsUp(int node) const {
  return nodes_[static_cast<std::size_t>(node)]->member != nullptr;
}

int TestCluster::Leader() const {
  int leader = -1;
  std::uint64_t epoch = 0;
  for (const auto& node : nodes_) {
    if (node->member != nullptr && node->member->role() == Role::kLeading &&
        node->paused_until <= now_ && node->member->Look().epoch >= epoch) {
      epoch = node->member->Look().epoch;
      leader = node->number;
    }
  }
  return leader;
}

void TestCluster::Start(int number) {
  Node& node = *nodes_[static_cast<std::size_t>(number)];
  MemberOptions own = options;
  own.name = node.Address();
  own.address = node.Address();
  own.zone = "zone" + std::to_string(number);
  own.incarnation = static_cast<std::uint64_t>(++node.life);
  auto machine = std::make_unique<core::Machine>();
  if (node.snapshot.header.index > 0) {
    machine = std::move(*core::Machine::Load(node.snapshot.payload));
  }
  node.member = std::make_unique<Member>(node, node, own, std::move(machine), node.snapshot.header,
                                         node.log_id);
  Turn(node);
}

void TestCluster::Kill(int number) {
  Node& node = *nodes_[static_cast<std::size_t>(number)];
  node.log_id = node.member->log_id();
  node.member.reset();
  node.watch = 0;
  ++node.life;
}

journal::Snapshot& TestCluster::disk(int node) {
  return nodes_[static_cast<std::size_t>(node)]->snapshot;
}

void TestCluster::LoseDisk(int node) {
  disk(node) = {};
  nodes_[static_cast<std::size_t>(node)]->log_id = {};
}

void TestCluster::AdoptLog(int node, const Id128& log_id) {
  nodes_[static_cast<std::size_t>(node)]->log_id = log_id;
}

void TestCluster::BeginAnotherLog(bool from_its_beginning) {
  slots_.clear();
  traces_.clear();
  checker_.reset();
  if (from_its_beginning) {
    checker_.emplace();
  }
}

void TestCluster::Pause(int node, Duration duration) {
  nodes_[static_cast<std::size_t>(node)]->paused_until = now_ + duration;
}

void TestCluster::CutOff(int node, Duration duration) {
  nodes_[static_cast<std::size_t>(node)]->cut_off_until = now_ + duration;
}

void TestCluster::StopEtcd(Duration duration) {
  etcd_down_until_ = now_ + duration;
}

void TestCluster::At(BootTime at, std::function<void()> run) {
  events_.push({at, order_++, std::move(run)});
}

bool TestCluster::Step(BootTime until) {
  if (events_.empty() || events_.top().at > until) {
    now_ = until;
    return false;
  }
  const Event event = events_.top();
  events_.pop();
  now_ = std::max(now_, event.at);
  event.run();
  return true;
}

void TestCluster::RunFor(Duration duration) {
  const BootTime until = now_ + duration;
  while (Step(until)) {
  }
}

bool TestCluster::RunUntil(const std::function<bool()>& condition, Duration at_most) {
  const BootTime until = now_ + at_most;
  while (!condition()) {
    if (!Step(until)) {
      return condition();
    }
  }
  return true;
}

bool TestCluster::Chance(int per_thousand) {
  return static_cast<int>(random_() % 1000) < per_thousand;
}

Duration TestCluster::Delay() {
  const auto most = static_cast<std::uint64_t>(nastiness_.delay_max.count());
  return Duration(static_cast<std::int64_t>(random_() % (most + 1)));
}

void TestCluster::Deliver(Node& node, std::function<void(Node&)> input) {
  const int life = node.life;
  At(std::max(now_, node.paused_until), [this, &node, life, input = std::move(input)] {
    if (node.life != life || node.member == nullptr) {
      return;
    }
    if (node.paused_until > now_) {
      Deliver(node, input);
      return;
    }
    input(node);
    Turn(node);
  });
}

// After every input of a node, and when it wants to be woken.
void TestCluster::Turn(Node& node) {
  if (node.member == nullptr || node.paused_until > now_) {
    return;
  }
  node.member->Advance();
  for (auto& [front, reply] : node.member->TakeOutput().replies) {
    replies_.insert_or_assign(reply.tag, std::move(reply));
  }
  const BootTime wake = std::max(node.member->NextWake(), now_ + Millis(1));
  if (node.turn_at <= now_ || wake < node.turn_at) {
    node.turn_at = wake;
    const int life = node.life;
    At(wake, [this, &node, life, wake] {
      if (node.life == life && node.turn_at == wake) {
        Deliver(node, [](Node&) {});
      }
    });
  }
}

void TestCluster::Execute(const etcd::Txn& txn, const std::function<void(etcd::TxnResult)>& reply) {
  etcd::TxnResult result = store_.Run(txn);
  if (result.succeeded) {
    for (const etcd::Operation& operation : txn.then) {
      const auto* put = std::get_if<etcd::Put>(&operation);
      if (put != nullptr && put->key.starts_with("/t/log/") && !slots_.insert(put->key).second) {
        Violated("a slot was written twice: " + put->key);
      }
    }
  }
  reply(std::move(result));
  for (const auto& node : nodes_) {
    At(now_ + Delay(), [this, &node = *node] { PushChanges(node); });
  }
}

// The caller hears once: what became of it, or that its time is over.
void TestCluster::Send(Node& node, CallId id, const etcd::Txn& txn, Duration timeout) {
  const auto answered = std::make_shared<bool>(false);
  const auto answer = [this, &node, id, answered](etcd::Answer&& given) {
    if (!std::exchange(*answered, true)) {
      Deliver(node, [id, given = std::move(given)](Node& to) { to.member->OnAnswer(id, given); });
    }
  };
  const auto unknown = [answer] {
    answer(etcd::Failure{etcd::Certainty::kUnknown,
                         Error{ErrorCode::kDeadlineExceeded, "no answer", {}, {}}});
  };
  At(now_ + timeout, unknown);
  if (etcd_damaged_) {
    At(now_ + Delay(), [answer] {
      answer(etcd::Failure{etcd::Certainty::kFatal,
                           Error{ErrorCode::kCorrupt, "corrupt cluster", {}, {}}});
    });
    return;
  }
  if (now_ < node.cut_off_until || Chance(nastiness_.lost_requests)) {
    return;
  }
  if (Chance(nastiness_.late_requests)) {
    At(now_ + timeout + Delay() * 20, [this, txn] { Execute(txn, [](etcd::TxnResult) {}); });
    return;
  }
  const bool lost = Chance(nastiness_.lost_replies);
  const bool full = !lost && Chance(nastiness_.no_space);
  WhenEtcdIsUp(now_ + Delay(), [this, &node, txn, answer, unknown, lost, full, life = node.life] {
    Execute(txn, [&](etcd::TxnResult result) {
      if (full) {
        unknown();
      } else if (!lost && now_ >= node.cut_off_until && node.life == life) {
        At(now_ + Delay(), [answer, result = std::move(result)] { answer(etcd::Answer(result)); });
      }
    });
  });
}

void TestCluster::WhenEtcdIsUp(BootTime at, const std::function<void()>& run) {
  At(at, [this, run] {
    if (now_ < etcd_down_until_) {
      WhenEtcdIsUp(etcd_down_until_, run);
    } else {
      run();
    }
  });
}

void TestCluster::PushChanges(Node& node) {
  if (node.watch == 0 || node.member == nullptr || now_ < node.cut_off_until ||
      now_ < etcd_down_until_) {
    return;
  }
  const EtcdWatchId id = node.watch;
  etcd::WatchChanges changes;
  const bool there = store_.ChangesSince(node.watch_from, "/t/", changes);
  if (!there || Chance(nastiness_.watch_ends)) {
    node.watch = 0;
    Deliver(node, [id](Node& to) {
      to.member->OnNews(id, etcd::WatchEnd{Error{ErrorCode::kUnavailable, "gone", {}, {}}});
    });
    return;
  }
  if (changes.changes.empty()) {
    return;
  }
  if (!Chance(nastiness_.watch_repeats)) {
    node.watch_from = changes.revision + 1;
  }
  if (Chance(nastiness_.watch_loses)) {
    changes.changes.erase(changes.changes.begin() +
                          static_cast<std::ptrdiff_t>(random_() % changes.changes.size()));
  }
  Deliver(node, [id, changes](Node& to) { to.member->OnNews(id, changes); });
}

void TestCluster::Applied(const core::Batch& batch, const core::Applied& applied,
                          const core::Machine& machine) {
  const auto [known, added] = traces_.emplace(batch.index, machine.trace());
  if (!added) {
    if (known->second != machine.trace()) {
      Violated(fmt::format("two nodes differ after entry {}", batch.index));
    }
    return;
  }
  if (known != std::prev(traces_.end())) {
    Violated(fmt::format("a batch appeared in the past, at entry {}", batch.index));
  }
  if (checker_.has_value()) {
    if (const std::string rule = checker_->Observe(batch, applied, machine.HasBacklog());
        !rule.empty()) {
      Violated(rule);
    }
  }
}

void TestCluster::Violated(const std::string& rule) {
  if (violation_.empty()) {
    violation_ = rule;
  }
}

bool TestCluster::Propose(std::uint64_t tag, core::Command command) {
  for (const auto& node : nodes_) {  // also at one that does not know yet that it is deposed
    if (node->member != nullptr && node->member->RouteOf() == Route::kHere &&
        node->paused_until <= now_) {
      node->member->Accept({EngineInput::Kind::kPropose, 1, Proposal{tag, std::move(command)}});
      Turn(*node);
      return true;
    }
  }
  return false;
}

bool TestCluster::Ask(std::uint64_t tag, core::Query query) {
  const int leader = Leader();
  if (leader < 0 || member(leader).RouteOf() != Route::kHere) {
    return false;
  }
  member(leader).Accept({EngineInput::Kind::kPropose, 1, Proposal{tag, std::move(query)}});
  Turn(*nodes_[static_cast<std::size_t>(leader)]);
  return true;
}

std::optional<Reply> TestCluster::TakeReply(std::uint64_t tag) {
  const auto found = replies_.find(tag);
  if (found == replies_.end()) {
    return std::nullopt;
  }
  std::optional<Reply> reply = std::move(found->second);
  replies_.erase(found);
  return reply;
}

}  // namespace holdfast::engine
