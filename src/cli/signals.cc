#include "cli/signals.h"

#include <array>
#include <cerrno>
#include <cstdint>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/check.h"

namespace holdfast::cli {

SignalWatch::SignalWatch() {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGINT);
  sigaddset(&signals_, SIGTERM);
  HF_CHECK(pthread_sigmask(SIG_BLOCK, &signals_, &before_) == 0, "blocking signals");
  wake_ = eventfd(0, EFD_CLOEXEC);
  HF_CHECK(wake_ >= 0, "an eventfd");
  thread_ = std::thread([this] { Loop(); });
}

SignalWatch::~SignalWatch() {
  const std::uint64_t one = 1;
  HF_CHECK(write(wake_, &one, sizeof one) == sizeof one, "waking the signal thread");
  thread_.join();
  close(wake_);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

bool SignalWatch::came() const {
  const std::lock_guard lock(mutex_);
  return came_;
}

void SignalWatch::Loop() {
  const int file = signalfd(-1, &signals_, SFD_CLOEXEC);
  HF_CHECK(file >= 0, "a signalfd");
  std::array<pollfd, 2> waits = {pollfd{file, POLLIN, 0}, pollfd{wake_, POLLIN, 0}};
  while (poll(waits.data(), waits.size(), -1) >= 0 || errno == EINTR) {
    if (waits[1].revents != 0) {
      break;
    }
    signalfd_siginfo info{};
    if (waits[0].revents == 0 || read(file, &info, sizeof info) != sizeof info) {
      continue;
    }
    // From here on a signal has its usual effect, also while the action runs.
    pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
    const std::lock_guard lock(mutex_);
    came_ = true;
    if (action_) {
      action_();
    }
  }
  close(file);
}

SignalWatch::Scope::Scope(SignalWatch& watch, std::function<void()> action) : watch_(watch) {
  const std::lock_guard lock(watch_.mutex_);
  watch_.action_ = std::move(action);
  if (watch_.came_) {
    watch_.action_();
  }
}

SignalWatch::Scope::~Scope() {
  const std::lock_guard lock(watch_.mutex_);
  watch_.action_ = nullptr;
}

}  // namespace holdfast::cli
