#include "engine/replicated_runner.h"

#include <algorithm>
#include <utility>

#include <pthread.h>

#include "base/check.h"
#include "base/log.h"

namespace holdfast::engine {
namespace {

constexpr Duration kPublishInterval = Millis(100);
constexpr Duration kHealthTimeout = Millis(500);
// After each megabyte of a snapshot: at most 50 MB a second.
constexpr Duration kSavePauseMin = Millis(20);
constexpr Duration kSavePauseMax = Millis(500);
// Of the watch, not taken yet. Beyond it the node is slower than the log: it lists, at its own
// pace.
constexpr std::size_t kNewsBytesMax = std::size_t{64} << 20U;

}  // namespace

Result<std::unique_ptr<ReplicatedRunner>> ReplicatedRunner::Start(storage::FileSystem& files,
                                                                  Clock& clock,
                                                                  const ReplicatedOptions& options,
                                                                  const PortFactory& make_ports) {
  std::unique_ptr<ReplicatedRunner> runner(new ReplicatedRunner(files, clock, options));
  Result<std::unique_ptr<NodeDirectory>> directory =
      NodeDirectory::Open(files, options.data_directory);
  if (!directory.ok()) {
    return directory.error();
  }
  runner->directory_ = std::move(*directory);
  Result<NodeDirectory::State> state = runner->directory_->Load();
  if (!state.ok()) {
    return state.error();
  }
  log::Info("node={} data_dir={} snapshot={}", options.member.name, options.data_directory,
            state->header.index);
  runner->started_at_ = clock.Boot();
  runner->watches_.StartAt(state->header.index);
  runner->log_id_known_ = !IsZero(runner->directory_->log_id());
  MemberHost& host = *runner;
  runner->member_ = std::make_unique<Member>(host, clock, options.member, std::move(state->machine),
                                             state->header, runner->directory_->log_id());
  Result<Ports> ports = make_ports(*runner);
  if (!ports.ok()) {
    return ports.error();
  }
  runner->ports_ = std::move(*ports);
  runner->router_.emplace(*runner->member_, *runner->ports_.peers);
  runner->chores_thread_ = std::thread([&self = *runner] {
    pthread_setname_np(pthread_self(), "chores");
    self.Chores();
  });
  runner->thread_ = std::thread([&self = *runner] {
    pthread_setname_np(pthread_self(), "engine");
    self.Loop();
  });
  return runner;
}

ReplicatedRunner::ReplicatedRunner(storage::FileSystem& files, Clock& clock,
                                   const ReplicatedOptions& options)
    : clock_(clock), options_(options), files_(files) {}

ReplicatedRunner::~ReplicatedRunner() {
  Stop();
}

FrontId ReplicatedRunner::Attach(Front& front) {
  const std::lock_guard lock(fronts_mutex_);
  return fronts_.Attach(front);
}

FrontId ReplicatedRunner::AttachPeer(Front& front) {
  const std::lock_guard lock(fronts_mutex_);
  const FrontId id = fronts_.Attach(front);
  peer_fronts_.insert(id);
  return id;
}

void ReplicatedRunner::Detach(FrontId front) {
  {
    const std::lock_guard lock(fronts_mutex_);
    fronts_.Detach(front);
    peer_fronts_.erase(front);
  }
  std::vector<EngineInput> inputs(1);
  inputs[0].kind = EngineInput::Kind::kFrontGone;
  inputs[0].front = front;
  Submit(std::move(inputs));
}

void ReplicatedRunner::Submit(FrontId front, std::vector<Proposal>&& proposals) {
  std::vector<EngineInput> inputs;
  inputs.reserve(proposals.size());
  for (Proposal& proposal : proposals) {
    inputs.push_back(EngineInput{EngineInput::Kind::kPropose, front, std::move(proposal)});
  }
  Submit(std::move(inputs));
}

void ReplicatedRunner::Abandon(FrontId front, std::vector<std::uint64_t>&& tags) {
  std::vector<EngineInput> inputs;
  for (const std::uint64_t tag : tags) {
    inputs.push_back(EngineInput{EngineInput::Kind::kAbandon, front, Proposal{tag, {}}});
  }
  Submit(std::move(inputs));
}

void ReplicatedRunner::Submit(std::vector<EngineInput>&& inputs) {
  const std::lock_guard lock(inbox_mutex_);
  for (EngineInput& input : inputs) {
    inputs_.push_back(std::move(input));
  }
  inbox_size_ = inputs_.size();
  if (wake_for_inputs_) {
    inbox_changed_.notify_one();
  }
}

void ReplicatedRunner::Post(std::function<void()> task) {
  const std::lock_guard lock(inbox_mutex_);
  tasks_.push_back(std::move(task));
  inbox_changed_.notify_one();
}

void ReplicatedRunner::AddObserver(Observer& observer) {
  const std::lock_guard lock(fronts_mutex_);
  observers_.push_back(&observer);
}

void ReplicatedRunner::Loop() {
  std::vector<EngineInput> inputs;
  std::vector<std::function<void()>> tasks;
  member_->Advance();
  while (true) {
    {
      std::unique_lock lock(inbox_mutex_);
      wake_for_inputs_ = !member_->Busy();
      const auto pause = std::max(member_->NextWake() - clock_.Boot(), Duration::zero());
      inbox_changed_.wait_for(lock, pause, [this] {
        return stopping_ || !tasks_.empty() || (wake_for_inputs_ && !inputs_.empty());
      });
      if (stopping_) {
        return;
      }
      inputs.swap(inputs_);
      tasks.swap(tasks_);
      inbox_size_ = 0;
    }
    for (const std::function<void()>& task : tasks) {
      task();
    }
    tasks.clear();
    for (EngineInput& input : inputs) {
      Take(std::move(input));
    }
    inputs.clear();
    member_->Advance();
    router_->Flush(output_);
    EngineOutput own = member_->TakeOutput();
    std::move(own.replies.begin(), own.replies.end(), std::back_inserter(output_.replies));
    if (!output_.replies.empty()) {
      const std::lock_guard lock(fronts_mutex_);
      fronts_.Deliver(output_);
    }
    Publish();
  }
}

void ReplicatedRunner::Take(EngineInput&& input) {
  bool from_peer = false;
  if (member_->RouteOf() == Route::kLeader) {  // else it makes no difference
    const std::lock_guard lock(fronts_mutex_);
    from_peer = peer_fronts_.count(input.front) > 0;
  }
  router_->Take(std::move(input), from_peer, output_);
}

void ReplicatedRunner::OnPeerFrame(std::uint64_t link, std::string&& frame) {
  Post([this, link, frame = std::move(frame)] { router_->OnFrame(link, frame, output_); });
}

void ReplicatedRunner::OnPeerBroken(std::uint64_t link) {
  Post([this, link] { router_->OnBroken(link, output_); });
}

void ReplicatedRunner::OnEtcdAnswer(std::uint64_t id, etcd::Answer&& answer) {
  Post([this, id, answer = std::move(answer)] { member_->OnAnswer(id, answer); });
}

void ReplicatedRunner::OnEtcdNews(std::uint64_t watch, etcd::WatchNews&& news) {
  std::size_t bytes = 0;
  if (const auto* changes = std::get_if<etcd::WatchChanges>(&news); changes != nullptr) {
    for (const etcd::Change& change : changes->changes) {
      bytes += change.pair.value.size();
    }
  }
  if (news_bytes_ + bytes > kNewsBytesMax) {
    news = etcd::WatchEnd{Error{ErrorCode::kOverloaded, "this node is behind", {}, {}}};
    bytes = 0;
  }
  news_bytes_ += bytes;
  Post([this, watch, bytes, news = std::move(news)] {
    news_bytes_ -= bytes;
    member_->OnNews(watch, news);
  });
}

void ReplicatedRunner::Send(CallId id, const etcd::Txn& txn, Duration timeout) {
  ports_.etcd->Send(id, txn, timeout);
}

void ReplicatedRunner::Watch(EtcdWatchId id, etcd::Revision revision) {
  ports_.etcd->Watch(id, revision);
}

void ReplicatedRunner::StopWatch() {
  ports_.etcd->StopWatch();
}

void ReplicatedRunner::OnApplied(const core::Batch& batch, const core::Applied& applied,
                                 std::vector<core::Event>& events) {
  if (joined_) {  // what it replays when it starts was seen by the process before
    const std::lock_guard lock(fronts_mutex_);
    for (Observer* observer : observers_) {
      observer->OnApplied(batch, applied);
    }
  }
  if (member_->role() == Role::kLeading) {
    meter_.Record(clock_.Boot() - member_->last_batch_at(), batch.commands.size(),
                  member_->last_batch_bytes());
  }
  watches_.Publish(batch.index, batch.wall, events);
}

void ReplicatedRunner::OnRole(Role role) {
  published_at_ = BootTime{};
  joined_ = joined_ || role == Role::kStandby;
  if (!log_id_known_ && !IsZero(member_->log_id())) {
    log_id_known_ = true;
    Chore([this, id = member_->log_id()] {
      if (const Status set = directory_->SetLogId(id); !set.ok()) {
        log::Error("the name of the log is not kept error=\"{}\"", set.error().message);
      }
    });
  }
}

void ReplicatedRunner::SaveSnapshot(const journal::SnapshotHeader& header,
                                    const core::Machine& machine) {
  const BootTime begun = clock_.Boot();
  snapshot_buffer_.Clear();
  machine.Save([this](std::string_view piece) { snapshot_buffer_.Append(piece); });
  const Duration held_up = clock_.Boot() - begun;
  Chore([this, header, held_up] {
    const Status saved = SaveSlowly(header, snapshot_buffer_.View());
    if (saved.ok()) {
      log::Info("snapshot written index={} bytes={} held_up_ms={}", header.index,
                snapshot_buffer_.size(), ToMillis(held_up));
      const std::lock_guard lock(stats_mutex_);
      stats_.shadow.snapshot_index = header.index;
      stats_.shadow.snapshot_at = clock_.Wall();
      ++stats_.shadow.snapshots;
    } else {
      log::Error("snapshot failed error=\"{}\"", saved.error().message);
    }
    Post([this, header, ok = saved.ok()] { member_->OnSnapshotSaved(header, ok); });
  });
}

void ReplicatedRunner::CheckStore() {
  Chore([this] {
    auto store =
        std::make_shared<std::vector<etcd::EndpointHealth>>(ports_.etcd->Health(kHealthTimeout));
    Post([this, store] { member_->OnStoreHealth(std::move(*store)); });
  });
}

void ReplicatedRunner::FetchSnapshot(std::uint64_t index,
                                     const std::vector<std::string>& addresses) {
  Chore([this, index, addresses] { Fetch(index, addresses); });
}

void ReplicatedRunner::Fetch(std::uint64_t index, const std::vector<std::string>& addresses) {
  for (const std::string& address : addresses) {
    {
      const std::lock_guard lock(chores_mutex_);
      if (chores_stop_) {
        return;
      }
    }
    const Result<journal::Snapshot> snapshot = ports_.peers->FetchSnapshot(address, index);
    if (!snapshot.ok()) {
      log::Warning("no snapshot from peer={} error=\"{}\"", address, snapshot.error().message);
      continue;
    }
    Result<std::unique_ptr<core::Machine>> machine = core::Machine::Load(snapshot->payload);
    if (!machine.ok()) {
      log::Error("the snapshot of peer={} does not load error=\"{}\"", address,
                 machine.error().message);
      continue;
    }
    if (const Status saved = SaveSlowly(snapshot->header, {snapshot->payload}); !saved.ok()) {
      log::Error("a snapshot of a peer is not kept error=\"{}\"", saved.error().message);
      continue;
    }
    log::Info("snapshot received peer={} index={} bytes={}", address, snapshot->header.index,
              snapshot->payload.size());
    auto state = std::make_shared<std::unique_ptr<core::Machine>>(std::move(*machine));
    Post([this, header = snapshot->header, state] {
      watches_.Skip(header.index);
      member_->OnSnapshotInstalled(header, std::move(*state));
    });
    return;
  }
  Post([this] { member_->OnSnapshotFailed(); });
}

// Beside the chores thread: a snapshot that is removed meanwhile stays readable while it is open.
Result<journal::Snapshot> ReplicatedRunner::NewestSnapshot() {
  return journal::SnapshotStore(files_, options_.data_directory).LoadNewest();
}

// A snapshot of hundreds of megabytes, written as fast as the disk takes it, would hold up every
// append of an etcd member on the same disk for seconds. It gets a quarter of the disk's time.
Status ReplicatedRunner::SaveSlowly(const journal::SnapshotHeader& header,
                                    const std::vector<std::string_view>& pieces) {
  BootTime begun = clock_.Boot();
  return directory_->Save(header, pieces, [this, &begun] {
    const Duration pause =
        std::clamp<Duration>(3 * (clock_.Boot() - begun), kSavePauseMin, kSavePauseMax);
    std::unique_lock lock(chores_mutex_);
    chores_changed_.wait_for(lock, pause, [this] { return chores_stop_; });
    begun = clock_.Boot();
  });
}

void ReplicatedRunner::Chore(std::function<void()> work) {
  const std::lock_guard lock(chores_mutex_);
  chores_.push_back(std::move(work));
  chores_changed_.notify_one();
}

void ReplicatedRunner::Chores() {
  while (true) {
    std::function<void()> work;
    {
      std::unique_lock lock(chores_mutex_);
      chores_changed_.wait(lock, [this] { return chores_stop_ || !chores_.empty(); });
      if (chores_stop_) {
        return;
      }
      work = std::move(chores_.front());
      chores_.pop_front();
    }
    work();
  }
}

// The engine's numbers after each turn, those of the member, which cost more, now and then.
void ReplicatedRunner::Publish() {
  const BootTime now = clock_.Boot();
  const bool all = now - published_at_ >= kPublishInterval;
  const std::lock_guard lock(stats_mutex_);
  stats_.engine = member_->Stats();
  if (all) {
    published_at_ = now;
    stats_.member = member_->Look();
    follows_ = !stats_.member->leader_client_address.empty();
    stats_.accepting_writes = member_->RouteOf() != Route::kNowhere;
    stats_.journal_first_index = stats_.member->first_index;
    stats_.journal.appends = stats_.member->appends;
    stats_.journal.bytes_appended = stats_.member->appended_bytes;
  }
}

RunnerStats ReplicatedRunner::Stats() const {
  RunnerStats stats;
  {
    const std::lock_guard lock(stats_mutex_);
    stats = stats_;
  }
  stats.started_at = started_at_;
  stats.inbox = inbox_size_;
  meter_.Read(stats);
  return stats;
}

std::string ReplicatedRunner::LeaderForClients() const {
  if (!follows_) {
    return {};
  }
  const std::lock_guard lock(stats_mutex_);
  return stats_.member->leader_client_address;
}

bool ReplicatedRunner::StepDown() {
  Post([this] { member_->StepDown(StepDownFor::kNow); });
  return true;
}

void ReplicatedRunner::Stop() {
  if (std::exchange(stopped_, true) || !thread_.joinable()) {
    return;
  }
  std::mutex mutex;
  std::condition_variable changed;
  bool handed_over = false;
  Post([this] { member_->StepDown(StepDownFor::kGood); });
  const BootTime until = clock_.Boot() + options_.hand_over_timeout;
  while (!handed_over && clock_.Boot() < until) {
    std::unique_lock lock(mutex);
    Post([&] {
      const std::lock_guard inner(mutex);
      handed_over = member_->SteppedDown();
      changed.notify_one();
    });
    changed.wait(lock);
  }
  {
    const std::lock_guard lock(inbox_mutex_);
    stopping_ = true;
    inbox_changed_.notify_one();
  }
  thread_.join();
  {
    const std::lock_guard lock(chores_mutex_);
    chores_stop_ = true;
    chores_changed_.notify_one();
  }
  ports_.peers->Close();  // a snapshot that is on its way is given up
  chores_thread_.join();
  ports_ = {};
}

}  // namespace holdfast::engine
