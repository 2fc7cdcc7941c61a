#include "bench/local_server.h"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <system_error>
#include <thread>
#include <utility>

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
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

// True, and the process is reaped, if it has ended.
bool Ended(pid_t pid) {
  return waitpid(pid, nullptr, WNOHANG) != 0;
}

bool EndsWithin(pid_t pid, Duration time) {
  const auto deadline = std::chrono::steady_clock::now() + time;
  while (!Ended(pid)) {
    if (std::chrono::steady_clock::now() > deadline) {
      return false;
    }
    std::this_thread::sleep_for(kPollInterval);
  }
  return true;
}

std::string Tail(const std::string& path) {
  constexpr std::size_t kBytes = 2000;
  std::ifstream file(path);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return text.size() > kBytes ? text.substr(text.size() - kBytes) : text;
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

Result<LocalServer> LocalServer::Start(Options options) {
  const int log = open(options.log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log < 0) {
    return IoError(options.log_file);
  }
  std::vector<char*> arguments;
  for (std::string& argument : options.command) {
    arguments.push_back(argument.data());
  }
  arguments.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    // Only async-signal-safe calls: the parent may have threads.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
      _exit(127);
    }
    const int null = open("/dev/null", O_RDONLY);
    dup2(null, STDIN_FILENO);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  close(log);
  if (pid < 0) {
    return IoError("fork");
  }
  std::optional<LocalServer> server{LocalServer(pid)};
  const auto deadline = std::chrono::steady_clock::now() + options.start_timeout;
  while (!options.ready()) {
    const bool ended = Ended(pid);
    if (ended || std::chrono::steady_clock::now() > deadline) {
      if (ended) {
        server->pid_ = 0;
      }
      return Error{ErrorCode::kUnavailable,
                   fmt::format("{} ({}) {}:\n{}", options.name, options.command[0],
                               ended ? "ended at once" : "did not become ready in time",
                               Tail(options.log_file)),
                   {},
                   {}};
    }
    std::this_thread::sleep_for(kPollInterval);
  }
  return std::move(*server);
}

LocalServer::LocalServer(LocalServer&& other) noexcept : pid_(std::exchange(other.pid_, 0)) {}

LocalServer::~LocalServer() {
  if (pid_ == 0) {
    return;
  }
  kill(pid_, SIGTERM);
  if (!EndsWithin(pid_, kStopTimeout)) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
}

}  // namespace holdfast::bench
