#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "base/id.h"
#include "bench/load_loop.h"
#include "bench/peer_load.h"
#include "bench/resp_wire.h"

namespace holdfast::bench {
namespace {

// Who takes one lock and gives it back, again and again.
struct Worker {
  std::string key;
  std::string value;  // what proves that the lock is ours: a value of our own, or the lease id
  std::uint64_t turn = 0;
  bool releasing = false;
  LoadTime pair_from;
  LoadTime from;
};

// How a system spells lock and unlock.
class Dialect {
 public:
  virtual ~Dialect() = default;
  // Asked once, on a fresh connection.
  virtual Status Prepare(const Socket& socket) = 0;
  virtual void Acquire(Worker& worker, int connection, Duration ttl, std::string& out) = 0;
  virtual void Release(const Worker& worker, std::string& out) = 0;
  // Whether the reply says that the lock was granted, or given back.
  virtual bool Granted(Worker& worker, const Reply& reply) = 0;
  virtual bool Released(const Reply& reply) = 0;
};

class RedisDialect final : public Dialect {
 public:
  Status Prepare(const Socket& socket) override {
    Result<std::string> script = LoadCompareAndDelete(socket);
    if (!script.ok()) {
      return script.error();
    }
    script_ = std::move(*script);
    return {};
  }
  void Acquire(Worker& worker, int connection, Duration ttl, std::string& out) override {
    worker.value = fmt::format("{}-{:016x}", connection, ++worker.turn);
    AppendCommand(out,
                  {"SET", worker.key, worker.value, "NX", "PX", std::to_string(ToMillis(ttl))});
  }
  void Release(const Worker& worker, std::string& out) override {
    AppendCommand(out, {"EVALSHA", script_, "1", worker.key, worker.value});
  }
  bool Granted(Worker& /*worker*/, const Reply& reply) override {
    return reply.kind == '+' && reply.text == "OK";
  }
  bool Released(const Reply& reply) override { return reply.kind == ':' && reply.text == "1"; }

 private:
  std::string script_;
};

// With request id and client context, as the client library sends them: each worker is a client of
// its own, with one request at a time, so its turns are the sequences.
class HoldfastDialect final : public Dialect {
 public:
  Status Prepare(const Socket& /*socket*/) override { return {}; }
  void Acquire(Worker& worker, int /*connection*/, Duration ttl, std::string& out) override {
    const std::string sequence = std::to_string(++worker.turn);
    const std::string client = run_ + worker.key;
    AppendCommand(out, {"HOLDFAST.ACQUIRE", worker.key, "TTL", std::to_string(ToMillis(ttl)),
                        "OWNER", "bench", "REQUEST", fmt::format("{}-{}", client, sequence),
                        "CLIENT", client, sequence, sequence});
  }
  void Release(const Worker& worker, std::string& out) override {
    AppendCommand(out, {"HOLDFAST.RELEASE", worker.key, worker.value});
  }
  bool Granted(Worker& worker, const Reply& reply) override {
    constexpr std::string_view kLease = "$8\r\nlease_id\r\n$32\r\n";
    const std::size_t at = reply.text.find(kLease);
    if (reply.kind != '*' || at == std::string_view::npos) {
      return false;
    }
    worker.value = std::string(reply.text.substr(at + kLease.size(), 32));
    return true;
  }
  bool Released(const Reply& reply) override {
    return reply.text.find("\r\nRELEASED\r\n") != std::string_view::npos;
  }

 private:
  const std::string run_ = ToHex(RandomId()).substr(0, 16) + "-";
};

class Connection final : public LoadConnection {
 public:
  Connection(Socket socket, Dialect& dialect, const PeerLoadOptions& options, int first_worker)
      : LoadConnection(std::move(socket)), dialect_(dialect), options_(options) {
    for (int i = 0; i < options.outstanding; ++i) {
      workers_.emplace_back().key = fmt::format("bench/{}", first_worker + i);
    }
  }

  bool Idle() const { return waiting_.empty(); }

