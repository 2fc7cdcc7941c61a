#include "exec/wrapper.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <future>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "client/clock.h"
#include "exec/process_tree.h"

namespace holdfast::exec {
namespace {

using client::LockState;
using client::LockUpdate;

constexpr std::array kPassedOn = {SIGTERM, SIGINT,   SIGHUP,  SIGQUIT, SIGUSR1,
                                  SIGUSR2, SIGWINCH, SIGCONT, SIGTSTP};

bool Ends(int signal) {
  return signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT;
}

// 0: none came.
int NextSignal(const File& file) {
  signalfd_siginfo info{};
  return read(file.number(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo)
                                                                : 0;
}

void SleepUntilReadable(std::vector<pollfd> waits, Duration at_most) {
  const auto millis = std::max<std::int64_t>(1, ToMillis(at_most));
  poll(waits.data(), waits.size(), static_cast<int>(millis));
}

// For when the supervisor is gone: what it looked after has become ours.
void KillDescendants() {
  const auto reap = [] {
    pid_t process = 0;
    do {
      process = waitpid(-1, nullptr, WNOHANG);
    } while (process > 0);
    return process < 0 && errno == ECHILD;
  };
  for (int pause_ms = 5; !reap(); pause_ms = std::min(2 * pause_ms, 100)) {
    SignalDescendants(getpid(), SIGKILL);
    poll(nullptr, 0, pause_ms);
  }
}

}  // namespace

// One acquisition, from the wish to the release.
class Wrapper::Holding {
 public:
  Holding(Wrapper& wrapper, client::Client& client, const client::LockGoal& goal,
          const StopTimes& times)
      : wrapper_(wrapper), times_(times), changed_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    HF_CHECK(changed_.number() >= 0, "an eventfd");
    lock_ = client.Lock(goal, [this](const LockUpdate&) {
      const std::uint64_t one = 1;
      (void)!write(changed_.number(), &one, sizeof one);  // full is as good
    });
  }

  RunEnd Run(Duration release_timeout, const std::function<void(std::size_t)>& on_stragglers) {
    while (!over_) {
      Wait();
      while (const int signal = NextSignal(wrapper_.signal_file_)) {
        OnSignal(signal);
      }
      OnLock(lock_->Current());
      Listen(on_stragglers);
    }
    if (sent_start_) {
      Release(release_timeout);
    }
    return std::move(end_);
  }

 private:
  // Renewals move the deadline without a call, so that is looked at several times a renewal.
  Duration Pause() const {
    return sent_start_ ? std::clamp<Duration>(ttl_ / 20, Millis(20), Seconds(1)) : Seconds(1);
  }

  void Wait() {
    SleepUntilReadable({{wrapper_.signal_file_.number(), POLLIN, 0},
                        {changed_.number(), POLLIN, 0},
                        {wrapper_.supervisor_.link.number(), POLLIN, 0}},
                       Pause());
    std::uint64_t count = 0;
    (void)!read(changed_.number(), &count, sizeof count);
  }

  void Tell(ToSupervisor::Kind kind, BootTime deadline = {}, int signal = 0) {
    ToSupervisor message;
    message.kind = kind;
    message.deadline = deadline;
    message.signal = signal;
    Send(wrapper_.supervisor_.link.number(), message);
  }

  void OnSignal(int signal) {
    if (sent_start_) {
      Tell(ToSupervisor::Kind::kSignal, {}, signal);
      return;
    }
    if (!Ends(signal)) {
      return;  // nobody is there whom it could concern
    }
    if (end_.signal != 0) {
      over_ = true;  // asked twice: do not wait for the service
    }
    end_.kind = RunEnd::Kind::kInterrupted;
    end_.signal = signal;
    lock_->Release();
  }

  void OnLock(const LockUpdate& update) {
    end_.lock = update;
    switch (update.state) {
      case LockState::kAcquiring:
      case LockState::kConfirming:
      case LockState::kReleasing:
        return;
      case LockState::kHeld:
      case LockState::kRevoking:
        if (end_.signal == 0) {
          OnHeld(update);
        }
        return;
      case LockState::kReleased:
      case LockState::kNotAcquired:
        over_ = over_ || !sent_start_;
        return;
      case LockState::kLost:
        over_ = over_ || !sent_start_;
        if (sent_start_ && !told_lost_) {
          told_lost_ = true;
          Tell(ToSupervisor::Kind::kLost);
        }
        return;
    }
  }

  void OnHeld(const LockUpdate& update) {
    if (!sent_start_) {
      SendStart(update);
    }
    if (update.state == LockState::kRevoking) {
      if (!told_revoked_) {
        told_revoked_ = true;
        Tell(ToSupervisor::Kind::kRevoked, update.deadline);
      }
    } else if (update.deadline != deadline_) {
      Tell(ToSupervisor::Kind::kLease, update.deadline);
    }
    deadline_ = update.deadline;
  }

  void SendStart(const LockUpdate& update) {
    ToSupervisor message;
    message.kind = ToSupervisor::Kind::kStart;
    message.deadline = update.deadline;
    message.times = times_;
    message.fencing_token = update.grant->fencing_token;
    const std::string& id = update.grant->lease_id;
    HF_CHECK(id.size() < ToSupervisor::kLeaseIdSize, "the size of a lease id");
    id.copy(message.lease_id, id.size());
    Send(wrapper_.supervisor_.link.number(), message);
    sent_start_ = true;
    ttl_ = update.grant->ttl;
    deadline_ = update.deadline;
  }

