#include "exec/supervision.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include <sys/wait.h>

namespace holdfast::exec {
namespace {

constexpr BootTime kNever = BootTime::max();
constexpr Duration kFirstPause = Millis(5);
constexpr Duration kLongestPause = Millis(100);

}  // namespace

Supervision::Supervision(const StopTimes& times, BootTime deadline, bool job)
    : times_(times),
      job_(job),
      deadline_(deadline),
      terminate_at_(kNever),
      kill_at_(kNever),
      kill_again_(kNever),
      complain_at_(kNever) {}

void Supervision::OnLease(BootTime deadline) {
  deadline_ = std::max(deadline_, deadline);
}

// Somebody wants it, or the longest hold is reached: there is nothing to wait for.
void Supervision::OnRevoked(BootTime now) {
  Stop(StopReason::kRevoked, std::min(now, deadline_) + times_.grace, now);
}

void Supervision::OnLost(BootTime now) {
  if (now < deadline_) {
    // Somebody else may have it already: no time for manners.
    Stop(StopReason::kLost, now, now);
  } else {
    Stop(StopReason::kDeadline, deadline_ + times_.grace, now);
  }
}

void Supervision::OnWrapperGone(BootTime now) {
  Stop(StopReason::kWrapperGone, std::min(now, deadline_) + times_.grace, now);
}

void Supervision::OnSignal(int signal) {
  const bool may = phase_ == Phase::kRunning || phase_ == Phase::kTerminating;
  if (may && !command_ended_) {
    steps_.push_back({Step::Kind::kSignalGroup, signal});
  }
}

void Supervision::OnCommandStopped() {
  if (job_ && phase_ == Phase::kRunning) {
    steps_.push_back({Step::Kind::kSuspend, 0});
  }
}

void Supervision::OnCommandEnded(BootTime now) {
  command_ended_ = true;
  std::erase_if(steps_, [](const Step& step) { return step.kind == Step::Kind::kSignalGroup; });
  if (phase_ == Phase::kRunning) {
    phase_ = Phase::kLingering;
    reason_ = StopReason::kCommandEnded;
    terminate_at_ = now + times_.grace;
  }
}

void Supervision::OnNobodyLeft() {
  if (phase_ != Phase::kOver) {
    phase_ = Phase::kOver;
    steps_ = {{Step::Kind::kFinish, 0}};
  }
}

void Supervision::Advance(BootTime now) {
  const bool undisturbed = phase_ == Phase::kRunning || phase_ == Phase::kLingering;
  if (undisturbed && now >= deadline_) {
    Stop(StopReason::kDeadline, deadline_ + times_.grace, now);
  } else if (phase_ == Phase::kLingering && now >= terminate_at_) {
    Stop(StopReason::kCommandEnded, now + times_.grace, now);
  }
  if (phase_ == Phase::kTerminating && now >= kill_at_) {
    phase_ = Phase::kKilling;
    pause_ = kFirstPause;
    kill_again_ = now;
    complain_at_ = now + times_.kill;
  }
  if (phase_ != Phase::kKilling) {
    return;
  }
  if (now >= kill_again_) {
    steps_.push_back({Step::Kind::kSignalAll, SIGKILL});
    kill_again_ = now + pause_;
    pause_ = std::min(2 * pause_, kLongestPause);
  }
  if (now >= complain_at_) {
    steps_.push_back({Step::Kind::kStragglers, 0});
    complain_at_ = kNever;
  }
}

BootTime Supervision::NextWake() const {
  switch (phase_) {
    case Phase::kRunning:
      return deadline_;
    case Phase::kLingering:
      return std::min(terminate_at_, deadline_);
    case Phase::kTerminating:
      return kill_at_;
    case Phase::kKilling:
      return std::min(kill_again_, complain_at_);
    case Phase::kOver:
      break;
  }
  return kNever;
}

std::vector<Step> Supervision::TakeSteps() {
  return std::exchange(steps_, {});
}

void Supervision::Stop(StopReason reason, BootTime kill_at, BootTime now) {
  if (phase_ == Phase::kOver) {
    return;
  }
  // Once stopping has begun only the service's own word changes the reason: the work of a command
  // that ended in time was covered to its end.
  if (reason_ == StopReason::kNone || reason == StopReason::kLost) {
    reason_ = reason;
  }
  kill_at_ = std::min(kill_at_, kill_at);
  if (phase_ == Phase::kRunning || phase_ == Phase::kLingering) {
    phase_ = Phase::kTerminating;
    if (now < kill_at_) {
      steps_.push_back({Step::Kind::kSignalAll, SIGTERM});
      steps_.push_back({Step::Kind::kSignalAll, SIGCONT});  // what is suspended could not end
    }
  }
}

int ExitCodeOfStatus(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

int ExitCodeOfExecError(int error) {
  return error == ENOENT ? 127 : 126;
}

}  // namespace holdfast::exec
