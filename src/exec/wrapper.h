// Runs a command while a lock (or a leadership) is held: what `holdfast lock` and `holdfast elect`
// do. The wrapper holds the lease through src/client and tells its supervisor (supervisor.h) the
// local deadline again and again; it passes signals on, and gives the lock back when no process of
// the command is left.
//
// While a Wrapper exists, the signals that it passes on are blocked in the thread that made it and
// in those which are started after it; a signal that was ignored before is left alone.
#pragma once

#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "exec/supervisor.h"
#include "holdfast/client.h"
#include "holdfast/result.h"

namespace holdfast::exec {

struct RunEnd {
  enum class Kind {
    kNotAcquired,    // `lock` says why; nothing ran
    kInterrupted,    // by `signal`, before it was held; nothing ran, and the wish was withdrawn
    kCommandEnded,   // with `exit_code`
    kCannotRun,      // exec_error, `exit_code` 126 or 127
    kOwnershipLost,  // the command was stopped, or was covered no longer to its end
    kUnsupervised,   // somebody killed the supervisor; the command was killed
  };

  Kind kind = Kind::kNotAcquired;
  client::LockUpdate lock;  // the last one
  int exit_code = 0;
  int exec_error = 0;
  int signal = 0;
  bool started = false;  // the command ran, however briefly
  // The service confirmed that the lock was given back; else it ends by itself.
  bool released = false;
};

class Wrapper {
 public:
  // Forks the supervisor, so it comes before everything that starts a thread.
  static Result<std::unique_ptr<Wrapper>> Create(const Command& command);
  // Ends the command and all that it started, if it still runs.
  ~Wrapper();
  Wrapper(const Wrapper&) = delete;
  Wrapper& operator=(const Wrapper&) = delete;

  // Runs `ask`, which only reads and may block, so that a signal that would end the process does so
  // at once. Nothing may be held.
  void Interruptible(const std::function<void()>& ask);

  // Acquires, runs the command, stops what is left of it, releases (for at most `release_timeout`).
  // `goal.stop_time` must be the sum of `times`. `on_stragglers` is called with the number of
  // processes that are still there although they were killed. If it ends with kNotAcquired it may
  // be called again.
  RunEnd Run(client::Client& client, const client::LockGoal& goal, const StopTimes& times,
             Duration release_timeout, const std::function<void(std::size_t)>& on_stragglers);

 private:
  class Holding;

  Wrapper(SupervisorHandle supervisor, const sigset_t& signals, const sigset_t& before);

  SupervisorHandle supervisor_;
  sigset_t signals_;
  sigset_t before_;
  File signal_file_;
};

}  // namespace holdfast::exec
