// One node of a replicated Holdfast: follows the log in etcd as a standby, takes over when the
// leader is gone, leads with an Engine of its own, and steps back when it is deposed.
//
// All of the logic and nothing else: inputs are requests, answers of etcd, news of a watch and
// time; outputs go to a MemberHost. No I/O, threads or sockets, so tests and the simulator drive
// the same code as the server. Not thread-safe.
//
//   joining -> standby -> taking over -> leading -> joining (deposed) -> ...
//          \-> failed (this node must not go on: error() says why)
//
// What makes it safe is in journal/etcd_append.h; what this adds are order and time. Protocol:
// docs/REPLICATION.md.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/limits.h"
#include "core/machine.h"
#include "engine/clock.h"
#include "engine/detector.h"
#include "engine/engine.h"
#include "engine/recovery.h"
#include "engine/trim_plan.h"
#include "journal/etcd_append.h"
#include "journal/etcd_layout.h"
#include "journal/etcd_wire.h"
#include "journal/snapshot_store.h"

namespace holdfast::engine {

namespace etcd = journal::etcd;

enum class Role : std::uint8_t { kJoining, kStandby, kTakingOver, kLeading, kFailed };
const char* RoleName(Role role);  // "STANDBY"

struct MemberOptions {
  std::string name;            // of this node, unique in the cluster
  std::string address;         // HOST:PORT where its peers reach it
  std::string client_address;  // HOST:PORT where clients reach it
  std::string zone;            // nodes of one zone fail together; may be empty
  std::string prefix = "/holdfast";
  std::uint64_t incarnation = 0;  // of this process: tells its beats from those of an earlier one
  EngineOptions engine;
  DetectorOptions detector;
  Duration tick = Millis(200);
  Duration hold_max = Millis(2);  // a batch waits for requests that are about to come
  // Of the first try; then the same bytes go to the next endpoint, with more time now and then.
  // Short, because a member of etcd may sit on a request for as long as an election takes.
  Duration append_timeout = Millis(200);
  Duration append_timeout_max = Seconds(8);  // etcd itself gives a request up after 7 s
  Duration call_timeout = Seconds(2);
  Duration refuse_after = Seconds(2);  // of a leader without an answer from etcd
  Duration beat = Seconds(2);          // between two writes of the node's record
  Duration alive_for = Seconds(10);    // without a beat
  Duration stand_back = Seconds(3);    // after it has stepped down: others go first
  std::uint32_t feature_level_max = core::kFeatureLevelMax;  // lower only in tests
  // Space quota of the etcd members. At nine tenths of it nothing new is granted; what is held is
  // still renewed and released, and the log trimmed.
  std::uint64_t store_quota_bytes = std::uint64_t{2} << 30U;
  Duration store_checks = Seconds(5);
  std::uint64_t snapshot_bytes = std::uint64_t{64} << 20U;  // of log between two snapshots
  std::uint64_t log_bytes_max = std::uint64_t{512}
                                << 20U;  // then trimming does not wait for slow standbys
};

using CallId = std::uint64_t;
using EtcdWatchId = std::uint64_t;

class MemberHost {
 public:
  virtual ~MemberHost() = default;
  // Exactly one OnAnswer follows; a Failure with kUnknown after `timeout` at the latest. An
  // endpoint that failed is not asked again before the others were.
  virtual void Send(CallId id, const etcd::Txn& txn, Duration timeout) = 0;
  // Watches everything below the prefix, from `revision` on, in place of the watch before.
  virtual void Watch(EtcdWatchId id, etcd::Revision revision) = 0;
  virtual void StopWatch() = 0;
  // A batch has been applied, as leader or as standby. The events may be moved out.
  virtual void OnApplied(const core::Batch& batch, const core::Applied& applied,
                         std::vector<core::Event>& events) = 0;
  virtual void OnRole(Role role) = 0;
  // Serialises the state before it returns, writes it where it likes, and then calls
  // OnSnapshotSaved.
  virtual void SaveSnapshot(const journal::SnapshotHeader& header,
                            const core::Machine& machine) = 0;
  // Asks every endpoint how it is, and calls OnStoreHealth.
  virtual void CheckStore() = 0;
  // Gets a snapshot of at least `index` from one of the addresses, and calls OnSnapshotInstalled or
  // OnSnapshotFailed.
  virtual void FetchSnapshot(std::uint64_t index, const std::vector<std::string>& addresses) = 0;
};

struct MemberStatus {
  std::string name;
  Role role = Role::kJoining;
  std::string leader;  // its name; empty: nobody, as far as this node knows
  std::string leader_address;
  std::string leader_client_address;  // empty: this node, nobody, or not known yet
  std::uint64_t epoch = 0;
  std::uint64_t index = 0;
  double phi = 0;  // of a standby
  std::uint64_t first_index = 0;
  std::uint64_t snapshot_index = 0;
  std::uint64_t takeovers = 0;  // won by this node
  std::uint64_t appends = 0;    // by this node
  std::uint64_t appended_bytes = 0;
  std::uint64_t unknown_appends = 0;  // answers that left open whether an append was done
  std::uint64_t relists = 0;          // the watch had to be begun anew
  bool etcd_answers = true;
  std::vector<etcd::EndpointHealth> store;  // the endpoints, a moment ago
  std::uint64_t store_quota_bytes = 0;
  bool store_full = false;  // nothing new is granted, before its quota is reached
  std::vector<PeerState> peers;
};

enum class StepDownFor : std::uint8_t {
  kNow,  // others go first
  kGood  // this process does not take over any more
};

// Where a request goes.
enum class Route : std::uint8_t {
  kHere,    // Accept takes it
  kLeader,  // leader_address() takes it
  kNowhere  // there is no leader, or it cannot commit: refuse, nothing is done
};

class Member {
 public:
  // `machine` is the state at `start`, the header of the snapshot it came from (all zero: the
  // beginning of the log). `log_id`: of the log that this node has followed before, zero if none.
  Member(MemberHost& host, Clock& clock, const MemberOptions& options,
         std::unique_ptr<core::Machine> machine, const journal::SnapshotHeader& start,
         const Id128& log_id);

