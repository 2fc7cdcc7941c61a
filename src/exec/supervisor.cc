#include "exec/supervisor.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <optional>
#include <system_error>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "client/clock.h"
#include "exec/process_tree.h"
#include "exec/supervision.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX declares it nowhere

namespace holdfast::exec {
namespace {

constexpr int kTerminal = STDIN_FILENO;

// The environment of the command, and what the lease adds to it.
std::vector<std::string> EnvironmentOf(const Command& command, const ToSupervisor& start) {
  const std::vector<std::string> added = {
      "HOLDFAST_RESOURCE=" + command.resource,
      "HOLDFAST_FENCING_TOKEN=" + std::to_string(start.fencing_token),
      std::string("HOLDFAST_LEASE_ID=") + start.lease_id};
  std::vector<std::string> all = added;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('=') + 1);
    bool replaced = false;
    for (const std::string& ours : added) {
      replaced = replaced || (!name.empty() && ours.starts_with(name));
    }
    if (!replaced) {
      all.push_back(text);
    }
  }
  return all;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) {
    pointers.push_back(text.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

// The terminal's foreground group, if standard input is our controlling terminal.
std::optional<pid_t> Foreground() {
  const pid_t group = tcgetpgrp(kTerminal);
  return group < 0 ? std::nullopt : std::optional(group);
}

class Supervisor {
 public:
  Supervisor(Command command, File link, const sigset_t& mask, pid_t wrapper_group)
      : command_(std::move(command)),
        link_(std::move(link)),
        mask_(mask),
        wrapper_group_(wrapper_group) {}

  // All signals are blocked.
  void Run();

 private:
  bool WaitForStart(ToSupervisor& start);
  void Start(ToSupervisor& start);
  [[noreturn]] void Exec(ToSupervisor& start, int errors);
  void Listen();
  void OnMessage(const ToSupervisor& message, BootTime now);
  void Reap(BootTime now);
  // False: it is over.
  bool Perform(const std::vector<Step>& steps);
  void SignalAll(int signal);
  void TakeTerminal();
  void GiveTerminalBack();
  void SetTimer(BootTime at);

  Command command_;
  File link_;
  const sigset_t mask_;  // of the command
  const pid_t wrapper_group_;
  const pid_t self_ = getpid();
  client::SystemClock clock_;
  File children_;  // a signalfd
  File timer_;
  File exec_error_;  // a pipe from the command before its execve, closed by that
  std::optional<Supervision> supervision_;
  pid_t child_ = -1;
  bool child_reaped_ = false;
  bool wrapper_gone_ = false;
  ToWrapper end_;
};

void Supervisor::Run() {
  setpgid(0, 0);  // what is sent to the wrapper's group, or typed at its terminal, is not for us
  HF_CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0, "becoming a subreaper");
  prctl(PR_SET_NAME, "holdfast-superv");
  signal(SIGCHLD, SIG_DFL);  // ignored, it would take away the ends of children
  sigset_t set{};
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  children_ = File(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  // Goes on while the machine is suspended, and is due at once after that.
  timer_ = File(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
  HF_CHECK(children_.number() >= 0 && timer_.number() >= 0, "the supervisor's descriptors");

  ToSupervisor start;
  if (!WaitForStart(start)) {
    return;
  }
  if (clock_.Now() >= start.deadline) {
    end_.reason = StopReason::kDeadline;
  } else {
    Start(start);
    Listen();
    GiveTerminalBack();
    // Nobody is left who could hold the other end: this does not block.
    int error = 0;
    if (read(exec_error_.number(), &error, sizeof error) == sizeof error) {
      end_.exec_error = error;
    }
    end_.started = end_.exec_error == 0;
  }
  end_.kind = ToWrapper::Kind::kEnded;
  Send(link_.number(), end_);
}

bool Supervisor::WaitForStart(ToSupervisor& start) {
  for (;;) {
    pollfd wait{link_.number(), POLLIN, 0};
    poll(&wait, 1, -1);
    switch (Receive(link_.number(), start)) {
      case Received::kGone:
        return false;
      case Received::kMessage:
        if (start.kind == ToSupervisor::Kind::kStart) {
          return true;
        }
        break;
      case Received::kNothing:
        break;
    }
  }
}

void Supervisor::Start(ToSupervisor& start) {
  std::array<int, 2> pipes{};
  HF_CHECK(pipe2(pipes.data(), O_CLOEXEC) == 0, "a pipe");
  exec_error_ = File(pipes[0]);
  const File writer(pipes[1]);
  supervision_.emplace(start.times, start.deadline, Foreground().has_value());
  child_ = fork();
  if (child_ == 0) {
    Exec(start, writer.number());
  }
  if (child_ < 0) {
    end_.exec_error = errno;
    child_reaped_ = true;
    return;
  }
  setpgid(child_, child_);  // both sides, so that neither has to wait for the other
}

void Supervisor::Exec(ToSupervisor& start, int errors) {
  setpgid(0, 0);
  if (Foreground() == wrapper_group_) {
    tcsetpgrp(kTerminal, getpgrp());
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != self_) {
    _exit(128 + SIGKILL);  // it died before that
  }
  std::vector<std::string> environment = EnvironmentOf(command_, start);
  const std::vector<char*> words = Pointers(command_.words);
  const std::vector<char*> variables = Pointers(environment);
  pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  execvpe(words[0], words.data(), variables.data());
  const int error = errno;
  _exit(write(errors, &error, sizeof error) == sizeof error ? ExitCodeOfExecError(error) : 126);
}

void Supervisor::Listen() {
  for (;;) {
    const BootTime now = clock_.Now();
    supervision_->Advance(now);
    Reap(now);
    if (!Perform(supervision_->TakeSteps())) {
      end_.reason = supervision_->reason();
      return;
    }
    SetTimer(supervision_->NextWake());
    std::array<pollfd, 3> waits = {pollfd{wrapper_gone_ ? -1 : link_.number(), POLLIN, 0},
                                   pollfd{children_.number(), POLLIN, 0},
                                   pollfd{timer_.number(), POLLIN, 0}};
    poll(waits.data(), waits.size(), -1);
    signalfd_siginfo info{};
    while (read(children_.number(), &info, sizeof info) == sizeof info) {
      // Only a wake-up: several ends may have been one signal.
    }
    if (waits[0].revents == 0) {
      continue;
    }
    ToSupervisor message;
    Received received = Receive(link_.number(), message);
    for (; received == Received::kMessage; received = Receive(link_.number(), message)) {
      OnMessage(message, clock_.Now());
    }
    if (received == Received::kGone) {
      wrapper_gone_ = true;
      supervision_->OnWrapperGone(clock_.Now());
    }
  }
}

void Supervisor::OnMessage(const ToSupervisor& message, BootTime now) {
  switch (message.kind) {
    case ToSupervisor::Kind::kStart:
      break;
    case ToSupervisor::Kind::kLease:
      supervision_->OnLease(message.deadline);
      break;
    case ToSupervisor::Kind::kRevoked:
      supervision_->OnLease(message.deadline);
      supervision_->OnRevoked(now);
      break;
    case ToSupervisor::Kind::kLost:
      supervision_->OnLost(now);
      break;
    case ToSupervisor::Kind::kSignal:
      if (message.signal == SIGCONT) {
        TakeTerminal();  // a shell has made the wrapper its foreground job
      }
      supervision_->OnSignal(message.signal);
      break;
    case ToSupervisor::Kind::kResume:
      TakeTerminal();
      supervision_->OnSignal(SIGCONT);
      break;
  }
}

void Supervisor::Reap(BootTime now) {
  for (;;) {
    int status = 0;
    const pid_t process = waitpid(-1, &status, WNOHANG | WUNTRACED);
    if (process < 0 && errno == ECHILD) {
      // Whatever descended from the command would be a child of ours by now.
      supervision_->OnNobodyLeft();
    }
    if (process <= 0) {
      return;
    }
    if (process != child_) {
      continue;
    }
    if (WIFSTOPPED(status)) {
      supervision_->OnCommandStopped();
    } else {
      child_reaped_ = true;
      end_.wait_status = status;
      supervision_->OnCommandEnded(now);
    }
  }
}

bool Supervisor::Perform(const std::vector<Step>& steps) {
  for (const Step& step : steps) {
    ToWrapper report;
    switch (step.kind) {
      case Step::Kind::kSignalGroup:
        if (!child_reaped_) {
          kill(-child_, step.signal);
        }
        break;
      case Step::Kind::kSignalAll:
        SignalAll(step.signal);
        break;
      case Step::Kind::kSuspend:
        GiveTerminalBack();
        report.kind = ToWrapper::Kind::kSuspend;
        Send(link_.number(), report);
        break;
      case Step::Kind::kStragglers:
        report.kind = ToWrapper::Kind::kStragglers;
        report.stragglers = CountDescendants(getpid());
        Send(link_.number(), report);
        break;
      case Step::Kind::kFinish:
        return false;
    }
  }
  return true;
}

void Supervisor::SignalAll(int signal) {
  if (child_reaped_) {
    SignalDescendants(getpid(), signal);
    return;
  }
  kill(-child_, signal);  // at once, so that none is born meanwhile
  SignalDescendants(getpid(), signal, child_);
}

void Supervisor::TakeTerminal() {
  if (!child_reaped_ && Foreground() == wrapper_group_) {
    tcsetpgrp(kTerminal, child_);
  }
}

// A shell that the command was may have given it to a job of its own that is gone with it.
void Supervisor::GiveTerminalBack() {
  const auto group = Foreground();
  if (child_ > 0 && group.has_value() &&
      (group == child_ || (kill(-*group, 0) != 0 && errno == ESRCH))) {
    tcsetpgrp(kTerminal, wrapper_group_);
  }
}

void Supervisor::SetTimer(BootTime at) {
  const Duration since_boot = at.time_since_epoch();
  itimerspec spec{};
  if (at != BootTime::max()) {
    spec.it_value.tv_sec = since_boot.count() / 1'000'000'000;
    spec.it_value.tv_nsec = since_boot.count() % 1'000'000'000;
    if (since_boot <= Duration::zero()) {
      spec.it_value = {.tv_sec = 0, .tv_nsec = 1};
    }
  }
  timerfd_settime(timer_.number(), TFD_TIMER_ABSTIME, &spec, nullptr);
}

Status CheckOneThread() {
  std::error_code error;
  const std::filesystem::directory_iterator threads("/proc/self/task", error);
  if (!error && std::distance(begin(threads), end(threads)) != 1) {
    return Error{
        ErrorCode::kInternal, "the supervisor must be forked before any thread exists", {}, {}};
  }
  return {};
}

}  // namespace

Result<SupervisorHandle> ForkSupervisor(const Command& command) {
  if (const Status alone = CheckOneThread(); !alone.ok()) {
    return alone.error();
  }
  auto ends = MakeLink();
  if (!ends.ok()) {
    return ends.error();
  }
  sigset_t all{};
  sigset_t before{};
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t group = getpgrp();
  const pid_t process = fork();
  if (process == 0) {
    ends->wrapper.Close();
    Supervisor(command, std::move(ends->supervisor), before, group).Run();
    _exit(0);
  }
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (process < 0) {
    return Error{ErrorCode::kIo, "fork: " + std::generic_category().message(error), {}, {}};
  }
  setpgid(process, process);
  return SupervisorHandle{.process = process, .link = std::move(ends->wrapper)};
}

}  // namespace holdfast::exec
