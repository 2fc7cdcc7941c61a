// The thin shell of a replicated node: a thread that drives the Member, and one for the chores that
// take long (writing, fetching and loading snapshots). Requests go to this node's engine while it
// leads, else over a link to the leader.
//
// Unlike the embedded runner it has an engine thread: a commit takes a round trip through etcd, for
// which no front may wait.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "engine/batch_meter.h"
#include "engine/clock.h"
#include "engine/front_table.h"
#include "engine/member.h"
#include "engine/node_directory.h"
#include "engine/piece_buffer.h"
#include "engine/ports.h"
#include "engine/router.h"
#include "engine/runner.h"

namespace holdfast::engine {

struct ReplicatedOptions {
  std::string data_directory;
  MemberOptions member;
  Duration hand_over_timeout = Seconds(2);  // of Stop
};

class ReplicatedRunner : public Runner, private MemberHost, private PortSink {
 public:
  // Loads the newest snapshot and begins to join; requests are refused until there is a leader.
  // Errors: those of NodeDirectory and of the ports.
  static Result<std::unique_ptr<ReplicatedRunner>> Start(storage::FileSystem& files, Clock& clock,
                                                         const ReplicatedOptions& options,
                                                         const PortFactory& make_ports);
  ~ReplicatedRunner() override;

  FrontId Attach(Front& front) override;
  // A front whose requests come from a peer: they are never passed on once more.
  FrontId AttachPeer(Front& front);
  void Detach(FrontId front) override;
  void Submit(FrontId front, std::vector<Proposal>&& proposals) override;
  void Abandon(FrontId front, std::vector<std::uint64_t>&& tags) override;
  void AddObserver(Observer& observer) override;
  WatchHub& watches() override { return watches_; }
  RunnerStats Stats() const override;
  // Hands over first if it leads.
  void Stop() override;
  bool StepDown() override;
  std::string LeaderForClients() const override;

  // For a peer; any thread.
  Result<journal::Snapshot> NewestSnapshot();

 private:
  ReplicatedRunner(storage::FileSystem& files, Clock& clock, const ReplicatedOptions& options);

  // MemberHost; the engine thread.
  void Send(CallId id, const etcd::Txn& txn, Duration timeout) override;
  void Watch(EtcdWatchId id, etcd::Revision revision) override;
  void StopWatch() override;
  void OnApplied(const core::Batch& batch, const core::Applied& applied,
                 std::vector<core::Event>& events) override;
  void OnRole(Role role) override;
  void SaveSnapshot(const journal::SnapshotHeader& header, const core::Machine& machine) override;
  void CheckStore() override;
  void FetchSnapshot(std::uint64_t index, const std::vector<std::string>& addresses) override;

  // PortSink; any thread.
  void OnEtcdAnswer(std::uint64_t id, etcd::Answer&& answer) override;
  void OnEtcdNews(std::uint64_t watch, etcd::WatchNews&& news) override;
  void OnPeerFrame(std::uint64_t link, std::string&& frame) override;
  void OnPeerBroken(std::uint64_t link) override;

  void Loop();
  void Post(std::function<void()> task);
  void Submit(std::vector<EngineInput>&& inputs);
  void Take(EngineInput&& input);
  void Publish();
  void Chores();
  void Chore(std::function<void()> work);
  Status SaveSlowly(const journal::SnapshotHeader& header,
                    const std::vector<std::string_view>& pieces);
  void Fetch(std::uint64_t index, const std::vector<std::string>& addresses);

  Clock& clock_;
  const ReplicatedOptions options_;
  storage::FileSystem& files_;
  WatchHub watches_;
  BatchMeter meter_;
  BootTime started_at_{};

  // Only the engine thread.
  std::unique_ptr<Member> member_;
  std::optional<Router> router_;
  EngineOutput output_;
  BootTime published_at_{};
  // Of the snapshot that is being written, one at a time; the chores thread reads it.
  PieceBuffer snapshot_buffer_;
  bool log_id_known_ = false;
  bool joined_ = false;  // it has been at the end of the log once

  // Under inbox_mutex_.
  std::mutex inbox_mutex_;
  std::condition_variable inbox_changed_;
  std::vector<EngineInput> inputs_;
  std::vector<std::function<void()>> tasks_;
  bool wake_for_inputs_ = true;  // not while an append is on its way: its end takes them all
  bool stopping_ = false;
  std::atomic<std::size_t> inbox_size_{0};
  std::atomic<std::size_t> news_bytes_{0};

  // Under fronts_mutex_, which the engine thread holds while it delivers.
  std::mutex fronts_mutex_;
  FrontTable fronts_;
  std::set<FrontId> peer_fronts_;
  std::vector<Observer*> observers_;

  mutable std::mutex stats_mutex_;
  RunnerStats stats_;
  std::atomic<bool> follows_{false};  // somebody else leads
  bool stopped_ = false;

  // Under chores_mutex_, except the directory: only the chores thread.
  std::mutex chores_mutex_;
  std::condition_variable chores_changed_;
  std::deque<std::function<void()>> chores_;
  bool chores_stop_ = false;
  std::unique_ptr<NodeDirectory> directory_;

  Ports ports_;
  std::thread chores_thread_;
  std::thread thread_;
};

}  // namespace holdfast::engine
