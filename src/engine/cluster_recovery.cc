#include "engine/cluster_recovery.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "core/machine.h"
#include "engine/engine.h"
#include "engine/node_directory.h"
#include "engine/recovery.h"
#include "journal/chain.h"
#include "journal/etcd_append.h"
#include "journal/etcd_layout.h"

namespace holdfast::engine {
namespace {

namespace etcd = journal::etcd;

constexpr const char* kName = "recover";
constexpr int kTries = 20;
constexpr Duration kBetweenTries = Millis(250);
constexpr Duration kBeatsSeen = Seconds(3);  // longer than a node takes between two of them
constexpr std::int64_t kSlotsPerList = 64;

// The records of the old log that are there and whole.
struct Records {
  std::optional<etcd::ClusterRecord> cluster;
  std::optional<etcd::EpochRecord> epoch;
  std::optional<etcd::TrimRecord> trim;
  std::optional<etcd::FloorRecord> floor;
  etcd::Revision epoch_revision = 0;
  std::uint64_t etcd_cluster_id = 0;
  std::map<std::string, etcd::Revision> nodes;
};

template <typename Record>
std::optional<Record> RecordAt(const etcd::TxnResult& result, std::size_t number) {
  const etcd::KeyValue* pair = etcd::FirstOf(result, number);
  if (pair == nullptr) {
    return std::nullopt;
  }
  Result<Record> record = etcd::DecodeRecord<Record>(*pair);
  return record.ok() ? std::optional<Record>(std::move(*record)) : std::nullopt;
}

class Recovery {
 public:
  Recovery(storage::FileSystem& files, Clock& clock, const EtcdCall& call, const Pause& pause,
           const ClusterRecoveryOptions& options)
      : files_(files),
        clock_(clock),
        call_(call),
        pause_(pause),
        options_(options),
        layout_(options.prefix) {}

  Result<ClusterRecoveryReport> Run() {
    for (const auto step : {&Recovery::ReadRecords, &Recovery::NobodyRuns, &Recovery::LoadDirectory,
                            &Recovery::Replay, &Recovery::Decide,
                            // What was appended before the fence belongs to the log too.
                            &Recovery::Fence, &Recovery::Replay, &Recovery::Decide,
                            &Recovery::KeepState, &Recovery::DropSlots, &Recovery::BeginLog}) {
      if (Status done = (this->*step)(); !done.ok()) {
        return done.error();
      }
    }
    return report_;
  }

 private:
  // Asks again as long as the outcome is unknown: every transaction here may be done twice.
  Result<etcd::TxnResult> Call(const etcd::Txn& txn) {
    Error last;
    for (int i = 0; i < kTries; ++i) {
      etcd::Answer answer = call_(txn);
      if (auto* result = std::get_if<etcd::TxnResult>(&answer); result != nullptr) {
        return std::move(*result);
      }
      const auto& failure = std::get<etcd::Failure>(answer);
      last = failure.error;
      if (failure.certainty == etcd::Certainty::kFatal) {
        return last;
      }
      pause_(kBetweenTries);
    }
    return last.WithContext("etcd does not answer");
  }

  Result<Records> Read() {
    etcd::Txn txn;
    txn.then = {etcd::Get{layout_.Cluster(), {}}, etcd::Get{layout_.Epoch(), {}},
                etcd::Get{layout_.Trim(), {}}, etcd::Get{layout_.Floor(), {}},
                etcd::Get{layout_.Nodes(), etcd::PrefixEnd(layout_.Nodes())}};
    const Result<etcd::TxnResult> result = Call(txn);
    if (!result.ok()) {
      return result.error();
    }
    Records records;
    records.cluster = RecordAt<etcd::ClusterRecord>(*result, 0);
    records.epoch = RecordAt<etcd::EpochRecord>(*result, 1);
    records.trim = RecordAt<etcd::TrimRecord>(*result, 2);
    records.floor = RecordAt<etcd::FloorRecord>(*result, 3);
    if (const etcd::KeyValue* epoch = etcd::FirstOf(*result, 1); epoch != nullptr) {
      records.epoch_revision = epoch->mod_revision;
    }
    records.etcd_cluster_id = result->cluster_id;
    for (const etcd::KeyValue& pair : result->gets[4]) {
      records.nodes[pair.key.substr(layout_.Nodes().size())] = pair.mod_revision;
    }
    return records;
  }