  void Begin(Recorder& recorder, LoadTime now) {
    recorder_ = &recorder;
    for (Worker& worker : workers_) {
      Acquire(worker, now);
    }
  }

 private:
  Status OnInput(std::string_view& in, LoadTime now) override {
    while (const std::optional<Reply> reply = TakeReply(in)) {
      if (waiting_.empty()) {
        return Error{ErrorCode::kInternal, "resp: a reply to nothing", {}, {}};
      }
      Worker& worker = *waiting_.front();
      waiting_.pop_front();
      OnReply(worker, *reply, now);
    }
    return {};
  }

  void OnReply(Worker& worker, const Reply& reply, LoadTime now) {
    if (reply.kind == '-') {
      recorder_->Failed("REPLY", now);
    } else if (!worker.releasing && dialect_.Granted(worker, reply)) {
      recorder_->Operation(Verb::kAcquire, worker.from, now);
      worker.releasing = true;
      worker.from = now;
      dialect_.Release(worker, out());
      waiting_.push_back(&worker);
      return;
    } else if (!worker.releasing) {
      recorder_->Refused("HELD", now);
    } else if (dialect_.Released(reply)) {
      recorder_->Operation(Verb::kRelease, worker.from, now);
      recorder_->Pair(worker.pair_from, now);
    } else {
      recorder_->Refused("RELEASE_GONE", now);
    }
    if (!recorder_->Over(now)) {
      Acquire(worker, now);
    }
  }

  void Acquire(Worker& worker, LoadTime now) {
    worker.releasing = false;
    worker.pair_from = now;
    worker.from = now;
    dialect_.Acquire(worker, socket().fd(), options_.ttl, out());
    waiting_.push_back(&worker);
  }

  Dialect& dialect_;
  const PeerLoadOptions& options_;
  Recorder* recorder_ = nullptr;
  std::deque<Worker> workers_;   // a deque, since waiting_ points into it
  std::deque<Worker*> waiting_;  // for their replies, in order
};

class RespLoad {
 public:
  RespLoad(const PeerLoadOptions& options, Dialect& dialect)
      : options_(options), dialect_(dialect) {}

  Status Connect() {
    for (int i = 0; i < options_.connections; ++i) {
      Result<Socket> socket = ConnectTo(options_.port);
      if (!socket.ok()) {
        return socket.error();
      }
      if (i == 0) {
        if (Status prepared = dialect_.Prepare(*socket); !prepared.ok()) {
          return prepared;
        }
      }
      connections_.push_back(std::make_unique<Connection>(std::move(*socket), dialect_, options_,
                                                          i * options_.outstanding));
      loop_.Add(*connections_.back());
    }
    return {};
  }

  Result<LoadResult> Run() {
    const LoadTime begin = LoadClock::now();
    Recorder recorder(RecorderOf(options_, begin));
    for (const auto& connection : connections_) {
      connection->Begin(recorder, begin);
      if (Status sent = loop_.Flush(*connection); !sent.ok()) {
        return sent.error();
      }
    }
    return loop_.Run(recorder, [this] {
      return std::all_of(connections_.begin(), connections_.end(),
                         [](const auto& connection) { return connection->Idle(); });
    });
  }

 private:
  const PeerLoadOptions& options_;
  Dialect& dialect_;
  std::vector<std::unique_ptr<Connection>> connections_;
  LoadLoop loop_;
};

}  // namespace

bool RespAnswers(int port) {
  const Result<Socket> socket = ConnectTo(port);
  if (!socket.ok()) {
    return false;
  }
  const Result<std::string> reply = Call(*socket, {"PING"});
  return reply.ok() && *reply == "+PONG";
}

Result<LoadResult> RunRespLoad(const PeerLoadOptions& options, RespSystem system) {
  RedisDialect redis;
  HoldfastDialect holdfast;
  RespLoad load(options, system == RespSystem::kRedis ? static_cast<Dialect&>(redis) : holdfast);
  if (Status connected = load.Connect(); !connected.ok()) {
    return connected.error();
  }
  return load.Run();
}

}  // namespace holdfast::bench