  Route RouteOf() const;
  const std::string& leader_address() const { return epoch_.address; }
  // While RouteOf is kNowhere, for the client; nothing was done.
  std::string WhyNowhere() const;
  // Of a front, while RouteOf is kHere.
  void Accept(EngineInput&& input);
  // Replies since the last call.
  EngineOutput TakeOutput() { return std::exchange(output_, {}); }

  void OnAnswer(CallId id, const etcd::Answer& answer);
  void OnNews(EtcdWatchId id, const etcd::WatchNews& news);
  void OnSnapshotSaved(const journal::SnapshotHeader& header, bool saved);
  void OnSnapshotInstalled(const journal::SnapshotHeader& header,
                           std::unique_ptr<core::Machine> machine);
  void OnSnapshotFailed();
  void OnStoreHealth(std::vector<etcd::EndpointHealth>&& store);

  // Does what is due. To be called after every input, once for many of them, and at NextWake().
  void Advance();
  BootTime NextWake() const { return next_wake_; }

  // As leader: commits what is queued, then lets another node lead at once.
  void StepDown(StepDownFor how);
  bool SteppedDown() const {
    return leaving_ && role_ != Role::kLeading && role_ != Role::kTakingOver &&
           step_ != Step::kTakeover;
  }

  // A batch is on its way: what is accepted now waits for its end anyway.
  bool Busy() const { return role_ == Role::kLeading && main_call_ != 0; }

  Role role() const { return role_; }
  const Error& error() const { return error_; }
  const Id128& log_id() const { return log_id_; }
  // As leader: when the last batch was sealed, and how large it was.
  BootTime last_batch_at() const { return last_batch_at_; }
  std::size_t last_batch_bytes() const { return last_batch_bytes_; }
  const core::Machine& machine() const { return engine_ ? engine_->machine() : *machine_; }
  MemberStatus Look() const;
  EngineStats Stats() const { return engine_ ? engine_->Stats() : idle_stats_; }

 private:
  enum class Step : std::uint8_t {
    kNone,
    kReadRecords,
    kBootstrap,
    kList,
    kProbe,
    kTakeover,
    kTail,
    kReserve,
    kAppend,
    kHandOver
  };
  enum class Chore : std::uint8_t {
    kNone,
    kBeat,
    kVerifyTrim,
    kTrimRecord,
    kFindTrimmed,
    kDeleteTrimmed
  };

  // Following: member_follow.cc
  void OnRecords(const etcd::TxnResult& result);
  void OnList(const etcd::TxnResult& result);
  bool CheckLast(const std::vector<etcd::KeyValue>& found);
  bool TakeSlots(const std::vector<etcd::KeyValue>& slots);
  bool Apply(const journal::Entry& entry);
  bool CheckFeatureLevel();
  void OnChanges(const etcd::WatchChanges& changes);
  bool AdoptEpoch(const etcd::KeyValue& pair);
  void NoteTakeover();
  bool AdoptTrim(const etcd::KeyValue& pair);
  bool AdoptFloor(const etcd::KeyValue& pair);
  void Heard();
  void ListAgain();
  void OnProbe(const etcd::Answer& answer);
  void TakeOver();
  void OnTakeover(const etcd::Answer& answer);
  void OnTail(const etcd::TxnResult& result);
  void NeedSnapshot();

  // Leading: member_lead.cc
  void Lead();
  void DriveLeader();
  bool ShouldSeal();
  void AppendNext();
  void OnAppend(const etcd::Answer& answer);
  void OnReserve(const etcd::TxnResult& result);
  void RefuseIfSilent();
  void Resign(const char* why);

  // Upkeep: member_upkeep.cc
  void Upkeep();
  void Beat();
  void OnBeat(const etcd::TxnResult& result);
  void ConsiderTrim();
  void OnVerifyTrim(const etcd::TxnResult& result);
  void FindTrimmed();
  void DeleteTrimmed(const etcd::TxnResult& found);
  void ConsiderSnapshot();
  std::uint64_t SnapshotDelay() const;
  void ConsiderStore();
  etcd::NodeRecord MyRecord() const;