  Status ReadRecords() {
    Result<Records> records = Read();
    if (!records.ok()) {
      return records.error();
    }
    records_ = std::move(*records);
    const bool same_etcd =
        records_.cluster && records_.cluster->etcd_cluster_id == records_.etcd_cluster_id;
    if (options_.token_floor == 0 && !(same_etcd && records_.floor)) {
      return InvalidArgument("token_floor", "at least the highest token that anybody has seen",
                             "this etcd was restored or replaced: the token floor in it may be "
                             "older than tokens that are out");
    }
    return {};
  }

  Status NobodyRuns() {
    if (records_.nodes.empty()) {
      return {};
    }
    pause_(kBeatsSeen);
    const Result<Records> later = Read();
    if (!later.ok()) {
      return later.error();
    }
    for (const auto& [name, revision] : later->nodes) {
      const auto before = records_.nodes.find(name);
      if (before == records_.nodes.end() || before->second != revision) {
        return Busy("node " + name + " runs: stop all nodes first");
      }
    }
    return {};
  }

  static Error Busy(std::string message) {
    return Error{ErrorCode::kBusy, std::move(message), {}, {}};
  }

  Status LoadDirectory() {
    machine_ = std::make_unique<core::Machine>();
    if (options_.directory.empty()) {
      return {};
    }
    Result<std::unique_ptr<NodeDirectory>> opened = NodeDirectory::Open(files_, options_.directory);
    if (!opened.ok()) {
      return opened.error();
    }
    directory_ = std::move(*opened);
    if (records_.cluster && !IsZero(directory_->log_id()) &&
        directory_->log_id() != records_.cluster->log_id) {
      return InvalidArgument("data_dir", "a directory of a node of this cluster",
                             options_.directory + " belongs to another log than the one in etcd");
    }
    Result<NodeDirectory::State> state = directory_->Load();
    if (!state.ok()) {
      return state.error();
    }
    machine_ = std::move(state->machine);
    end_ = {{state->header.index, state->header.epoch, state->header.entry_hash},
            state->header.time};
    return {};
  }

  // From here on no node that comes to life can append.
  Status Fence() {
    mine_.epoch = std::max(
        {mine_.epoch, (records_.epoch ? records_.epoch->epoch : 0) + 1, end_.last.epoch + 1});
    mine_.node = kName;
    mine_.attempt = RandomId();
    etcd::Takeover takeover(layout_, mine_, records_.epoch_revision);
    const Result<etcd::TxnResult> result = Call(takeover.txn());
    if (!result.ok()) {
      return result.error();
    }
    switch (takeover.OnAnswer(*result)) {
      case etcd::Takeover::Verdict::kWon:
        break;
      case etcd::Takeover::Verdict::kBroken:
        return takeover.error();
      case etcd::Takeover::Verdict::kAgain:
      case etcd::Takeover::Verdict::kLost:
        return Busy("a node has taken over meanwhile: stop all nodes first");
    }
    epoch_revision_ = takeover.epoch_revision();
    return {};
  }

  // As far as the log continues the state, in whole batches.
  Status Replay() {
    etcd::Follower follower(layout_, end_);
    Replayer replayer(*machine_);
    journal::Entry entry;
    bool goes_on = true;
    while (goes_on) {
      etcd::Txn txn;
      txn.then = {etcd::Get{layout_.Slot(follower.last().index + 1),
                            etcd::PrefixEnd(layout_.Slots()), kSlotsPerList}};
      const Result<etcd::TxnResult> result = Call(txn);
      if (!result.ok()) {
        return result.error();
      }
      goes_on = std::ssize(result->gets[0]) == kSlotsPerList;
      for (const etcd::KeyValue& slot : result->gets[0]) {
        if (follower.Take(slot, entry) != etcd::Follower::Verdict::kNext ||
            !replayer.Feed(entry).ok()) {
          return {};
        }
        mine_.epoch = std::max(mine_.epoch, entry.epoch + 1);
        if (replayer.completed()) {
          end_ = {follower.last(), entry.time};
        }
      }
    }
    return {};
  }

  Status Decide() {
    const std::uint64_t floor = records_.floor ? records_.floor->token_floor : 0;
    report_.token_floor = std::max({options_.token_floor, floor, machine_->last_token()});
    const bool all_lost = end_.last.index == 0;
    if (all_lost && options_.block == Duration::zero()) {
      return InvalidArgument("block", "at least the longest ttl and lock-delay of any namespace",
                             "nothing of the state is left to tell how long its promises last");
    }
    const Duration left = all_lost ? Duration::zero() : machine_->LongestPromise();
    report_.block = std::max(options_.block, left) + EngineOptions{}.failover_grace;
    report_.state_index = end_.last.index;
    report_.log_id = RandomId();
    return {};
  }

