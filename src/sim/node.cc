#include "sim/node.h"

#include <algorithm>

#include "base/check.h"
#include "journal/snapshot_store.h"

namespace holdfast::sim {
namespace {

constexpr Duration kDisk = Millis(50);          // a snapshot to the disk, or over the network
constexpr Duration kBreakNoticed = Seconds(2);  // of a link on which nothing passes

Error Unreachable() {
  return Error{ErrorCode::kUnavailable, "simulated", {}, {}};
}

}  // namespace

void Node::StartProcess(const engine::MemberOptions& options) {
  auto opened = engine::NodeDirectory::Open(*files, kDataDirectory);
  if (!opened.ok()) {
    cluster.Violated("a node's directory does not open: " + opened.error().message);
    return;
  }
  directory = std::move(*opened);
  auto state = directory->Load();
  if (!state.ok()) {
    cluster.Violated("a node's directory does not load: " + state.error().message);
    return;
  }
  member = std::make_unique<engine::Member>(*this, *this, options, std::move(state->machine),
                                            state->header, directory->log_id());
  router.emplace(*member, *this);
  role_ = engine::Role::kJoining;
}

void Node::EndProcess() {
  for (const auto& [front, peer] : peer_fronts_) {
    Node& from = cluster.At(peer.from);
    cluster.scheduler_.In(cluster.Delay(), [this, &from, link = peer.link, life_then = from.life] {
      if (from.life == life_then) {
        cluster.Deliver(from, [link](Node& to) { to.router->OnBroken(link, to.output); });
      }
    });
  }
  if (link_.has_value()) {
    cluster.At(link_->to).OnLinkGone(number, link_->id);
  }
  router.reset();
  member.reset();
  directory.reset();
  output.replies.clear();
  open.clear();
  peer_fronts_.clear();
  link_.reset();
  watch = 0;
  paused_until = BootTime{};
  turn_at = BootTime{};
  ++life;
}

void Node::Turn() {
  member->Advance();
  router->Flush(output);
  engine::EngineOutput own = member->TakeOutput();
  std::move(own.replies.begin(), own.replies.end(), std::back_inserter(output.replies));
  if (IsZero(directory->log_id()) && !IsZero(member->log_id())) {
    (void)directory->SetLogId(member->log_id());
  }
  SendReplies();
}

void Node::SendReplies() {
  std::map<engine::FrontId, std::vector<engine::Reply>> to_peers;
  std::vector<std::pair<OnReply, engine::Reply>> to_clients;
  for (auto& [front, reply] : output.replies) {
    if (front == kTestFront) {
      cluster.replies_.insert_or_assign(reply.tag, std::move(reply));
    } else if (front == kClientFront) {
      if (const auto found = open.find(reply.tag); found != open.end()) {
        to_clients.emplace_back(std::move(found->second), std::move(reply));
        open.erase(found);
      }
    } else {
      to_peers[front].push_back(std::move(reply));
    }
  }
  output.replies.clear();
  for (auto& [front, replies] : to_peers) {
    const auto found = peer_fronts_.find(front);
    if (found == peer_fronts_.end()) {
      continue;
    }
    PeerFront& peer = found->second;
    Node& to = cluster.At(peer.from);
    if (cluster.now() < peers_cut_until || cluster.now() < to.peers_cut_until) {
      continue;  // the other end notices
    }
    peer.clear_at = std::max(peer.clear_at, cluster.now() + cluster.Delay());
    cluster.scheduler_.At(peer.clear_at, [this, &to, to_life = to.life, link = peer.link,
                                          frame = engine::EncodeReplies(replies)] {
      if (to.life == to_life) {
        cluster.Deliver(to,
                        [link, frame](Node& it) { it.router->OnFrame(link, frame, it.output); });
      }
    });
  }
  for (auto& [on_reply, reply] : to_clients) {
    on_reply(std::move(reply));
  }
}

void Node::Send(engine::CallId id, const etcd::Txn& txn, Duration timeout) {
  cluster.Send(*this, id, txn, timeout);
}

void Node::Watch(engine::EtcdWatchId id, etcd::Revision revision) {
  watch = id;
  watch_from = revision;
  cluster.scheduler_.In(cluster.Delay(), [this] { cluster.PushChanges(*this); });
}

void Node::OnApplied(const core::Batch& batch, const core::Applied& applied,
                     std::vector<core::Event>& /*events*/) {
  cluster.Applied(batch, applied, member->machine());
}

void Node::OnRole(engine::Role role) {
  if (role_ == engine::Role::kLeading && role == engine::Role::kJoining) {
    cluster.Count("leader deposed");
  }
  if (role == engine::Role::kLeading) {
    cluster.Count("leadership begun");
  }
  role_ = role;
}

void Node::SaveSnapshot(const journal::SnapshotHeader& header, const core::Machine& machine) {
  std::string bytes;
  machine.Save([&](std::string_view piece) { bytes += piece; });
  cluster.scheduler_.In(kDisk, [this, header, bytes = std::move(bytes), life_then = life] {
    if (life != life_then) {
      return;
    }
    if (cluster.dice_.PerThousand(cluster.nastiness_.failed_syncs)) {
      files->FailNextSync();
      cluster.Count("snapshot sync failed");
    }
    const bool saved = directory->Save(header, {bytes}).ok();
    cluster.Deliver(*this,
                    [header, saved](Node& node) { node.member->OnSnapshotSaved(header, saved); });
  });
}

void Node::CheckStore() {
  cluster.scheduler_.In(cluster.Delay(), [this, life_then = life] {
    if (life != life_then) {
      return;
    }
    cluster.Deliver(*this, [this](Node& node) {
      etcd::EndpointHealth health;
      health.answers = true;
      health.db_bytes = cluster.store_bytes;
      node.member->OnStoreHealth({health});
    });
  });
}

void Node::FetchSnapshot(std::uint64_t index, const std::vector<std::string>& addresses) {
  cluster.scheduler_.In(2 * kDisk, [this, index, addresses, life_then = life] {
    if (life != life_then) {
      return;
    }
    for (const std::string& address : addresses) {
      const Result<journal::Snapshot> got = FetchSnapshot(address, index);
      if (!got.ok()) {
        cluster.Count("snapshot source unavailable");
        continue;
      }
      auto machine = core::Machine::Load(got->payload);
      if (!machine.ok() || !directory->Save(got->header, {got->payload}).ok()) {
        continue;
      }
      cluster.Count("snapshot installed");
      auto state = std::make_shared<std::unique_ptr<core::Machine>>(std::move(*machine));
      cluster.Deliver(*this, [header = got->header, state](Node& node) {
        node.member->OnSnapshotInstalled(header, std::move(*state));
      });
      return;
    }
    cluster.Deliver(*this, [](Node& node) { node.member->OnSnapshotFailed(); });
  });
}

Result<journal::Snapshot> Node::FetchSnapshot(const std::string& address, std::uint64_t index) {
  for (const auto& other : cluster.nodes_) {
    if (other->Address() != address || !other->up() || cluster.now() < other->paused_until ||
        cluster.now() < other->peers_cut_until || cluster.now() < peers_cut_until) {
      continue;
    }
    Result<journal::Snapshot> newest =
        journal::SnapshotStore(*other->files, kDataDirectory).LoadNewest();
    if (newest.ok() && newest->header.index >= index) {
      return newest;
    }
  }
  return Unreachable();
}

void Node::Connect(std::uint64_t link, const std::string& address) {
  for (const auto& other : cluster.nodes_) {
    if (other->Address() == address) {
      link_ = Link{link, other->number, other->life, cluster.now()};
    }
  }
}

void Node::Send(std::uint64_t link, std::string frame) {
  HF_CHECK(link_.has_value() && link_->id == link, "frames go over the link that is open");
  Node& to = cluster.At(link_->to);
  const bool cut = cluster.now() < peers_cut_until || cluster.now() < to.peers_cut_until;
  if (cut || cluster.dice_.PerThousand(cluster.nastiness_.broken_links)) {
    cluster.Count("link broken");
    BreakLink(cut ? kBreakNoticed : cluster.Delay());
    return;
  }
  if (!to.up() || to.life != link_->to_life) {
    BreakLink(cluster.Delay());
    return;
  }
  link_->clear_at = std::max(link_->clear_at, cluster.now() + cluster.Delay());
  cluster.scheduler_.At(
      link_->clear_at, [this, &to, to_life = to.life, link, frame = std::move(frame)] {
        if (to.life == to_life) {
          cluster.Deliver(
              to, [from = number, link, frame](Node& it) { it.OnForwarded(from, link, frame); });
        }
      });
}

void Node::BreakLink(Duration after) {
  const std::uint64_t link = link_->id;
  cluster.At(link_->to).OnLinkGone(number, link);
  cluster.scheduler_.In(after, [this, link, life_then = life] {
    if (life == life_then) {
      cluster.Deliver(*this, [link](Node& node) { node.router->OnBroken(link, node.output); });
    }
  });
}

void Node::Close() {
  if (link_.has_value()) {
    cluster.At(link_->to).OnLinkGone(number, link_->id);
    link_.reset();
  }
}

void Node::OnForwarded(int from, std::uint64_t link, const std::string& frame) {
  auto front = std::find_if(peer_fronts_.begin(), peer_fronts_.end(), [&](const auto& entry) {
    return entry.second.from == from && entry.second.link == link;
  });
  if (front == peer_fronts_.end()) {
    front = peer_fronts_.emplace(next_front_++, PeerFront{from, link, cluster.now()}).first;
  }
  Result<engine::Forwarded> forwarded = engine::DecodeForwarded(frame);
  if (!forwarded.ok()) {
    cluster.Violated("a frame between nodes does not decode");
    return;
  }
  using Kind = engine::EngineInput::Kind;
  for (engine::Reply& refused : forwarded->refused) {
    output.replies.emplace_back(front->first, std::move(refused));
  }
  for (engine::Proposal& proposal : forwarded->proposals) {
    router->Take({Kind::kPropose, front->first, std::move(proposal)}, true, output);
  }
  for (const std::uint64_t tag : forwarded->abandoned) {
    router->Take({Kind::kAbandon, front->first, engine::Proposal{tag, {}}}, true, output);
  }
}

void Node::OnLinkGone(int from, std::uint64_t link) {
  cluster.scheduler_.In(cluster.Delay(), [this, from, link, life_then = life] {
    if (life != life_then) {
      return;
    }
    cluster.Deliver(*this, [from, link](Node& node) {
      for (auto at = node.peer_fronts_.begin(); at != node.peer_fronts_.end(); ++at) {
        if (at->second.from == from && at->second.link == link) {
          node.router->Take({engine::EngineInput::Kind::kFrontGone, at->first, {}}, true,
                            node.output);
          node.peer_fronts_.erase(at);
          return;
        }
      }
    });
  });
}

}  // namespace holdfast::sim
