// Servers of the peers bench: started on loopback with a directory of their own, ended by their own
// pid.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <signal.h>
#include <sys/types.h>

#include "base/time.h"
#include "holdfast/result.h"

namespace holdfast::bench {

// A new directory below `parent`, removed with its content by the destructor.
class ScratchDirectory {
 public:
  static Result<ScratchDirectory> Create(const std::string& parent);
  ~ScratchDirectory();
  ScratchDirectory(ScratchDirectory&& other) noexcept;
  ScratchDirectory& operator=(ScratchDirectory&&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit ScratchDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// A loopback port on which nothing listens, below the range that the kernel gives to clients. It
// can be taken by somebody else before it is used; the server then fails to start, clearly.
Result<int> FreePort();
// That many different ones.
Result<std::vector<int>> FreePorts(int count);

// Whose rights a program has.
struct Credentials {
  uid_t user = 0;
  gid_t group = 0;
};

class LocalServer {
 public:
  struct Options {
    std::string name;                  // for messages
    std::vector<std::string> command;  // command[0] is looked up in PATH
    std::string log_file;              // its output
    // Asked until it says yes, the process ends, or time is up.
    std::function<bool()> ready;
    Duration start_timeout = Seconds(20);
    // Only root can do that. Its working directory is then /, since the user may not reach ours.
    std::optional<Credentials> run_as = {};
    int stop_signal = SIGTERM;
  };

  // kUnavailable with the last lines of the log if it does not come up. The process dies with the
  // calling thread.
  static Result<LocalServer> Start(Options options);
  // The stop signal, and SIGKILL if it is still there after 10 s.
  ~LocalServer();
  LocalServer(LocalServer&& other) noexcept;
  LocalServer& operator=(LocalServer&&) = delete;

  pid_t pid() const { return pid_; }

 private:
  LocalServer(pid_t pid, int stop_signal) : pid_(pid), stop_signal_(stop_signal) {}
  pid_t pid_ = 0;  // 0: moved from
  int stop_signal_ = 0;
};

// Runs a program to its end, at most for its start_timeout; `ready` is not asked. kUnavailable with
// the last lines of the log unless it exits with 0.
Status RunToEnd(LocalServer::Options options);

// Whether `name` can be run: a path, or found in PATH.
bool ProgramExists(const std::string& name);

}  // namespace holdfast::bench
