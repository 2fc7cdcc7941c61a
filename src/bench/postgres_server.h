// A PostgreSQL server of the peers bench, in a scratch directory.
#pragma once

#include <optional>
#include <string>

#include "bench/local_server.h"
#include "holdfast/result.h"

namespace holdfast::bench {

// The data of one server, made by initdb. Its only user is kPostgresUser, with a password: whoever
// can log in may run programs as the user of the server.
class PostgresCluster {
 public:
  // `programs`: the directory of initdb and postgres. PostgreSQL refuses to run as root, so root
  // hands the directory to the user `postgres`, who must be able to reach `parent`. kUnavailable
  // if there is no such user, or with the end of the log if initdb fails.
  static Result<PostgresCluster> Create(const std::string& programs, const std::string& parent);

  // One at a time, on loopback, without a Unix socket; everything else as PostgreSQL is shipped.
  // The cluster outlives the server.
  Result<LocalServer> Start(int port, int connections, const std::string& log_file) const;

  const std::string& password() const { return password_; }

 private:
  PostgresCluster(std::string programs, ScratchDirectory directory,
                  std::optional<Credentials> run_as, std::string password);

  std::string programs_;
  ScratchDirectory directory_;
  std::optional<Credentials> run_as_;
  std::string password_;
};

// Whether the directory has initdb and postgres.
bool HasPostgres(const std::string& programs);

}  // namespace holdfast::bench