  void Begin(Step step);
  void SendStep();
  etcd::Txn TxnOf(Step step) const;
  void SendChore(Chore chore, const etcd::Txn& txn);
  void OnStep(const etcd::Answer& answer);
  void OnResult(Step step, const etcd::TxnResult& result);
  void OnChore(const etcd::Answer& answer);
  void Again();
  void BecomeRole(Role role);
  void RefusePending();
  void Fail(Error error);
  bool CheckCluster(const etcd::Answer& answer);
  bool CheckRevision(etcd::Revision got, etcd::Revision seen, bool writes);
  static bool TxnWrites(Step step);
  std::string NodeBelow(const EngineInput& input) const;
  std::optional<Error> WhyNot(const EngineInput& input) const;
  void WakeAt(BootTime at) { next_wake_ = std::min(next_wake_, at); }

  MemberHost& host_;
  Clock& clock_;
  const MemberOptions options_;
  const etcd::Layout layout_;

  Role role_ = Role::kJoining;
  Error error_;
  Id128 log_id_{};
  std::uint64_t etcd_cluster_id_ = 0;
  BootTime now_{};  // of this Advance or input
  BootTime advanced_at_{};
  BootTime next_wake_{};
  EngineOutput output_;

  // What is known of the records in etcd.
  etcd::EpochRecord epoch_;
  etcd::Revision epoch_revision_ = 0;
  etcd::TrimRecord trim_;
  etcd::Revision trim_revision_ = 0;
  etcd::FloorRecord floor_;
  etcd::Revision floor_revision_ = 0;

  // The state, while this node does not lead; else the engine has it.
  std::unique_ptr<core::Machine> machine_;
  std::optional<Replayer> replayer_;
  etcd::Follower follower_;
  bool last_checked_ = false;  // the entry that this node ends with is the one of the log

  // The main lane: one call at a time.
  Step step_ = Step::kNone;
  CallId main_call_ = 0;
  BootTime step_began_at_{};
  etcd::Revision seen_revision_ = 0;
  std::string last_failure_;      // of a call, in etcd's words
  std::int64_t list_limit_ = 64;  // slots of one list
  std::int64_t sent_limit_ = 0;   // of the list on its way
  BootTime join_not_before_{};
  BootTime retry_at_{};  // the step is sent again then, if no call is on its way
  int tries_ = 0;        // of the step
  Duration backoff_{};
  CallId next_call_ = 1;

  // Standby.
  Detector detector_;
  EtcdWatchId watch_ = 0;  // 0: none is running
  EtcdWatchId next_watch_ = 1;
  BootTime takeover_not_before_{};
  std::deque<BootTime> takeovers_seen_;  // of late, hand-overs left out
  std::optional<etcd::Takeover> takeover_;
  etcd::EpochRecord my_epoch_;
  bool fetching_snapshot_ = false;
  int slow_probes_ = 0;  // in a row, that were late or failed

  // Leader.
  std::unique_ptr<Engine> engine_;
  std::optional<etcd::Appender> appender_;
  std::vector<EngineInput> pending_;                      // while taking over
  const std::vector<journal::Entry>* entries_ = nullptr;  // of the batch in flight
  std::optional<etcd::Follower> before_batch_;
  std::size_t next_entry_ = 0;
  BootTime last_batch_at_{};
  std::size_t last_batch_bytes_ = 0;
  std::size_t last_answered_ = 0;  // requests that the last batch answered
  Duration commit_time_{};         // of late, smoothed
  BootTime first_queued_at_{};     // of what waits for the next batch; zero: nothing does
  bool stepping_down_ = false;     // a leader that hands over
  bool leaving_ = false;           // it does not take over any more
  bool refusing_ = false;          // etcd has been silent for too long
  std::uint64_t reserving_ = 0;

  // Upkeep.
  Chore chore_ = Chore::kNone;
  CallId chore_call_ = 0;
  etcd::Revision seen_before_chore_ = 0;
  BootTime beat_at_{};
  std::uint64_t beats_ = 0;
  std::map<std::string, PeerState> peers_;
  std::optional<TrimPlan> trim_plan_;
  std::uint64_t log_bytes_ = 0;  // since first_index, about
  std::uint64_t bytes_since_snapshot_ = 0;
  std::uint64_t snapshot_index_ = 0;
  Id128 snapshot_hash_{};
  std::uint64_t covered_by_others_ = 0;  // the log below it is in snapshots of enough other nodes
  bool saving_snapshot_ = false;
  bool made_snapshot_ = false;
  std::vector<etcd::EndpointHealth> store_;
  bool store_full_ = false;
  bool checking_store_ = false;
  BootTime store_check_at_{};

  EngineStats idle_stats_;
  std::uint64_t takeovers_ = 0;
  std::uint64_t appends_ = 0;
  std::uint64_t appended_bytes_ = 0;
  std::uint64_t unknown_appends_ = 0;
  std::uint64_t relists_ = 0;
};

}  // namespace holdfast::engine