  void Listen(const std::function<void(std::size_t)>& on_stragglers) {
    ToWrapper message;
    for (;;) {
      switch (Receive(wrapper_.supervisor_.link.number(), message)) {
        case Received::kNothing:
          EndIfSupervisorHangs();
          return;
        case Received::kGone:
          over_ = true;
          KillDescendants();
          end_.kind = sent_start_ && clock_.Now() >= deadline_ ? RunEnd::Kind::kOwnershipLost
                                                               : RunEnd::Kind::kUnsupervised;
          end_.exit_code = 128 + SIGKILL;
          return;
        case Received::kMessage:
          break;
      }
      switch (message.kind) {
        case ToWrapper::Kind::kSuspend:
          Suspend();
          break;
        case ToWrapper::Kind::kStragglers:
          reported_ = true;
          on_stragglers(message.stragglers);
          break;
        case ToWrapper::Kind::kEnded:
          OnEnded(message);
          return;
      }
    }
  }

  // Suspended or stuck, it would let the command run on. Killed, it leaves that to us.
  void EndIfSupervisorHangs() {
    if (sent_start_ && !reported_ && clock_.Now() >= deadline_ + times_.grace + times_.kill / 2) {
      kill(wrapper_.supervisor_.process, SIGKILL);
    }
  }

  // As the shell expects of a foreground job. A process group that no shell looks after is not
  // suspended; then the command goes on.
  void Suspend() {
    sigset_t stop{};
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    pthread_sigmask(SIG_UNBLOCK, &stop, nullptr);
    kill(0, SIGTSTP);
    pthread_sigmask(SIG_BLOCK, &stop, nullptr);
    Tell(ToSupervisor::Kind::kResume);
  }

  void OnEnded(const ToWrapper& message) {
    over_ = true;
    end_.started = message.started;
    end_.exec_error = message.exec_error;
    if (MeansOwnershipLost(message.reason)) {
      end_.kind = RunEnd::Kind::kOwnershipLost;
    } else if (message.exec_error != 0) {
      end_.kind = RunEnd::Kind::kCannotRun;
      end_.exit_code = ExitCodeOfExecError(message.exec_error);
    } else {
      end_.kind = RunEnd::Kind::kCommandEnded;
      end_.exit_code = ExitCodeOfStatus(message.wait_status);
    }
  }

  void Release(Duration timeout) {
    lock_->Release();
    const BootTime give_up = clock_.Now() + timeout;
    for (;;) {
      const LockUpdate update = lock_->Current();
      if (IsFinal(update.state)) {
        OnReleased(update);
        return;
      }
      const bool impatient = Ends(NextSignal(wrapper_.signal_file_));
      const BootTime now = clock_.Now();
      if (impatient || now >= give_up) {
        return;
      }
      SleepUntilReadable(
          {{wrapper_.signal_file_.number(), POLLIN, 0}, {changed_.number(), POLLIN, 0}},
          std::min<Duration>(give_up - now, Seconds(1)));
    }
  }

  void OnReleased(const LockUpdate& update) {
    end_.released = update.state == LockState::kReleased && !update.error.has_value();
    // An end that is not of this lease's own time may have come while the command ran.
    const bool in_time =
        update.cause == client::Cause::kExpired || update.cause == client::Cause::kSessionExpired;
    if (update.state == LockState::kLost && !in_time && end_.kind != RunEnd::Kind::kUnsupervised) {
      end_.kind = RunEnd::Kind::kOwnershipLost;
      end_.lock = update;
    }
  }

  Wrapper& wrapper_;
  const StopTimes times_;
  client::SystemClock clock_;
  File changed_;  // an eventfd: the state of the lock changed
  std::unique_ptr<client::Hold> lock_;
  bool sent_start_ = false;
  bool told_revoked_ = false;
  bool told_lost_ = false;
  bool reported_ = false;  // that processes are left which cannot be killed
  bool over_ = false;
  Duration ttl_{};
  BootTime deadline_{};
  RunEnd end_;
};

Result<std::unique_ptr<Wrapper>> Wrapper::Create(const Command& command) {
  auto supervisor = ForkSupervisor(command);
  if (!supervisor.ok()) {
    return supervisor.error();
  }
  sigset_t signals{};
  sigemptyset(&signals);
  for (const int signal : kPassedOn) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_IGN) {  // as under nohup
      sigaddset(&signals, signal);
    }
  }
  sigset_t blocked = signals;
  sigaddset(&blocked, SIGTTOU);  // our messages may come while the command has the terminal
  sigset_t before{};
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  return std::unique_ptr<Wrapper>(new Wrapper(std::move(*supervisor), signals, before));
}

Wrapper::Wrapper(SupervisorHandle supervisor, const sigset_t& signals, const sigset_t& before)
    : supervisor_(std::move(supervisor)),
      signals_(signals),
      before_(before),
      signal_file_(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK)) {
  HF_CHECK(signal_file_.number() >= 0, "a signalfd");
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // for the supervisor's children, should it be killed
}

Wrapper::~Wrapper() {
  supervisor_.link.Close();
  pid_t reaped = 0;
  do {
    reaped = waitpid(supervisor_.process, nullptr, 0);
  } while (reaped < 0 && errno == EINTR);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void Wrapper::Interruptible(const std::function<void()>& ask) {
  const auto asked = std::async(std::launch::async, ask);
  while (asked.wait_for(Millis(20)) != std::future_status::ready) {
    if (const int signal = NextSignal(signal_file_); Ends(signal)) {
      std::_Exit(128 + signal);  // the supervisor ends with us
    }
  }
}

RunEnd Wrapper::Run(client::Client& client, const client::LockGoal& goal, const StopTimes& times,
                    Duration release_timeout,
                    const std::function<void(std::size_t)>& on_stragglers) {
  return Holding(*this, client, goal, times).Run(release_timeout, on_stragglers);
}

}  // namespace holdfast::exec
