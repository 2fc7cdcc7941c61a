#include "bench/local_server.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <grp.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace holdfast::bench {
namespace {

constexpr auto kPollInterval = std::chrono::milliseconds(20);
constexpr auto kStopTimeout = std::chrono::seconds(10);

Error IoError(const std::string& what) {
  return Error{
      ErrorCode::kIo, fmt::format("{}: {}", what, std::generic_category().message(errno)), {}, {}};
}

bool CanBind(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool bound =
      fd >= 0 && bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return bound;
}

// The wait status of a process that has ended, which is reaped then.
std::optional<int> EndOf(pid_t pid) {
  int status = -1;  // no success, should somebody else have reaped it
  return waitpid(pid, &status, WNOHANG) != 0 ? std::optional<int>(status) : std::nullopt;
}

std::optional<int> EndWithin(pid_t pid, Duration time) {
  const auto deadline = std::chrono::steady_clock::now() + time;
  for (;;) {
    const std::optional<int> end = EndOf(pid);
    if (end.has_value() || std::chrono::steady_clock::now() > deadline) {
      return end;
    }
    std::this_thread::sleep_for(kPollInterval);
  }
}

void Kill(pid_t pid) {
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

std::string Tail(const std::string& path) {
  constexpr std::size_t kBytes = 2000;
  std::ifstream file(path);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return text.size() > kBytes ? text.substr(text.size() - kBytes) : text;
}

Error FailureOf(const LocalServer::Options& options, const char* how) {
  return Error{
      ErrorCode::kUnavailable,
      fmt::format("{} ({}) {}:\n{}", options.name, options.command[0], how, Tail(options.log_file)),
      {},
      {}};
}

// In the child. Only async-signal-safe calls: the parent may have threads.
[[noreturn]] void Execute(char* const* arguments, int log, pid_t parent,
                          const Credentials* run_as) {
  if (run_as != nullptr && (setgroups(0, nullptr) != 0 || setgid(run_as->group) != 0 ||
                            setuid(run_as->user) != 0 || chdir("/") != 0)) {
    _exit(126);
  }
  // Behind the change of user, which would undo it.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) {
    _exit(127);
  }
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  execvp(arguments[0], arguments);
  _exit(127);
}

Result<pid_t> Spawn(LocalServer::Options& options) {
  const int log = open(options.log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log < 0) {
    return IoError(options.log_file);
  }
  std::vector<char*> arguments;
  for (std::string& argument : options.command) {
    arguments.push_back(argument.data());
  }
  arguments.push_back(nullptr);
  const Credentials* run_as = options.run_as.has_value() ? &*options.run_as : nullptr;
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    Execute(arguments.data(), log, parent, run_as);
  }
  close(log);
  if (pid < 0) {
    return IoError("fork");
  }
  return pid;
}

}  // namespace

Result<ScratchDirectory> ScratchDirectory::Create(const std::string& parent) {
  std::string path = parent + "/holdfast-bench-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) {
    return IoError("cannot create a directory in " + parent);
  }
  return ScratchDirectory(path);
}

ScratchDirectory::ScratchDirectory(ScratchDirectory&& other) noexcept
    : path_(std::exchange(other.path_, {})) {}

ScratchDirectory::~ScratchDirectory() {
  if (!path_.empty()) {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
}

Result<int> FreePort() {
  std::random_device seed;
  std::uniform_int_distribution<int> any(20'000, 32'000);
  for (int attempt = 0; attempt < 200; ++attempt) {
    if (const int port = any(seed); CanBind(port)) {
      return port;
    }
  }
  return Error{ErrorCode::kUnavailable, "no free port between 20000 and 32000", {}, {}};
}

Result<std::vector<int>> FreePorts(int count) {
  std::vector<int> ports;
  while (static_cast<int>(ports.size()) < count) {
    const Result<int> port = FreePort();
    if (!port.ok()) {
      return port.error();
    }
    if (std::find(ports.begin(), ports.end(), *port) == ports.end()) {
      ports.push_back(*port);
    }
  }
  return ports;
}

Result<LocalServer> LocalServer::Start(Options options) {
  const Result<pid_t> pid = Spawn(options);
  if (!pid.ok()) {
    return pid.error();
  }
  std::optional<LocalServer> server{LocalServer(*pid, options.stop_signal)};
  const auto deadline = std::chrono::steady_clock::now() + options.start_timeout;
  while (!options.ready()) {
    if (EndOf(*pid).has_value()) {
      server->pid_ = 0;
      return FailureOf(options, "ended at once");
    }
    if (std::chrono::steady_clock::now() > deadline) {
      return FailureOf(options, "did not become ready in time");
    }
    std::this_thread::sleep_for(kPollInterval);
  }
  return std::move(*server);
}

LocalServer::LocalServer(LocalServer&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), stop_signal_(other.stop_signal_) {}

LocalServer::~LocalServer() {
  if (pid_ == 0) {
    return;
  }
  kill(pid_, stop_signal_);
  if (!EndWithin(pid_, kStopTimeout).has_value()) {
    Kill(pid_);
  }
}

Status RunToEnd(LocalServer::Options options) {
  const Result<pid_t> pid = Spawn(options);
  if (!pid.ok()) {
    return pid.error();
  }
  const std::optional<int> end = EndWithin(*pid, options.start_timeout);
  if (!end.has_value()) {
    Kill(*pid);
    return FailureOf(options, "did not end in time");
  }
  if (!WIFEXITED(*end) || WEXITSTATUS(*end) != 0) {
    return FailureOf(options, "failed");
  }
  return {};
}

bool ProgramExists(const std::string& name) {
  const auto runs = [](const std::string& path) {
    std::error_code ignored;
    return std::filesystem::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
  };
  if (name.find('/') != std::string::npos) {
    return runs(name);
  }
  // Nothing in this process changes its environment.
  const char* path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe)
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (runs((folder.empty() ? "." : folder) + "/" + name)) {
      return true;
    }
  }
  return false;
}

}  // namespace holdfast::bench
