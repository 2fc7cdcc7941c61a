#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <endian.h>
#include <fmt/core.h>
#include <libpq-fe.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "bench/cpu_usage.h"
#include "bench/peer_load.h"

namespace holdfast::bench {
namespace {

constexpr int kPollMillis = 50;
constexpr Duration kDrainTimeout = Seconds(5);
constexpr Duration kEndTimeout = Seconds(10);
constexpr Duration kEndPoll = Millis(20);
constexpr Oid kInt8 = 20;  // PostgreSQL's own number of the type
constexpr int kBinary = 1;
constexpr const char* kAcquire = "acquire";
constexpr const char* kRelease = "release";

struct CloseConnection {
  void operator()(PGconn* connection) const { PQfinish(connection); }
};
using PgConnection = std::unique_ptr<PGconn, CloseConnection>;

struct ClearResult {
  void operator()(PGresult* result) const { PQclear(result); }
};
using PgResult = std::unique_ptr<PGresult, ClearResult>;

Error PostgresError(const PGconn* connection, const std::string& what) {
  std::string_view text = PQerrorMessage(connection);
  while (!text.empty() && text.back() == '\n') {
    text.remove_suffix(1);
  }
  return Error{ErrorCode::kUnavailable, fmt::format("postgresql: {}: {}", what, text), {}, {}};
}

Status PrepareStatement(PGconn* connection, const char* name, const char* sql) {
  const PgResult prepared(PQprepare(connection, name, sql, 1, &kInt8));
  if (PQresultStatus(prepared.get()) != PGRES_COMMAND_OK) {
    return PostgresError(connection, fmt::format("cannot prepare {}", sql));
  }
  return {};
}

// Blocks; with both statements prepared.
Result<PgConnection> ConnectTo(const PeerLoadOptions& options) {
  const std::string port = std::to_string(options.port);
  const std::array<const char*, 9> names = {"hostaddr", "port",       "user",
                                            "password", "dbname",     "connect_timeout",
                                            "sslmode",  "gssencmode", nullptr};
  const std::array<const char*, 9> values = {
      "127.0.0.1", port.c_str(), kPostgresUser, options.password.c_str(), "postgres", "10",
      "disable",   "disable",    nullptr};
  PgConnection connection(PQconnectdbParams(names.data(), values.data(), 0));
  if (PQstatus(connection.get()) != CONNECTION_OK) {
    return PostgresError(connection.get(), fmt::format("connect to port {}", options.port));
  }
  // pg_advisory_unlock warns when the lock was not held; its answer says so too, and is counted.
  PQsetNoticeProcessor(
      connection.get(), [](void*, const char*) {}, nullptr);
  if (Status done = PrepareStatement(connection.get(), kAcquire, "SELECT pg_try_advisory_lock($1)");
      !done.ok()) {
    return done.error();
  }
  if (Status done = PrepareStatement(connection.get(), kRelease, "SELECT pg_advisory_unlock($1)");
      !done.ok()) {
    return done.error();
  }
  PQsetnonblocking(connection.get(), 1);
  return connection;
}

// One connection, and so one session, that takes one lock and gives it back, again and again.
class Session {
 public:
  Session(PgConnection connection, std::int64_t key, Recorder* recorder)
      : connection_(std::move(connection)),
        key_(htobe64(static_cast<std::uint64_t>(key))),
        recorder_(recorder) {}

  int fd() const { return PQsocket(connection_.get()); }
  bool idle() const { return idle_; }
  bool wants_to_write() const { return wants_to_write_; }

  Status Begin(LoadTime now) {
    idle_ = false;
    releasing_ = false;
    pair_from_ = now;
    return Send(now);
  }

  Status Flush() {
    const int left = PQflush(connection_.get());
    if (left < 0) {
      return PostgresError(connection_.get(), "send");
    }
    wants_to_write_ = left > 0;
    return {};
  }

  // Takes what is there, and sends the next statement once the answer is complete.
  Status Read() {
    if (PQconsumeInput(connection_.get()) == 0) {
      return PostgresError(connection_.get(), "receive");
    }
    while (!idle_ && PQisBusy(connection_.get()) == 0) {
      PgResult result(PQgetResult(connection_.get()));
      if (result != nullptr) {
        answer_ = std::move(result);
        continue;
      }
      if (PQstatus(connection_.get()) != CONNECTION_OK) {
        return PostgresError(connection_.get(), "receive");
      }
      if (Status next = Answered(LoadClock::now()); !next.ok()) {
        return next;
      }
    }
    return {};
  }

 private:
  Status Send(LoadTime now) {
    from_ = now;
    answer_.reset();
    const auto* value = reinterpret_cast<const char*>(&key_);
    const int length = sizeof key_;
    if (PQsendQueryPrepared(connection_.get(), releasing_ ? kRelease : kAcquire, 1, &value, &length,
                            &kBinary, kBinary) == 0) {
      return PostgresError(connection_.get(), "send");
    }
    return Flush();
  }

