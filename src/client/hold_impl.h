// The inside of Hold and Session, for the files that make them.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>

#include "client/lock_flow.h"
#include "client/runner.h"
#include "client/session_flow.h"
#include "holdfast/hold.h"
#include "holdfast/session.h"

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

class Hold::Impl : public std::enable_shared_from_this<Hold::Impl> {
 public:
  Impl(Runner& owner, std::string name, LockCallback callback)
      : runner(owner), resource(std::move(name)), published(std::move(callback)) {}

  // By the background thread, for each change.
  void Publish(const LockUpdate& update);
  // Whether the lock may be used, whatever its user wants.
  bool IsHeld() const;

  // False if it is released already, or not held.
  bool BeginWork();
  void EndWork();
  void Release();
  bool released() const;

  Runner& runner;
  const std::string resource;
  Published<LockUpdate, LockState> published;
  std::stop_source stop;
  std::weak_ptr<LockFlow> flow;  // background thread only

 private:
  void GiveBack();

  mutable std::mutex mutex_;
  std::size_t works_ = 0;  // guarded by mutex_, as is released_
  bool released_ = false;
};

std::unique_ptr<Hold> StartLock(Runner& runner, const LockGoal& goal, const FlowOptions& options,
                                LockCallback on_update);
std::unique_ptr<Session> StartSession(Runner& runner, const SessionGoal& goal,
                                      const FlowOptions& options, SessionCallback on_update);
// For both of them: on the background thread, a flow whose updates go to `hold`.
void StartFlow(const std::shared_ptr<Hold::Impl>& hold, const LockGoal& goal,
               const FlowOptions& options, std::shared_ptr<SessionFlow> session);

}  // namespace holdfast::client
