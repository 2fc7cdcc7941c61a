// What the supervisor of a command does and when: which signal goes to whom, as its child ends, its
// lease moves, its wrapper speaks or dies, and time passes.
//
//   kRunning --lease ends, wrapper gone--> kTerminating --grace is over--> kKilling
//      |                                       ^
//   command ended                              | grace is over, or lease ends, wrapper gone
//      +------------> kLingering --------------+
//
// and from each of them but kRunning to kOver when nobody is left. What a command leaves behind has
// a grace to end by itself (a `tee` that still writes) before it is stopped.
//
// The local deadline of the lease is when stopping *begins*: the client has taken the time to stop
// off already. What was killed is killed again until nobody is left, so that a process which was
// being born is not forgotten. No I/O, no clock; not thread-safe.
#pragma once

#include <optional>
#include <vector>

#include "base/time.h"

namespace holdfast::exec {

// How long stopping takes; their sum is the stop time that the lease is asked with.
struct StopTimes {
  Duration grace{};  // from SIGTERM to SIGKILL
  Duration kill{};   // from SIGKILL until everybody is gone

  Duration Sum() const { return grace + kill; }
};

// Why the command is, or was, stopped. Later ones say more.
enum class StopReason {
  kNone,
  kCommandEnded,  // by itself; what it left behind is stopped
  kWrapperGone,
  kRevoked,   // still held, but it cannot be renewed
  kDeadline,  // the local deadline passed
  kLost,      // the service said that the lease is over, before the local deadline
};
inline bool MeansOwnershipLost(StopReason reason) {
  return reason >= StopReason::kRevoked;
}

struct Step {
  enum class Kind {
    kSignalGroup,  // the command's process group
    kSignalAll,    // every process that descends from the command, in whatever group or session
    kSuspend,      // a terminal's job: give the terminal back and suspend the wrapper
    kStragglers,   // killed, and still there after StopTimes::kill: say so
    kFinish,       // nobody is left
  };
  Kind kind = Kind::kFinish;
  int signal = 0;

  bool operator==(const Step&) const = default;
};

class Supervision {
 public:
  // The command was started under a lease with this local deadline. `job`: it has a terminal, so
  // what suspends the command suspends its wrapper.
  Supervision(const StopTimes& times, BootTime deadline, bool job);

  void OnLease(BootTime deadline);
  void OnRevoked(BootTime now);
  void OnLost(BootTime now);
  void OnWrapperGone(BootTime now);
  // To be passed on.
  void OnSignal(int signal);
  void OnCommandStopped();
  // Its process was reaped: its group's number may soon belong to somebody else.
  void OnCommandEnded(BootTime now);
  // No process that descends from the command is left, and the command itself was reaped.
  void OnNobodyLeft();

  // Does what is due. To be called after every event, and at NextWake.
  void Advance(BootTime now);
  BootTime NextWake() const;
  // What to do, in this order; each step comes once.
  std::vector<Step> TakeSteps();

  StopReason reason() const { return reason_; }

 private:
  enum class Phase { kRunning, kLingering, kTerminating, kKilling, kOver };

  void Stop(StopReason reason, BootTime kill_at, BootTime now);

  const StopTimes times_;
  const bool job_;
  BootTime deadline_;
  Phase phase_ = Phase::kRunning;
  StopReason reason_ = StopReason::kNone;
  bool command_ended_ = false;
  BootTime terminate_at_;  // kLingering
  BootTime kill_at_;       // from kTerminating on
  BootTime kill_again_;    // kKilling
  BootTime complain_at_;   // kKilling, until it was said
  Duration pause_{};       // before the next round of killing
  std::vector<Step> steps_;
};

// Of waitpid, as the exit code that timeout(1) and shells use: 128 + n for signal n.
int ExitCodeOfStatus(int wait_status);
// Of execve: 127 not found, 126 found and not executable.
int ExitCodeOfExecError(int error);

}  // namespace holdfast::exec
