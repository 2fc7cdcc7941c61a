#include "bench/postgres_server.h"

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include <fmt/core.h>
#include <pwd.h>
#include <unistd.h>

#include "base/id.h"
#include "bench/peer_load.h"

namespace holdfast::bench {
namespace {

constexpr const char* kSystemUser = "postgres";
constexpr int kSpareConnections = 10;  // some are reserved for the superuser, which ours is

Result<std::optional<Credentials>> RunAs() {
  if (geteuid() != 0) {
    return std::optional<Credentials>();
  }
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 4096> buffer;
  getpwnam_r(kSystemUser, &entry, buffer.data(), buffer.size(), &found);
  if (found == nullptr) {
    return Error{
        ErrorCode::kUnavailable,
        fmt::format("PostgreSQL refuses to run as root, and there is no user {}", kSystemUser),
        {},
        {}};
  }
  return std::optional(Credentials{entry.pw_uid, entry.pw_gid});
}

Status WritePassword(const std::string& path, const std::string& password) {
  std::ofstream file(path);
  file << password << '\n';
  file.close();
  return file ? Status() : Error{ErrorCode::kIo, "cannot write " + path, {}, {}};
}

Status GiveTo(const std::optional<Credentials>& owner, const std::string& path) {
  if (owner.has_value() && chown(path.c_str(), owner->user, owner->group) != 0) {
    return Error{ErrorCode::kIo,
                 fmt::format("chown {}: {}", path, std::generic_category().message(errno)),
                 {},
                 {}};
  }
  return {};
}

}  // namespace

PostgresCluster::PostgresCluster(std::string programs, ScratchDirectory directory,
                                 std::optional<Credentials> run_as, std::string password)
    : programs_(std::move(programs)),
      directory_(std::move(directory)),
      run_as_(run_as),
      password_(std::move(password)) {}

Result<PostgresCluster> PostgresCluster::Create(const std::string& programs,
                                                const std::string& parent) {
  const Result<std::optional<Credentials>> run_as = RunAs();
  if (!run_as.ok()) {
    return run_as.error();
  }
  // Absolute paths: another user's working directory is not ours.
  Result<ScratchDirectory> directory =
      ScratchDirectory::Create(std::filesystem::absolute(parent).string());
  if (!directory.ok()) {
    return directory.error();
  }
  const std::string home = directory->path();
  PostgresCluster cluster(std::filesystem::absolute(programs).string(), std::move(*directory),
                          *run_as, ToHex(RandomId()));
  // The directory is nobody else's, so the password is not to be seen.
  const std::string password_file = home + "/password";
  Status done = WritePassword(password_file, cluster.password_);
  for (const std::string& path : {password_file, home}) {
    done = done.ok() ? GiveTo(*run_as, path) : done;
  }
  if (!done.ok()) {
    return done.error();
  }
  done = RunToEnd(
      {.name = "initdb",
       .command = {cluster.programs_ + "/initdb", "--pgdata", home + "/data", "--username",
                   kPostgresUser, "--pwfile", password_file, "--auth", "scram-sha-256",
                   "--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions"},
       .log_file = home + "/log",
       .ready = {},
       .start_timeout = Seconds(60),
       .run_as = *run_as});
  if (!done.ok()) {
    return done.error();
  }
  std::error_code ignored;
  std::filesystem::remove(password_file, ignored);
  return cluster;
}

Result<LocalServer> PostgresCluster::Start(int port, int connections,
                                           const std::string& log_file) const {
  const auto setting = [](const std::string& name, const std::string& value) {
    return "--" + name + "=" + value;
  };
  return LocalServer::Start(
      {.name = "postgresql",
       .command = {programs_ + "/postgres", "-D", directory_.path() + "/data",
                   setting("listen_addresses", "127.0.0.1"), setting("port", std::to_string(port)),
                   setting("unix_socket_directories", ""),
                   setting("max_connections", std::to_string(connections + kSpareConnections))},
       .log_file = log_file,
       .ready = [port] { return PostgresAnswers(port); },
       .run_as = run_as_,
       .stop_signal = SIGINT});  // does not wait for sessions that are still there
}

bool HasPostgres(const std::string& programs) {
  return ProgramExists(programs + "/initdb") && ProgramExists(programs + "/postgres");
}

}  // namespace holdfast::bench
