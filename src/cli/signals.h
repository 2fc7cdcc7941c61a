// Ctrl-C and SIGTERM as a call: verbs that hold or wait for something let go of it first. A second
// signal ends the process at once.
#pragma once

#include <csignal>
#include <functional>
#include <mutex>
#include <thread>

namespace holdfast::cli {

// One at a time. Takes SIGINT and SIGTERM away from the threads that are started after it, so it
// comes before the client.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  bool came() const;

  // While it exists, the first signal calls `action`, on a thread of the watch. One that came
  // before calls it at once.
  class Scope {
   public:
    Scope(SignalWatch& watch, std::function<void()> action);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    SignalWatch& watch_;
  };

 private:
  void Loop();

  sigset_t signals_{};
  sigset_t before_{};
  int wake_ = -1;  // an eventfd: the destructor's word to the thread

  // Under mutex_, which is held while the action runs.
  mutable std::mutex mutex_;
  std::function<void()> action_;
  bool came_ = false;

  std::thread thread_;
};

}  // namespace holdfast::cli
