// Member as a standby: joining the log, following it, and taking it over.
#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "base/id.h"
#include "base/log.h"
#include "core/limits.h"
#include "engine/member.h"

namespace holdfast::engine {
namespace {

// A probe that took longer shows that etcd was slow, not that the leader is gone.
constexpr Duration kProbeMax = Millis(250);
// Between two takeovers that this node sees. It doubles with each that was not a hand-over, beyond
// two in ten seconds, so that bad links do not make nodes depose each other for ever.
constexpr Duration kGapMin = Millis(250);
constexpr Duration kGapMax = Seconds(8);
constexpr Duration kGapWindow = Seconds(10);
constexpr std::size_t kFreeTakeovers = 2;
constexpr Duration kFetchAgain = Millis(500);
// An etcd that always takes longer than a probe may must not keep a dead leader in office.
constexpr int kSlowProbesMax = 3;

}  // namespace

etcd::Txn Member::TxnOf(Step step) const {
  etcd::Txn txn;
  const std::string next = layout_.Slot(follower_.last().index + 1);
  const std::string end = etcd::PrefixEnd(layout_.Slots());
  switch (step) {
    case Step::kReadRecords:
      txn.then = {etcd::Get{layout_.Cluster(), {}}, etcd::Get{layout_.Epoch(), {}},
                  etcd::Get{layout_.Trim(), {}},
                  etcd::Get{layout_.Nodes(), etcd::PrefixEnd(layout_.Nodes())}};
      break;
    case Step::kBootstrap:
      txn.guards = {{layout_.Cluster(), etcd::Guard::Of::kCreated, 0}};
      txn.then = {
          etcd::Put{layout_.Cluster(),
                    etcd::EncodeRecord(etcd::ClusterRecord{1, clock_.NewId(), etcd_cluster_id_})},
          etcd::Put{layout_.Epoch(), etcd::EncodeRecord(etcd::EpochRecord{0, {}, {}, {}, true})},
          etcd::Put{layout_.Trim(), etcd::EncodeRecord(etcd::TrimRecord{})},
          etcd::Put{layout_.Floor(), etcd::EncodeRecord(etcd::FloorRecord{})}};
      break;
    case Step::kList:
    case Step::kTail:
      txn.then = {etcd::Get{layout_.Epoch(), {}}, etcd::Get{layout_.Trim(), {}},
                  etcd::Get{layout_.Floor(), {}},
                  etcd::Get{layout_.Slot(follower_.last().index), {}},
                  etcd::Get{next, end, list_limit_}};
      break;
    case Step::kProbe:
      txn.then = {etcd::Put{layout_.Node(options_.name), etcd::EncodeRecord(MyRecord())},
                  etcd::Get{layout_.Epoch(), {}}, etcd::Get{next, end, 1, true}};
      break;
    case Step::kTakeover:
      return takeover_->txn();
    case Step::kAppend:
      return appender_->txn();
    case Step::kReserve:
      txn.guards = {appender_->guard(),
                    {layout_.Floor(), etcd::Guard::Of::kModified, floor_revision_}};
      txn.then = {etcd::Put{layout_.Floor(), etcd::EncodeRecord(etcd::FloorRecord{reserving_})}};
      txn.otherwise = {etcd::Get{layout_.Epoch(), {}}, etcd::Get{layout_.Floor(), {}}};
      break;
    case Step::kHandOver: {
      etcd::EpochRecord vacant = my_epoch_;
      vacant.vacant = true;
      txn.guards = {appender_->guard()};
      txn.then = {etcd::Put{layout_.Epoch(), etcd::EncodeRecord(vacant)}};
      break;
    }
    case Step::kNone:
      break;
  }
  return txn;
}

void Member::OnRecords(const etcd::TxnResult& result) {
  const etcd::KeyValue* cluster = etcd::FirstOf(result, 0);
  if (cluster == nullptr) {
    if (follower_.last().index > 0 || !IsZero(log_id_)) {
      Fail(Error{
          ErrorCode::kCorrupt, "the log that this node has followed is gone from etcd", {}, {}});
      return;
    }
    etcd_cluster_id_ = result.cluster_id;
    Begin(Step::kBootstrap);
    return;
  }
  const Result<etcd::ClusterRecord> record = etcd::DecodeRecord<etcd::ClusterRecord>(*cluster);
  if (!record.ok()) {
    Fail(record.error());
    return;
  }
  if (record->format != etcd::ClusterRecord{}.format) {
    Fail(Error{ErrorCode::kUnsupported,
               fmt::format("the log in etcd has format {}, this build knows {}", record->format,
                           etcd::ClusterRecord{}.format),
               {},
               {}});
    return;
  }
  if (!IsZero(log_id_) && log_id_ != record->log_id) {
    Fail(Error{ErrorCode::kCorrupt,
               "this node's directory belongs to another log than the one in etcd",
               {},
               {}});
    return;
  }
  log_id_ = record->log_id;
  etcd_cluster_id_ = record->etcd_cluster_id;
  if (!CheckCluster(result)) {
    return;
  }
  for (const etcd::KeyValue& pair : result.gets[3]) {
    if (Result<etcd::NodeRecord> node = etcd::DecodeRecord<etcd::NodeRecord>(pair); node.ok()) {
      PeerState& peer = peers_[pair.key.substr(layout_.Nodes().size())];
      peer.record = std::move(*node);
    }
  }
  const etcd::KeyValue* epoch = etcd::FirstOf(result, 1);
  const etcd::KeyValue* trim = etcd::FirstOf(result, 2);
  if (epoch == nullptr || trim == nullptr) {
    Fail(Error{ErrorCode::kCorrupt, "a record of the log is gone from etcd", {}, {}});
    return;
  }
  if (AdoptEpoch(*epoch) && AdoptTrim(*trim)) {
    if (trim_.first_index > follower_.last().index + 1) {
      NeedSnapshot();
    } else {
      Begin(Step::kList);
    }
  }
}

void Member::NeedSnapshot() {
  RefusePending();
  BecomeRole(Role::kJoining);
  fetching_snapshot_ = true;
  std::vector<std::string> addresses;
  for (const auto& [name, peer] : peers_) {
    if (name != options_.name && peer.record.snapshot_index + 1 >= trim_.first_index) {
      addresses.push_back(peer.record.address);
    }
  }
  log::Info("the log is trimmed beyond this node, it gets a snapshot index={} first_index={}",
            follower_.last().index, trim_.first_index);
  host_.FetchSnapshot(trim_.first_index - 1, addresses);
}

void Member::OnSnapshotInstalled(const journal::SnapshotHeader& header,
                                 std::unique_ptr<core::Machine> machine) {
  if (!std::exchange(fetching_snapshot_, false)) {
    return;
  }
  machine_ = std::move(machine);
  replayer_.emplace(*machine_);
  follower_ =
      etcd::Follower(layout_, {{header.index, header.epoch, header.entry_hash}, header.time});
  last_checked_ = false;
  snapshot_index_ = header.index;
  snapshot_hash_ = header.entry_hash;
  bytes_since_snapshot_ = 0;
  CheckFeatureLevel();
}

void Member::OnSnapshotFailed() {
  fetching_snapshot_ = false;
  join_not_before_ = clock_.Boot() + kFetchAgain;
}

bool Member::AdoptEpoch(const etcd::KeyValue& pair) {
  if (pair.mod_revision <= epoch_revision_) {
    return true;
  }
  Result<etcd::EpochRecord> record = etcd::DecodeRecord<etcd::EpochRecord>(pair);
  if (!record.ok()) {
    Fail(record.error());
    return false;
  }
  if (record->epoch != epoch_.epoch && epoch_revision_ != 0) {  // not of a log that it just met
    NoteTakeover();
  }
  epoch_ = std::move(*record);
  epoch_revision_ = pair.mod_revision;
  detector_.Restart(now_);
  return true;
}

// The epoch has changed.
void Member::NoteTakeover() {
  if (!epoch_.vacant) {
    takeovers_seen_.push_back(now_);
  }
  while (!takeovers_seen_.empty() && now_ - takeovers_seen_.front() > kGapWindow) {
    takeovers_seen_.pop_front();
  }
  Duration gap = kGapMin;
  for (std::size_t i = kFreeTakeovers; i < takeovers_seen_.size(); ++i) {
    gap = std::min(gap * 2, kGapMax);
  }
  takeover_not_before_ = std::max(takeover_not_before_, now_ + gap);
}

bool Member::AdoptTrim(const etcd::KeyValue& pair) {
  const Result<etcd::TrimRecord> record = etcd::DecodeRecord<etcd::TrimRecord>(pair);
  if (!record.ok()) {
    Fail(record.error());
    return false;
  }
  if (pair.mod_revision > trim_revision_) {
    log_bytes_ = record->first_index > trim_.first_index ? 0 : log_bytes_;
    trim_ = *record;
    trim_revision_ = pair.mod_revision;
  }
  return true;
}

bool Member::AdoptFloor(const etcd::KeyValue& pair) {
  const Result<etcd::FloorRecord> record = etcd::DecodeRecord<etcd::FloorRecord>(pair);
  if (!record.ok()) {
    Fail(record.error());
    return false;
  }
  if (pair.mod_revision > floor_revision_) {
    floor_ = *record;
    floor_revision_ = pair.mod_revision;
  }
  return true;
}

// Once after each join: the entry that this node ends with must be the log's entry there.
bool Member::CheckLast(const std::vector<etcd::KeyValue>& found) {
  if (last_checked_ || follower_.last().index == 0) {
    return true;
  }
  if (found.empty()) {
    if (follower_.last().index >= trim_.first_index) {
      Fail(Error{ErrorCode::kCorrupt,
                 fmt::format("this node has entry {}, etcd does not: its log went back",
                             follower_.last().index),
                 {},
                 {}});
      return false;
    }
  } else if (!follower_.Confirm(found.front())) {
    Fail(follower_.error());
    return false;
  }
  last_checked_ = true;
  return true;
}

// False if the step cannot go on: the node has failed, or needs a snapshot.
bool Member::TakeSlots(const std::vector<etcd::KeyValue>& slots) {
  journal::Entry entry;
  for (const etcd::KeyValue& slot : slots) {
    switch (follower_.Take(slot, entry)) {
      case etcd::Follower::Verdict::kNext:
        if (!Apply(entry)) {
          return false;
        }
        break;
      case etcd::Follower::Verdict::kKnown:
        break;
      case etcd::Follower::Verdict::kGap:
        if (follower_.last().index + 1 >= trim_.first_index) {
          Fail(Error{ErrorCode::kCorrupt,
                     fmt::format("entry {} is missing from etcd", follower_.last().index + 1),
                     {},
                     {}});
        } else {
          NeedSnapshot();
        }
        return false;
      case etcd::Follower::Verdict::kBroken:
        Fail(follower_.error());
        return false;
    }
  }
  return true;
}

bool Member::Apply(const journal::Entry& entry) {
  if (Status fed = replayer_->Feed(entry); !fed.ok()) {
    Fail(fed.error().WithContext(fmt::format("entry {}", entry.index)));
    return false;
  }
  log_bytes_ += entry.payload.size();
  bytes_since_snapshot_ += entry.payload.size();
  if (replayer_->completed()) {
    ++idle_stats_.batches;
    idle_stats_.commands += replayer_->last_batch().commands.size();
    idle_stats_.index = machine_->index();
    idle_stats_.epoch = machine_->epoch();
    host_.OnApplied(replayer_->last_batch(), replayer_->last_applied(), replayer_->events());
    return CheckFeatureLevel();
  }
  return true;
}

bool Member::CheckFeatureLevel() {
  if (machine_->feature_level() <= options_.feature_level_max) {
    return true;
  }
  Fail(
      Error{ErrorCode::kUnsupported,
            fmt::format("the log has feature level {}, this node knows {}: a newer build is needed",
                        machine_->feature_level(), options_.feature_level_max),
            {},
            {}});
  return false;
}

void Member::OnList(const etcd::TxnResult& result) {
  const etcd::KeyValue* epoch = etcd::FirstOf(result, 0);
  const etcd::KeyValue* trim = etcd::FirstOf(result, 1);
  if (epoch == nullptr || trim == nullptr || result.gets.size() < 5) {
    Fail(Error{ErrorCode::kCorrupt, "a record of the log is gone from etcd", {}, {}});
    return;
  }
  if (!AdoptEpoch(*epoch) || !AdoptTrim(*trim) || !CheckLast(result.gets[3]) ||
      !TakeSlots(result.gets[4])) {
    return;
  }
  if (std::ssize(result.gets[4]) == sent_limit_) {
    Begin(Step::kList);
    return;
  }
  watch_ = next_watch_++;
  host_.Watch(watch_, result.revision + 1);
  if (role_ != Role::kStandby) {
    detector_.Restart(now_);
    BecomeRole(Role::kStandby);
  } else if (!result.gets[4].empty()) {
    Heard();
  }
}

// The order of etcd's revisions is the order of the log, but nothing here depends on it.
void Member::OnChanges(const etcd::WatchChanges& changes) {
  journal::Entry entry;
  for (const etcd::Change& change : changes.changes) {
    const std::string& key = change.pair.key;
    if (change.deleted || role_ != Role::kStandby) {
      continue;
    }
    if (key == layout_.Epoch()) {
      if (!AdoptEpoch(change.pair)) {
        return;
      }
    } else if (key == layout_.Trim()) {
      if (!AdoptTrim(change.pair)) {
        return;
      }
    } else if (key.starts_with(layout_.Slots())) {
      const etcd::Follower::Verdict verdict = follower_.Take(change.pair, entry);
      if (verdict == etcd::Follower::Verdict::kNext) {
        if (!Apply(entry)) {
          return;
        }
        Heard();
        if (entry.epoch > epoch_.epoch) {
          ListAgain();  // the watch has left out the record of its leader
          return;
        }
      } else if (verdict != etcd::Follower::Verdict::kKnown) {
        ListAgain();  // which tells a fault of the watch from one of the log
        return;
      }
    }
  }
}

void Member::Heard() {
  slow_probes_ = 0;
  detector_.Heard(now_);
}

void Member::ListAgain() {
  ++relists_;
  last_checked_ = false;  // etcd may have gone back meanwhile
  host_.StopWatch();
  watch_ = 0;
  // What the main lane is at, a probe or a takeover, must not be lost.
  if (step_ == Step::kNone || step_ == Step::kProbe) {
    main_call_ = 0;
    Begin(Step::kList);
  }
}

void Member::OnProbe(const etcd::Answer& answer) {
  step_ = Step::kNone;
  if (role_ != Role::kStandby) {
    return;
  }
  const auto* result = std::get_if<etcd::TxnResult>(&answer);
  if (result == nullptr) {
    ++slow_probes_;
    detector_.Restart(now_);  // nobody could write: the silence says nothing about the leader
    return;
  }
  if (now_ - step_began_at_ > kProbeMax && ++slow_probes_ < kSlowProbesMax) {
    detector_.Restart(now_);
  }
  const etcd::KeyValue* epoch = etcd::FirstOf(*result, 1);
  if (epoch == nullptr) {
    Fail(Error{ErrorCode::kCorrupt, "the epoch record is gone from etcd", {}, {}});
  } else if (epoch->mod_revision != epoch_revision_ || etcd::FirstOf(*result, 2) != nullptr) {
    ListAgain();  // the watch is silent, not the leader
  } else if (detector_.Suspects(now_)) {
    slow_probes_ = 0;
    log::Warning("the leader is silent, this node takes over leader={} phi={:.1f} index={}",
                 epoch_.node, detector_.Phi(now_), follower_.last().index);
    TakeOver();
  }
}

void Member::TakeOver() {
  my_epoch_ = {epoch_.epoch + 1, options_.name, options_.address, clock_.NewId(), false};
  takeover_.emplace(layout_, my_epoch_, epoch_revision_);
  Begin(Step::kTakeover);
}

void Member::OnTakeover(const etcd::Answer& answer) {
  switch (takeover_->OnAnswer(answer)) {
    case etcd::Takeover::Verdict::kWon:
      break;
    case etcd::Takeover::Verdict::kAgain:
      Again();
      return;
    case etcd::Takeover::Verdict::kLost:
      takeover_.reset();
      step_ = Step::kNone;
      ListAgain();
      return;
    case etcd::Takeover::Verdict::kBroken:
      Fail(takeover_->error());
      return;
  }
  NoteTakeover();
  epoch_ = my_epoch_;
  epoch_revision_ = takeover_->epoch_revision();
  takeover_.reset();
  if (watch_ != 0) {
    host_.StopWatch();
    watch_ = 0;
  }
  ++takeovers_;
  BecomeRole(Role::kTakingOver);
  Begin(Step::kTail);
}

// The tail cannot grow any more: every append that comes now carries an older epoch.
void Member::OnTail(const etcd::TxnResult& result) {
  const etcd::KeyValue* epoch = etcd::FirstOf(result, 0);
  const etcd::KeyValue* trim = etcd::FirstOf(result, 1);
  const etcd::KeyValue* floor = etcd::FirstOf(result, 2);
  if (epoch == nullptr || trim == nullptr || floor == nullptr || result.gets.size() < 5) {
    Fail(Error{ErrorCode::kCorrupt, "a record of the log is gone from etcd", {}, {}});
    return;
  }
  if (epoch->mod_revision != epoch_revision_) {
    RefusePending();
    BecomeRole(Role::kJoining);  // deposed already
    return;
  }
  if (!AdoptTrim(*trim) || !AdoptFloor(*floor) || !TakeSlots(result.gets[4])) {
    return;
  }
  if (std::ssize(result.gets[4]) == sent_limit_) {
    Begin(Step::kTail);
    return;
  }
  Lead();
}

}  // namespace holdfast::engine
