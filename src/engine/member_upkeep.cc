// What a Member does beside the log: it says that it lives, makes snapshots, and as the leader
// trims the log. All of it on a lane of its own that appends never wait for.
#include <algorithm>
#include <iterator>
#include <utility>

#include "base/log.h"
#include "core/limits.h"
#include "engine/member.h"

namespace holdfast::engine {
namespace {

constexpr std::int64_t kDeletedAtOnce = 500;

}  // namespace

etcd::NodeRecord Member::MyRecord() const {
  etcd::NodeRecord record;
  record.address = options_.address;
  record.zone = options_.zone;
  record.applied = role_ == Role::kLeading ? engine_->machine().index() : follower_.last().index;
  record.snapshot_index = snapshot_index_;
  record.snapshot_hash = snapshot_hash_;
  record.beat = beats_;
  record.incarnation = options_.incarnation;
  record.feature_level_max = options_.feature_level_max;
  record.client_address = options_.client_address;
  return record;
}

void Member::Upkeep() {
  if (role_ == Role::kFailed || IsZero(log_id_)) {
    return;
  }
  ConsiderSnapshot();
  ConsiderStore();
  if (chore_ == Chore::kNone && now_ >= beat_at_) {
    Beat();
  }
  if (chore_ == Chore::kNone) {
    WakeAt(beat_at_);
  }
}

void Member::Beat() {
  beat_at_ = now_ + options_.beat;
  ++beats_;
  etcd::Txn txn;
  txn.then = {etcd::Put{layout_.Node(options_.name), etcd::EncodeRecord(MyRecord())},
              etcd::Get{layout_.Nodes(), etcd::PrefixEnd(layout_.Nodes())}};
  SendChore(Chore::kBeat, txn);
}

void Member::SendChore(Chore chore, const etcd::Txn& txn) {
  chore_ = chore;
  chore_call_ = next_call_++;
  seen_before_chore_ = seen_revision_;
  host_.Send(chore_call_, txn, options_.call_timeout);
}

void Member::OnChore(const etcd::Answer& answer) {
  const Chore chore = std::exchange(chore_, Chore::kNone);
  const auto* result = std::get_if<etcd::TxnResult>(&answer);
  if (result == nullptr) {
    if (const auto& failure = std::get<etcd::Failure>(answer);
        failure.certainty == etcd::Certainty::kFatal) {
      Fail(failure.error);
    }
    return;  // the next beat begins anew
  }
  const bool writes = chore != Chore::kVerifyTrim && chore != Chore::kFindTrimmed;
  if (!CheckRevision(result->revision, seen_before_chore_, writes)) {
    return;
  }
  if (chore == Chore::kBeat) {
    OnBeat(*result);
    return;
  }
  if (role_ != Role::kLeading || !result->succeeded) {
    if (chore == Chore::kTrimRecord && !result->gets.empty() && !result->gets[0].empty()) {
      AdoptTrim(result->gets[0].front());
    }
    trim_plan_.reset();
    return;
  }
  switch (chore) {
    case Chore::kVerifyTrim:
      OnVerifyTrim(*result);
      break;
    case Chore::kTrimRecord:
      trim_.first_index = trim_plan_->first_index;
      trim_revision_ = result->revision;
      FindTrimmed();
      break;
    case Chore::kFindTrimmed:
      DeleteTrimmed(*result);
      break;
    case Chore::kDeleteTrimmed:
      FindTrimmed();
      break;
    case Chore::kNone:
    case Chore::kBeat:
      break;
  }
}

void Member::OnBeat(const etcd::TxnResult& result) {
  for (const etcd::KeyValue& pair : result.gets[1]) {
    Result<etcd::NodeRecord> record = etcd::DecodeRecord<etcd::NodeRecord>(pair);
    if (!record.ok()) {
      continue;  // a node's record is never needed for safety
    }
    PeerState& peer = peers_[pair.key.substr(layout_.Nodes().size())];
    if (peer.name.empty() || peer.record.beat != record->beat ||
        peer.record.incarnation != record->incarnation) {
      peer.seen_at = now_;
    }
    peer.name = pair.key.substr(layout_.Nodes().size());
    peer.record = std::move(*record);
  }
  std::vector<PeerState> nodes;
  for (auto& [name, peer] : peers_) {
    peer.alive = now_ - peer.seen_at < options_.alive_for;
    nodes.push_back(peer);
  }
  // The leader leaves snapshots to the others as long as they make enough to trim the log.
  if (const auto plan =
          PlanTrim(nodes, covered_by_others_, follower_.last().index, true, options_.name);
      plan.has_value()) {
    covered_by_others_ = plan->first_index;
    bytes_since_snapshot_ = role_ == Role::kLeading ? 0 : bytes_since_snapshot_;
  }
  if (role_ == Role::kLeading) {
    ConsiderTrim();
  }
}

void Member::ConsiderTrim() {
  std::vector<PeerState> nodes;
  for (const auto& [name, peer] : peers_) {
    nodes.push_back(peer);
  }
  trim_plan_ = PlanTrim(nodes, trim_.first_index, follower_.last().index,
                        log_bytes_ > options_.log_bytes_max);
  if (!trim_plan_.has_value()) {
    return;
  }
  etcd::Txn txn;
  for (const TrimPlan::Holder& holder : trim_plan_->holders) {
    txn.then.emplace_back(etcd::Get{layout_.Slot(holder.index + 1), {}});
  }
  SendChore(Chore::kVerifyTrim, txn);
}

// A snapshot counts only if it ends with the entry that the log has there.
void Member::OnVerifyTrim(const etcd::TxnResult& result) {
  for (std::size_t i = 0; i < trim_plan_->holders.size(); ++i) {
    const TrimPlan::Holder& holder = trim_plan_->holders[i];
    if (i >= result.gets.size() || result.gets[i].empty()) {
      trim_plan_.reset();  // it ends where the log ends: later
      return;
    }
    const Result<journal::Entry> entry = etcd::DecodeEntry(layout_, result.gets[i].front());
    if (!entry.ok() || entry->previous_hash != holder.hash) {
      log::Error(
          "the snapshot of a node is not of this log; the log is not trimmed node={} index={}",
          holder.node, holder.index);
      trim_plan_.reset();
      return;
    }
  }
  // As with the floor, a send whose outcome was unknown must not lower it later.
  etcd::Txn txn;
  txn.guards = {appender_->guard(), {layout_.Trim(), etcd::Guard::Of::kModified, trim_revision_}};
  txn.then = {
      etcd::Put{layout_.Trim(), etcd::EncodeRecord(etcd::TrimRecord{trim_plan_->first_index})}};
  txn.otherwise = {etcd::Get{layout_.Trim(), {}}};
  SendChore(Chore::kTrimRecord, txn);
}

// The record stands before anything is deleted; what a dead leader left behind is found here too.
void Member::FindTrimmed() {
  etcd::Txn txn;
  txn.then = {etcd::Get{layout_.Slot(0), layout_.Slot(trim_.first_index), kDeletedAtOnce, true}};
  SendChore(Chore::kFindTrimmed, txn);
}

void Member::DeleteTrimmed(const etcd::TxnResult& found) {
  if (found.gets.empty() || found.gets[0].empty()) {
    log::Info("the log is trimmed first_index={}", trim_.first_index);
    log_bytes_ = 0;
    trim_plan_.reset();
    return;
  }
  etcd::Txn txn;
  txn.guards = {appender_->guard()};
  txn.then = {etcd::Delete{layout_.Slot(0), found.gets[0].back().key + '\0'}};
  SendChore(Chore::kDeleteTrimmed, txn);
}

// Standbys make the snapshots: saving holds up whoever does it. A leader that has no standby, or
// only dead ones, makes them itself, but later.
void Member::ConsiderSnapshot() {
  if (saving_snapshot_ || bytes_since_snapshot_ < options_.snapshot_bytes + SnapshotDelay()) {
    return;
  }
  if (role_ == Role::kLeading) {
    bool others = false;
    for (const auto& [name, peer] : peers_) {
      others = others || (name != options_.name && peer.alive);
    }
    if (entries_ != nullptr || (others && bytes_since_snapshot_ < 4 * options_.snapshot_bytes)) {
      return;
    }
  } else if (role_ != Role::kStandby) {
    return;
  }
  if (machine().index() != follower_.last().index) {
    return;  // in the middle of a batch
  }
  journal::SnapshotHeader header;
  header.index = follower_.last().index;
  header.epoch = follower_.last().epoch;
  header.entry_hash = follower_.last().hash;
  header.time = machine().now();
  saving_snapshot_ = true;
  host_.SaveSnapshot(header, machine());
}

// The first snapshot of each node comes at another moment, and so do all that follow: a standby
// that makes one cannot take over meanwhile, and takes CPU from whoever shares its machine.
std::uint64_t Member::SnapshotDelay() const {
  if (made_snapshot_ || peers_.empty()) {
    return 0;
  }
  const auto rank = std::distance(peers_.begin(), peers_.find(options_.name));
  return options_.snapshot_bytes * static_cast<std::uint64_t>(rank) / peers_.size();
}

void Member::ConsiderStore() {
  if (!checking_store_ && now_ >= store_check_at_) {
    checking_store_ = true;
    host_.CheckStore();
  }
  if (!checking_store_) {
    WakeAt(store_check_at_);
  }
}

// The members grow alike; the fullest of them is the first that stops all writes.
void Member::OnStoreHealth(std::vector<etcd::EndpointHealth>&& store) {
  now_ = clock_.Boot();
  checking_store_ = false;
  store_check_at_ = now_ + options_.store_checks;
  store_ = std::move(store);
  bool no_space = false;
  std::uint64_t bytes = 0;
  for (const etcd::EndpointHealth& endpoint : store_) {
    bytes = std::max(bytes, endpoint.db_bytes);
    no_space = no_space || endpoint.no_space;
  }
  const bool full = no_space || bytes >= options_.store_quota_bytes / 10 * 9;
  if (full != std::exchange(store_full_, full)) {
    if (full) {
      log::Error(
          "etcd is nearly full, nothing new is granted db_bytes={} quota_bytes={} nospace={}",
          bytes, options_.store_quota_bytes, no_space);
    } else {
      log::Info("etcd has space again db_bytes={}", bytes);
    }
  }
}

void Member::OnSnapshotSaved(const journal::SnapshotHeader& header, bool saved) {
  saving_snapshot_ = false;
  if (!saved) {
    bytes_since_snapshot_ /= 2;  // again after some more log
    return;
  }
  bytes_since_snapshot_ = 0;
  made_snapshot_ = true;
  snapshot_index_ = header.index;
  snapshot_hash_ = header.entry_hash;
  beat_at_ = BootTime{};  // the leader waits for it
}

}  // namespace holdfast::engine
