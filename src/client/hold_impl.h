// The inside of Hold and Session, for client.cc and held.cc only.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "client/lock_flow.h"
#include "client/runner.h"
#include "client/session_flow.h"
#include "holdfast/hold.h"

namespace holdfast::client {

// The last update of a machine on the background thread, for everybody else, and the user's
// callback.
template <typename Update, typename State>
class Published {
 public:
  explicit Published(std::function<void(const Update&)> callback)
      : callback_(std::move(callback)) {}

  // Background thread. The callback runs only when the state changes, and before those who wait for
  // that state go on.
  void Publish(const Update& update) {
    bool changed = false;
    {
      const std::lock_guard lock(mutex_);
      changed = !published_ || update.state != current_.state;
      current_ = update;
      published_ = true;
    }
    if (!changed) {
      return;
    }
    {
      const std::lock_guard lock(callback_mutex_);
      if (callback_) {
        callback_(update);
      }
    }
    {
      const std::lock_guard lock(mutex_);
      announced_ = update.state;
    }
    changed_.notify_all();
  }
  // Waits for a callback that is running; none starts afterwards.
  void StopCallbacks() {
    const std::lock_guard lock(callback_mutex_);
    callback_ = nullptr;
  }

  Update Current() const {
    const std::lock_guard lock(mutex_);
    return current_;
  }
  template <typename Predicate>
  Update WaitFor(Predicate predicate) const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return predicate(announced_); });
    return current_;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  // Guarded by mutex_.
  Update current_;
  State announced_{};
  bool published_ = false;

  std::mutex callback_mutex_;  // held while a callback runs
  std::function<void(const Update&)> callback_;
};

class Session::Impl {
 public:
  Impl(Runner& owner, const FlowOptions& flow_options, SessionCallback callback)
      : runner(owner), options(flow_options), published(std::move(callback)) {}

  Runner& runner;
  const FlowOptions options;
  Published<SessionUpdate, SessionState> published;
  std::weak_ptr<SessionFlow> session;  // background thread only
};

class Hold::Impl {
 public:
  Impl(Runner& owner, LockCallback callback) : runner(owner), published(std::move(callback)) {}

  Runner& runner;
  Published<LockUpdate, LockState> published;
  std::atomic<bool> released{false};  // by its user, whatever the machine knows of it yet
  std::weak_ptr<LockFlow> flow;       // background thread only
};

std::unique_ptr<Hold> StartLock(Runner& runner, const LockGoal& goal, const FlowOptions& options,
                                LockCallback on_update);
std::unique_ptr<Session> StartSession(Runner& runner, const SessionGoal& goal,
                                      const FlowOptions& options, SessionCallback on_update);

}  // namespace holdfast::client
