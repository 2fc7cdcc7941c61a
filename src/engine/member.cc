#include "engine/member.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "base/id.h"
#include "base/log.h"

namespace holdfast::engine {
namespace {

constexpr Duration kBackoffMin = Millis(20);
constexpr Duration kBackoffMax = Millis(500);
constexpr Duration kStandbyLooks = Millis(25);
// A standby that was not run for this long knows nothing about the leader's silence.
constexpr Duration kOwnPause = Millis(250);
constexpr std::size_t kPendingMax = 65'536;
constexpr std::int64_t kSlotsPerList = 64;

}  // namespace

const char* RoleName(Role role) {
  switch (role) {
    case Role::kJoining:
      return "JOINING";
    case Role::kStandby:
      return "STANDBY";
    case Role::kTakingOver:
      return "TAKING_OVER";
    case Role::kLeading:
      return "LEADING";
    case Role::kFailed:
      return "FAILED";
  }
  return "UNKNOWN";
}

Member::Member(MemberHost& host, Clock& clock, const MemberOptions& options,
               std::unique_ptr<core::Machine> machine, const journal::SnapshotHeader& start,
               const Id128& log_id)
    : host_(host),
      clock_(clock),
      options_(options),
      layout_(options.prefix),
      log_id_(log_id),
      now_(clock.Boot()),
      advanced_at_(now_),
      machine_(std::move(machine)),
      follower_(layout_, {{start.index, start.epoch, start.entry_hash}, start.time}),
      detector_(options.detector),
      snapshot_index_(start.index),
      snapshot_hash_(start.entry_hash) {
  replayer_.emplace(*machine_);
}

Route Member::RouteOf() const {
  switch (role_) {
    case Role::kLeading:
      return refusing_ || stepping_down_ ? Route::kNowhere : Route::kHere;
    case Role::kTakingOver:
      return refusing_ ? Route::kNowhere : Route::kHere;
    case Role::kStandby:
      return epoch_.vacant || epoch_.node == options_.name ? Route::kNowhere : Route::kLeader;
    case Role::kJoining:
    case Role::kFailed:
      break;
  }
  return Route::kNowhere;
}

std::string Member::WhyNowhere() const {
  if (role_ == Role::kFailed) {
    return "this node cannot go on: " + error_.message + "; nothing was done";
  }
  if (refusing_) {
    return "etcd does not commit (" + last_failure_ + "); nothing was done";
  }
  return "no node leads; nothing was done";
}

void Member::Accept(EngineInput&& input) {
  if (role_ == Role::kLeading) {
    if (std::optional<Error> why = WhyNot(input); why.has_value()) {
      output_.replies.emplace_back(input.front, Reply{input.proposal.tag, std::move(*why), 0});
      return;
    }
    engine_->Accept(std::move(input), output_);
    return;
  }
  HF_CHECK(role_ == Role::kTakingOver, "only a leader takes requests");
  if (pending_.size() < kPendingMax || input.kind != EngineInput::Kind::kPropose) {
    pending_.push_back(std::move(input));
    return;
  }
  output_.replies.emplace_back(
      input.front,
      Reply{input.proposal.tag,
            Error{ErrorCode::kOverloaded, "this node is about to lead; its queue is full", {}, {}},
            0});
}

// What the log could take and the cluster should not.
std::optional<Error> Member::WhyNot(const EngineInput& input) const {
  const auto* command = std::get_if<core::Command>(&input.proposal.request);
  if (command == nullptr || input.kind != EngineInput::Kind::kPropose) {
    return std::nullopt;
  }
  if (store_full_ && (std::holds_alternative<core::Acquire>(command->body) ||
                      std::holds_alternative<core::OpenSession>(command->body))) {
    return Error{ErrorCode::kOverloaded,
                 fmt::format("etcd is nearly full: nothing new is granted beyond nine tenths of "
                             "its quota of {} bytes",
                             options_.store_quota_bytes),
                 "etcd.quota_bytes",
                 {}};
  }
  if (const std::string older = NodeBelow(input); !older.empty()) {
    return Error{
        ErrorCode::kUnsupported, "node " + older + " does not know that feature level", {}, {}};
  }
  return std::nullopt;
}

// The first live node that does not know the feature level that the command asks for.
std::string Member::NodeBelow(const EngineInput& input) const {
  const auto* command = std::get_if<core::Command>(&input.proposal.request);
  const auto* set =
      command != nullptr ? std::get_if<core::SetFeatureLevel>(&command->body) : nullptr;
  if (set != nullptr) {
    for (const auto& [name, peer] : peers_) {
      if (peer.alive && peer.record.feature_level_max < set->level) {
        return name;
      }
    }
  }
  return {};
}

void Member::OnAnswer(CallId id, const etcd::Answer& answer) {
  if (role_ == Role::kFailed || !CheckCluster(answer)) {
    return;
  }
  now_ = clock_.Boot();
  if (id == main_call_) {
    main_call_ = 0;
    OnStep(answer);
  } else if (id == chore_call_) {
    chore_call_ = 0;
    OnChore(answer);
  }
}

bool Member::CheckCluster(const etcd::Answer& answer) {
  const auto* result = std::get_if<etcd::TxnResult>(&answer);
  if (result == nullptr || etcd_cluster_id_ == 0 || result->cluster_id == etcd_cluster_id_) {
    return true;
  }
  Fail(Error{ErrorCode::kCorrupt,
             fmt::format("etcd has cluster id {:x}, this log began on {:x}: it was restored or "
                         "replaced; run `holdfast recover` when its log is the right one",
                         result->cluster_id, etcd_cluster_id_),
             {},
             {}});
  return false;
}

void Member::OnNews(EtcdWatchId id, const etcd::WatchNews& news) {
  if (id != watch_ || role_ != Role::kStandby) {
    return;
  }
  now_ = clock_.Boot();
  if (const auto* changes = std::get_if<etcd::WatchChanges>(&news); changes != nullptr) {
    if (CheckCluster(etcd::TxnResult{changes->cluster_id, changes->revision, true, {}})) {
      OnChanges(*changes);
    }
    return;
  }
  log::Info("the watch has ended, the log is listed again error=\"{}\"",
            std::get<etcd::WatchEnd>(news).error.message);
  ListAgain();
}

void Member::Advance() {
  now_ = clock_.Boot();
  if (now_ > next_wake_ + kOwnPause && now_ > advanced_at_ + kOwnPause) {
    detector_.Restart(now_);
  }
  advanced_at_ = now_;
  next_wake_ = now_ + Seconds(1);
  if (role_ == Role::kFailed) {
    return;
  }
  if (step_ != Step::kNone && main_call_ == 0 && now_ >= retry_at_) {
    SendStep();
  }
  switch (role_) {
    case Role::kJoining:
      if (step_ == Step::kNone && !fetching_snapshot_ && now_ >= join_not_before_) {
        Begin(Step::kReadRecords);
      } else if (!fetching_snapshot_) {
        WakeAt(join_not_before_);
      }
      break;
    case Role::kStandby:
      WakeAt(now_ + kStandbyLooks);
      if (step_ == Step::kNone && !leaving_ && now_ >= takeover_not_before_) {
        if (epoch_.vacant) {
          TakeOver();
        } else if (detector_.Suspects(now_)) {
          Begin(Step::kProbe);
        }
      }
      break;
    case Role::kLeading:
      RefuseIfSilent();
      DriveLeader();
      break;
    case Role::kTakingOver:
      RefuseIfSilent();
      break;
    case Role::kFailed:
      break;
  }
  if (step_ != Step::kNone && main_call_ == 0) {
    WakeAt(retry_at_);
  }
  Upkeep();
}

// The main lane: one call at a time, sent again until it is answered. What is sent is made from
// what this node knows, so sending again is always right; appends and takeovers keep their bytes.
void Member::Begin(Step step) {
  step_ = step;
  step_began_at_ = now_;
  backoff_ = Duration::zero();
  tries_ = 0;
  SendStep();
}

void Member::SendStep() {
  main_call_ = next_call_++;
  sent_limit_ = list_limit_;
  const bool urgent = step_ == Step::kAppend || step_ == Step::kTakeover || step_ == Step::kProbe;
  // Each second try gets twice the time of the one before it, for an etcd that is slow; those
  // between are quick, for a message that was lost. Each probe is a step of its own.
  const int tries = step_ == Step::kProbe ? slow_probes_ : tries_++;
  const int doublings = tries % 2 == 0 && step_ != Step::kProbe ? 0 : (tries + 1) / 2;
  // An etcd that has been slow of late gets more time at once.
  const Duration first = std::clamp(step_ == Step::kAppend ? 4 * commit_time_ : Duration::zero(),
                                    options_.append_timeout, options_.call_timeout);
  const Duration short_timeout = first * (1 << std::min(doublings, 10));
  host_.Send(main_call_, TxnOf(step_),
             urgent ? std::min(short_timeout, options_.append_timeout_max) : options_.call_timeout);
}

void Member::Again() {
  backoff_ = std::clamp(backoff_ * 2, kBackoffMin, kBackoffMax);
  retry_at_ = now_ + backoff_;
}

void Member::OnStep(const etcd::Answer& answer) {
  if (const auto* result = std::get_if<etcd::TxnResult>(&answer); result != nullptr) {
    refusing_ = false;
    list_limit_ = kSlotsPerList;
    if (!CheckRevision(result->revision, seen_revision_, TxnWrites(step_))) {
      return;
    }
    if (result->revision < seen_revision_) {
      Again();
      return;
    }
    seen_revision_ = result->revision;
  } else {
    const auto& failure = std::get<etcd::Failure>(answer);
    last_failure_ = failure.error.message;
    if (failure.certainty == etcd::Certainty::kFatal) {
      Fail(failure.error);
      return;
    }
    if (step_ == Step::kList || step_ == Step::kTail) {
      list_limit_ = std::max<std::int64_t>(list_limit_ / 2, 1);  // perhaps too much for the time
    }
  }
  switch (step_) {
    case Step::kProbe:
      OnProbe(answer);
      return;
    case Step::kTakeover:
      OnTakeover(answer);
      return;
    case Step::kAppend:
      OnAppend(answer);
      return;
    case Step::kNone:
    case Step::kReadRecords:
    case Step::kBootstrap:
    case Step::kList:
    case Step::kTail:
    case Step::kReserve:
    case Step::kHandOver:
      break;
  }
  if (std::holds_alternative<etcd::Failure>(answer)) {
    Again();
    return;
  }
  OnResult(std::exchange(step_, Step::kNone), std::get<etcd::TxnResult>(answer));
}

// A read may be old: etcd below 3.4.42 can answer from an old state after a pause (its issue
// 20418). A transaction that could write goes through etcd's log: nothing that it saw can be
// undone, unless somebody has put older files in etcd's place.
bool Member::CheckRevision(etcd::Revision got, etcd::Revision seen, bool writes) {
  if (got >= seen || !writes) {
    return true;
  }
  Fail(Error{
      ErrorCode::kCorrupt,
      fmt::format("etcd went back from revision {} to {}: older files are in its place", seen, got),
      {},
      {}});
  return false;
}

bool Member::TxnWrites(Step step) {
  switch (step) {
    case Step::kBootstrap:
    case Step::kProbe:
    case Step::kTakeover:
    case Step::kReserve:
    case Step::kAppend:
    case Step::kHandOver:
      return true;
    case Step::kNone:
    case Step::kReadRecords:
    case Step::kList:
    case Step::kTail:
      break;
  }
  return false;
}

void Member::OnResult(Step step, const etcd::TxnResult& result) {
  switch (step) {
    case Step::kReadRecords:
      OnRecords(result);
      return;
    case Step::kBootstrap:
      return;  // somebody has done it: the records are read again
    case Step::kList:
      OnList(result);
      return;
    case Step::kTail:
      OnTail(result);
      return;
    case Step::kReserve:
      OnReserve(result);
      return;
    case Step::kHandOver:
      Resign("this node hands over");
      return;
    case Step::kNone:
    case Step::kProbe:
    case Step::kTakeover:
    case Step::kAppend:
      break;
  }
  HF_CHECK(false, "an answer without a step");
}

void Member::BecomeRole(Role role) {
  if (role_ == role) {
    return;
  }
  log::Info("role={} epoch={} index={}", RoleName(role), epoch_.epoch, follower_.last().index);
  role_ = role;
  host_.OnRole(role);
}

void Member::RefusePending() {
  for (const EngineInput& input : std::exchange(pending_, {})) {
    if (input.kind == EngineInput::Kind::kPropose) {
      output_.replies.emplace_back(
          input.front,
          Reply{input.proposal.tag,
                Error{ErrorCode::kUnavailable, "this node does not lead; nothing was done", {}, {}},
                0});
    }
  }
}

void Member::Fail(Error error) {
  if (role_ == Role::kLeading) {
    Resign("this node has failed");
  }
  RefusePending();
  error_ = std::move(error);
  log::Error("this node cannot go on error=\"{}\"", error_.message);
  step_ = Step::kNone;
  main_call_ = 0;
  if (watch_ != 0) {
    host_.StopWatch();
    watch_ = 0;
  }
  BecomeRole(Role::kFailed);
}

MemberStatus Member::Look() const {
  MemberStatus status;
  status.name = options_.name;
  status.role = role_;
  if (!epoch_.vacant) {
    status.leader = epoch_.node;
    status.leader_address = epoch_.address;
    if (const auto peer = peers_.find(epoch_.node);
        role_ == Role::kStandby && peer != peers_.end()) {
      status.leader_client_address = peer->second.record.client_address;
    }
  }
  status.epoch = epoch_.epoch;
  status.index = follower_.last().index;
  status.phi = role_ == Role::kStandby ? detector_.Phi(now_) : 0;
  status.first_index = trim_.first_index;
  status.snapshot_index = snapshot_index_;
  status.takeovers = takeovers_;
  status.appends = appends_;
  status.appended_bytes = appended_bytes_;
  status.unknown_appends = unknown_appends_;
  status.relists = relists_;
  status.etcd_answers = !refusing_;
  status.store = store_;
  status.store_quota_bytes = options_.store_quota_bytes;
  status.store_full = store_full_;
  for (const auto& [name, peer] : peers_) {
    status.peers.push_back(peer);
  }
  return status;
}

}  // namespace holdfast::engine