  Status Answered(LoadTime now) {
    if (PQresultStatus(answer_.get()) != PGRES_TUPLES_OK) {
      const char* sqlstate = PQresultErrorField(answer_.get(), PG_DIAG_SQLSTATE);
      recorder_->Failed(sqlstate == nullptr ? "NO_ANSWER" : sqlstate, now);
    } else if (const bool yes = *PQgetvalue(answer_.get(), 0, 0) != 0; !releasing_ && yes) {
      recorder_->Operation(Verb::kAcquire, from_, now);
      releasing_ = true;
      return Send(now);
    } else if (!releasing_) {
      recorder_->Refused("HELD", now);
    } else if (yes) {
      recorder_->Operation(Verb::kRelease, from_, now);
      recorder_->Pair(pair_from_, now);
    } else {
      recorder_->Refused("RELEASE_GONE", now);
    }
    idle_ = recorder_->Over(now);
    return idle_ ? Status() : Begin(now);
  }

  const PgConnection connection_;
  const std::uint64_t key_;  // in network order
  Recorder* const recorder_;
  PgResult answer_;
  bool idle_ = true;
  bool releasing_ = false;
  bool wants_to_write_ = false;
  LoadTime pair_from_;
  LoadTime from_;
};

class PostgresLoad {
 public:
  explicit PostgresLoad(const PeerLoadOptions& options)
      : options_(options), epoll_(epoll_create1(EPOLL_CLOEXEC)) {}
  ~PostgresLoad() { close(epoll_); }
  PostgresLoad(const PostgresLoad&) = delete;
  PostgresLoad& operator=(const PostgresLoad&) = delete;

  Result<LoadResult> Run() {
    std::vector<PgConnection> connections;
    for (int i = 0; i < options_.connections; ++i) {
      Result<PgConnection> connection = ConnectTo(options_);
      if (!connection.ok()) {
        return connection.error();
      }
      connections.push_back(std::move(*connection));
    }
    const LoadTime begin = LoadClock::now();
    Recorder recorder({.begin = begin,
                       .warm_up = options_.warm_up,
                       .duration = options_.duration,
                       .server_pid = options_.server_pid,
                       .progress = options_.progress,
                       .label = options_.progress_label});
    for (PgConnection& connection : connections) {
      sessions_.push_back(std::make_unique<Session>(
          std::move(connection), static_cast<std::int64_t>(sessions_.size()), &recorder));
      if (Status begun = sessions_.back()->Begin(begin); !begun.ok()) {
        return begun.error();
      }
      Watch(EPOLL_CTL_ADD, *sessions_.back());
    }
    for (;;) {
      const LoadTime now = LoadClock::now();
      recorder.Advance(now);
      if (recorder.Over(now) && (Drained() || now > recorder.end() + kDrainTimeout)) {
        return recorder.Finish();
      }
      if (Status served = Serve(); !served.ok()) {
        return served.error();
      }
    }
  }

 private:
  bool Drained() const {
    for (const auto& session : sessions_) {
      if (!session->idle()) {
        return false;
      }
    }
    return true;
  }

  // Asks for room only while something did not fit, which such small statements nearly never meet.
  void Watch(int operation, Session& session) const {
    epoll_event event{};
    event.events = session.wants_to_write() ? EPOLLIN | EPOLLOUT : EPOLLIN;
    event.data.ptr = &session;
    epoll_ctl(epoll_, operation, session.fd(), &event);
  }

  Status Serve() {
    std::array<epoll_event, 256> events;
    const int count =
        epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), kPollMillis);
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      auto& session = *static_cast<Session*>(event.data.ptr);
      const bool wanted = session.wants_to_write();
      if ((event.events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) {
        if (Status read = session.Read(); !read.ok()) {
          return read;
        }
      }
      if (wanted) {
        if (Status flushed = session.Flush(); !flushed.ok()) {
          return flushed;
        }
      }
      if (wanted != session.wants_to_write()) {
        Watch(EPOLL_CTL_MOD, session);
      }
    }
    return {};
  }

  const PeerLoadOptions& options_;
  const int epoll_;
  std::vector<std::unique_ptr<Session>> sessions_;
};

}  // namespace

bool PostgresAnswers(int port) {
  const std::string where = fmt::format("hostaddr=127.0.0.1 port={} connect_timeout=2", port);
  return PQping(where.c_str()) == PQPING_OK;
}

Result<LoadResult> RunPostgresLoad(const PeerLoadOptions& options) {
  const int before = options.server_pid == 0 ? 0 : CountChildren(options.server_pid);
  Result<LoadResult> result = PostgresLoad(options).Run();
  // The processes of hundreds of sessions take their time to end, which belongs to no measurement.
  const LoadTime deadline = LoadClock::now() + kEndTimeout;
  while (options.server_pid != 0 && CountChildren(options.server_pid) > before &&
         LoadClock::now() < deadline) {
    std::this_thread::sleep_for(kEndPoll);
  }
  return result;
}

}  // namespace holdfast::bench
