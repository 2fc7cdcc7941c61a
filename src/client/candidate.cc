#include "holdfast/candidate.h"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "base/id.h"
#include "holdfast/client.h"

namespace holdfast::client {
namespace {

constexpr Duration kStandDefault = Seconds(60);

// Asking again would give the same.
bool IsRefusedForGood(const LockUpdate& update) {
  if (update.refusal.has_value()) {
    return update.refusal->code == RefusalCode::kFencingRequired;
  }
  if (update.state != LockState::kNotAcquired || !update.error.has_value()) {
    return false;
  }
  const ErrorCode code = update.error->code;
  return code == ErrorCode::kInvalidArgument || code == ErrorCode::kUnauthenticated ||
         code == ErrorCode::kPermissionDenied || code == ErrorCode::kNotFound ||
         code == ErrorCode::kUnsupported;
}

// Between half of it and the whole, so that candidates that failed together do not stay together.
Duration Jittered(Duration pause) {
  std::uint32_t bits = 0;
  const Id128 random = RandomId();
  std::memcpy(&bits, random.data(), sizeof bits);
  return pause / 2 + (pause / 2) * (bits % 1024) / 1024;
}

}  // namespace

class Leadership::Impl {
 public:
  Impl(Client& client, const ElectionGoal& goal, LeaderWork work)
      : client_(client), goal_(goal), work_(std::move(work)), thread_([this] { Run(); }) {}

  ~Impl() {
    Stop();
    thread_.join();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Result<ProclaimResult> Proclaim(const std::string& value) {
    const LockUpdate update = Current();
    return client_.Proclaim({.namespace_name = goal_.campaign.acquire.namespace_name,
                             .resource = goal_.campaign.acquire.resource,
                             .lease_id = update.grant.has_value() ? update.grant->lease_id : "",
                             .value = value});
  }

  LockUpdate Current() const {
    const std::shared_ptr<Hold> hold = TheHold();
    return hold == nullptr ? LockUpdate{} : hold->Current();
  }
  bool IsLeader() const {
    const std::shared_ptr<Hold> hold = TheHold();
    return hold != nullptr && hold->EnsureHeld();
  }
  bool GivenUp() const {
    const std::lock_guard lock(mutex_);
    return given_up_;
  }

  void Stop() {
    std::shared_ptr<Hold> hold;
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
      hold = hold_;
    }
    changed_.notify_all();
    if (hold != nullptr) {
      hold->Release();  // outside the mutex: it may run stop callbacks of the work
    }
  }

 private:
  void Run() {
    while (const std::shared_ptr<Hold> hold = Campaign()) {
      if (!IsFinal(hold->WaitUntilAcquired().state)) {
        if (auto work = hold->BeginWork(); work.has_value()) {
          Leadership term(*this, *work);
          work_(term);
        }
      }
      hold->Release();
      const LockUpdate end = hold->WaitUntilOver();
      std::unique_lock lock(mutex_);
      if (IsRefusedForGood(end)) {
        given_up_ = true;
        return;
      }
      changed_.wait_for(lock, Jittered(goal_.pause), [this] { return stopped_; });
    }
  }

  // Null when it was stopped.
  std::shared_ptr<Hold> Campaign() {
    LockGoal goal{.acquire = goal_.campaign.acquire,
                  .value = goal_.campaign.value,
                  .stop_time = goal_.stop_time};
    if (goal.acquire.wait == Duration::zero()) {
      goal.acquire.wait = kStandDefault;
    }
    const std::lock_guard lock(mutex_);
    if (stopped_) {
      return nullptr;
    }
    hold_ = client_.Lock(goal);
    return hold_;
  }

  std::shared_ptr<Hold> TheHold() const {
    const std::lock_guard lock(mutex_);
    return hold_;
  }

  Client& client_;
  const ElectionGoal goal_;
  const LeaderWork work_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::shared_ptr<Hold> hold_;
  bool stopped_ = false;
  bool given_up_ = false;

  std::thread thread_;  // last: it uses all of the above
};

Result<ProclaimResult> Leadership::Proclaim(const std::string& value) {
  return impl_.Proclaim(value);
}

Candidate::Candidate(std::unique_ptr<Leadership::Impl> impl) : impl_(std::move(impl)) {}

Candidate::~Candidate() = default;

bool Candidate::IsLeader() const {
  return impl_->IsLeader();
}

LockUpdate Candidate::Current() const {
  return impl_->Current();
}

bool Candidate::GivenUp() const {
  return impl_->GivenUp();
}

void Candidate::Stop() {
  impl_->Stop();
}

std::unique_ptr<Candidate> Client::Lead(const ElectionGoal& goal, LeaderWork work) {
  return std::make_unique<Candidate>(
      std::make_unique<Leadership::Impl>(*this, goal, std::move(work)));
}

}  // namespace holdfast::client