  // The state is on disk before anything of the log is dropped.
  Status KeepState() {
    if (directory_ == nullptr) {
      return {};
    }
    if (end_.last.index > 0) {
      journal::SnapshotHeader header;
      header.index = end_.last.index;
      header.epoch = end_.last.epoch;
      header.entry_hash = end_.last.hash;
      header.time = machine_->now();
      std::string payload;
      machine_->Save([&](std::string_view piece) { payload.append(piece); });
      if (Status saved = directory_->Save(header, {payload}); !saved.ok()) {
        return saved;
      }
    }
    return directory_->SetLogId(Id128{});  // it belongs to the log that begins now
  }

  etcd::Guard Guard() const {
    return {layout_.Epoch(), etcd::Guard::Of::kModified, epoch_revision_};
  }

  // What the nodes said of their disks is no longer true either.
  Status DropSlots() {
    const std::string end = etcd::PrefixEnd(layout_.Slots());
    etcd::Txn count;
    count.then = {etcd::Get{layout_.Slot(end_.last.index + 1), end, 0, true}};
    const Result<etcd::TxnResult> beyond = Call(count);
    if (!beyond.ok()) {
      return beyond.error();
    }
    report_.entries_dropped = beyond->gets[0].size();
    etcd::Txn txn;
    txn.guards = {Guard()};
    txn.then = {etcd::Delete{directory_ != nullptr || end_.last.index == 0
                                 ? layout_.Slot(0)
                                 : layout_.Slot(end_.last.index + 1),
                             end},
                etcd::Delete{layout_.Nodes(), etcd::PrefixEnd(layout_.Nodes())}};
    const Result<etcd::TxnResult> dropped = Call(txn);
    if (!dropped.ok()) {
      return dropped.error();
    }
    return dropped->succeeded ? Status{} : Busy("a node has taken over meanwhile: stop all nodes");
  }

  Status BeginLog() {
    EngineOptions engine_options;
    engine_options.epoch = mine_.epoch;
    engine_options.log_time = end_.time;
    Engine engine(std::move(machine_), end_.last, engine_options,
                  core::RecoverState{report_.token_floor, report_.block});
    report_.epoch = mine_.epoch;
    etcd::EpochRecord vacant = mine_;
    vacant.vacant = true;
    etcd::Txn txn;
    txn.guards = {Guard()};
    txn.then = {
        etcd::Put{layout_.Cluster(), etcd::EncodeRecord(etcd::ClusterRecord{
                                         1, report_.log_id, records_.etcd_cluster_id})},
        etcd::Put{layout_.Epoch(), etcd::EncodeRecord(vacant)},
        etcd::Put{layout_.Trim(), etcd::EncodeRecord(etcd::TrimRecord{
                                      directory_ != nullptr ? end_.last.index + 1 : 1})},
        etcd::Put{layout_.Floor(), etcd::EncodeRecord(etcd::FloorRecord{report_.token_floor})}};
    for (const journal::Entry& entry : engine.Seal(clock_)) {
      txn.then.emplace_back(etcd::Put{layout_.Slot(entry.index), etcd::EncodeEntry(entry)});
    }
    txn.otherwise = {etcd::Get{layout_.Epoch(), {}}};
    const Result<etcd::TxnResult> begun = Call(txn);
    if (!begun.ok()) {
      return begun.error();
    }
    if (!begun->succeeded) {
      const auto epoch = RecordAt<etcd::EpochRecord>(*begun, 0);
      if (!epoch || epoch->attempt != mine_.attempt || !epoch->vacant) {
        return Busy("a node has taken over meanwhile: stop all nodes first");
      }
    }
    return directory_ != nullptr ? directory_->SetLogId(report_.log_id) : Status{};
  }

  storage::FileSystem& files_;
  Clock& clock_;
  const EtcdCall& call_;
  const Pause& pause_;
  const ClusterRecoveryOptions& options_;
  const etcd::Layout layout_;

  Records records_;
  std::unique_ptr<NodeDirectory> directory_;
  std::unique_ptr<core::Machine> machine_;
  journal::ChainEnd end_;  // where the state is
  etcd::EpochRecord mine_;
  etcd::Revision epoch_revision_ = 0;
  ClusterRecoveryReport report_;
};

}  // namespace

Result<ClusterRecoveryReport> RecoverCluster(storage::FileSystem& files, Clock& clock,
                                             const EtcdCall& call, const Pause& pause,
                                             const ClusterRecoveryOptions& options) {
  return Recovery(files, clock, call, pause, options).Run();
}

}  // namespace holdfast::engine
