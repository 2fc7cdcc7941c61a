// Servers of the peers bench: started on loopback with a directory of their own, ended by their own
// pid.
#pragma once

#include <functional>
#include <string>
#include <vector>

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

class LocalServer {
 public:
  struct Options {
    std::string name;                  // for messages
    std::vector<std::string> command;  // command[0] is looked up in PATH
    std::string log_file;              // its output
    // Asked until it says yes, the process ends, or time is up.
    std::function<bool()> ready;
    Duration start_timeout = Seconds(20);
  };

  // kUnavailable with the last lines of the log if it does not come up. The process dies with the
  // calling thread.
  static Result<LocalServer> Start(Options options);
  // SIGTERM, and SIGKILL if it is still there after 10 s.
  ~LocalServer();
  LocalServer(LocalServer&& other) noexcept;
  LocalServer& operator=(LocalServer&&) = delete;

  pid_t pid() const { return pid_; }

 private:
  explicit LocalServer(pid_t pid) : pid_(pid) {}
  pid_t pid_ = 0;  // 0: moved from
};

}  // namespace holdfast::bench
