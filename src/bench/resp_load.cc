#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <deque>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/id.h"
#include "bench/peer_load.h"

namespace holdfast::bench {
namespace {

constexpr int kPollMillis = 50;
constexpr Duration kDrainTimeout = Seconds(5);
constexpr std::string_view kCompareAndDelete =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

Error SocketError(const std::string& what) {
  return Error{ErrorCode::kUnavailable,
               fmt::format("resp: {}: {}", what, std::generic_category().message(errno)),
               {},
               {}};
}

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) {
      close(fd_);
    }
  }
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

Result<Socket> ConnectTo(int port) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (socket.fd() < 0 ||
      connect(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return SocketError(fmt::format("connect to port {}", port));
  }
  const int on = 1;
  setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return socket;
}

void AppendCommand(std::string& out, std::initializer_list<std::string_view> words) {
  fmt::format_to(std::back_inserter(out), "*{}\r\n", words.size());
  for (const std::string_view word : words) {
    fmt::format_to(std::back_inserter(out), "${}\r\n{}\r\n", word.size(), word);
  }
}

// One reply: its first character and its text, which is "" for a null bulk string and all of the
// elements as they came for an array. Takes it off the front of `in`; nothing if it is incomplete.
struct Reply {
  char kind = 0;
  std::string_view text;
};

std::optional<Reply> TakeReply(std::string_view& in) {
  const std::size_t line_end = in.find("\r\n");
  if (line_end == std::string_view::npos) {
    return std::nullopt;
  }
  Reply reply{.kind = in[0], .text = in.substr(1, line_end - 1)};
  std::string_view rest = in.substr(line_end + 2);
  int size = 0;
  if (reply.kind == '$' || reply.kind == '*') {
    std::from_chars(reply.text.data(), reply.text.data() + reply.text.size(), size);
    reply.text = {};
  }
  if (reply.kind == '$' && size >= 0) {
    const auto length = static_cast<std::size_t>(size);
    if (rest.size() < length + 2) {
      return std::nullopt;
    }
    reply.text = rest.substr(0, length);
    rest.remove_prefix(length + 2);
  } else if (reply.kind == '*') {
    const std::string_view elements = rest;
    for (int i = 0; i < size; ++i) {
      if (!TakeReply(rest).has_value()) {
        return std::nullopt;
      }
    }
    reply.text = elements.substr(0, elements.size() - rest.size());
  }
  in = rest;
  return reply;
}

// One command on a blocking socket, its reply as text with the kind in front; a null bulk string is
// "$".
Result<std::string> Call(const Socket& socket, std::initializer_list<std::string_view> words) {
  std::string out;
  AppendCommand(out, words);
  if (send(socket.fd(), out.data(), out.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(out.size())) {
    return SocketError("send");
  }
  std::string in;
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t got = recv(socket.fd(), buffer.data(), buffer.size(), 0);
    if (got <= 0) {
      return SocketError("receive");
    }
    in.append(buffer.data(), static_cast<std::size_t>(got));
    std::string_view rest = in;
    if (const std::optional<Reply> reply = TakeReply(rest)) {
      return std::string(1, reply->kind) + std::string(reply->text);
    }
  }
}

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
    Result<std::string> sha = Call(socket, {"SCRIPT", "LOAD", kCompareAndDelete});
    if (!sha.ok() || sha->front() != '$') {
      return sha.ok() ? Error{ErrorCode::kInternal, "redis: SCRIPT LOAD: " + *sha, {}, {}}
                      : sha.error();
    }
    script_ = sha->substr(1);
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

class Connection {
 public:
  Connection(Socket socket, Dialect& dialect, int first_worker, int workers)
      : socket_(std::move(socket)), dialect_(dialect) {
    for (int i = 0; i < workers; ++i) {
      workers_.emplace_back().key = fmt::format("bench/{}", first_worker + i);
    }
  }

  int fd() const { return socket_.fd(); }
  bool Idle() const { return waiting_.empty(); }
  bool WantsToWrite() const { return !out_.empty(); }

  void Begin(const PeerLoadOptions& options, LoadTime now) {
    for (Worker& worker : workers_) {
      Acquire(worker, options, now);
    }
  }

  // Sends what the socket takes.
  Status Write() {
    const ssize_t sent = send(fd(), out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EAGAIN) {
      return SocketError("send");
    }
    out_.erase(0, static_cast<std::size_t>(std::max<ssize_t>(sent, 0)));
    return {};
  }

  // Takes the replies that are there and queues what follows them.
  Status Read(const PeerLoadOptions& options, Recorder& recorder) {
    std::array<char, 65536> buffer;
    const ssize_t got = recv(fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) {
      return {};
    }
    if (got <= 0) {
      return SocketError("receive");
    }
    const LoadTime now = LoadClock::now();
    in_.append(buffer.data(), static_cast<std::size_t>(got));
    std::string_view rest = in_;
    while (const std::optional<Reply> reply = TakeReply(rest)) {
      if (waiting_.empty()) {
        return Error{ErrorCode::kInternal, "resp: a reply to nothing", {}, {}};
      }
      Worker& worker = *waiting_.front();
      waiting_.pop_front();
      OnReply(worker, *reply, options, recorder, now);
    }
    in_.erase(0, in_.size() - rest.size());
    return {};
  }

 private:
  void OnReply(Worker& worker, const Reply& reply, const PeerLoadOptions& options,
               Recorder& recorder, LoadTime now) {
    if (reply.kind == '-') {
      recorder.Failed("REPLY", now);
    } else if (!worker.releasing && dialect_.Granted(worker, reply)) {
      recorder.Operation(Verb::kAcquire, worker.from, now);
      worker.releasing = true;
      worker.from = now;
      dialect_.Release(worker, out_);
      waiting_.push_back(&worker);
      return;
    } else if (!worker.releasing) {
      recorder.Refused("HELD", now);
    } else if (dialect_.Released(reply)) {
      recorder.Operation(Verb::kRelease, worker.from, now);
      recorder.Pair(worker.pair_from, now);
    } else {
      recorder.Refused("RELEASE_GONE", now);
    }
    if (!recorder.Over(now)) {
      Acquire(worker, options, now);
    }
  }

  void Acquire(Worker& worker, const PeerLoadOptions& options, LoadTime now) {
    worker.releasing = false;
    worker.pair_from = now;
    worker.from = now;
    dialect_.Acquire(worker, fd(), options.ttl, out_);
    waiting_.push_back(&worker);
  }

  const Socket socket_;
  Dialect& dialect_;
  std::deque<Worker> workers_;   // a deque, since waiting_ points into it
  std::deque<Worker*> waiting_;  // for their replies, in order
  std::string in_;
  std::string out_;
};

class RespLoad {
 public:
  RespLoad(const PeerLoadOptions& options, Dialect& dialect)
      : options_(options), dialect_(dialect), epoll_(epoll_create1(EPOLL_CLOEXEC)) {}

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
      connections_.push_back(std::make_unique<Connection>(
          std::move(*socket), dialect_, i * options_.outstanding, options_.outstanding));
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.ptr = connections_.back().get();
      epoll_ctl(epoll_.fd(), EPOLL_CTL_ADD, connections_.back()->fd(), &event);
    }
    return {};
  }

  Result<LoadResult> Run() {
    const LoadTime begin = LoadClock::now();
    Recorder recorder({.begin = begin,
                       .warm_up = options_.warm_up,
                       .duration = options_.duration,
                       .server_pid = options_.server_pid,
                       .progress = options_.progress,
                       .label = options_.progress_label});
    for (const auto& connection : connections_) {
      connection->Begin(options_, begin);
      if (Status written = WriteOut(*connection); !written.ok()) {
        return written.error();
      }
    }
    for (;;) {
      const LoadTime now = LoadClock::now();
      recorder.Advance(now);
      if (recorder.Over(now) && (Drained() || now > recorder.end() + kDrainTimeout)) {
        return recorder.Finish();
      }
      if (Status served = Serve(recorder); !served.ok()) {
        return served.error();
      }
    }
  }

 private:
  bool Drained() const {
    for (const auto& connection : connections_) {
      if (!connection->Idle()) {
        return false;
      }
    }
    return true;
  }

  Status Serve(Recorder& recorder) {
    std::array<epoll_event, 256> events;
    const int count =
        epoll_wait(epoll_.fd(), events.data(), static_cast<int>(events.size()), kPollMillis);
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      auto& connection = *static_cast<Connection*>(event.data.ptr);
      if ((event.events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) {
        if (Status read = connection.Read(options_, recorder); !read.ok()) {
          return read;
        }
      }
      if (Status written = WriteOut(connection); !written.ok()) {
        return written;
      }
    }
    return {};
  }

  // Asks epoll for room only while something did not fit, which small commands nearly never meet.
  Status WriteOut(Connection& connection) {
    if (!connection.WantsToWrite()) {
      return {};
    }
    if (Status written = connection.Write(); !written.ok()) {
      return written;
    }
    const bool blocked = connection.WantsToWrite();
    if (blocked || blocked_) {
      epoll_event event{};
      event.events = blocked ? EPOLLIN | EPOLLOUT : EPOLLIN;
      event.data.ptr = &connection;
      epoll_ctl(epoll_.fd(), EPOLL_CTL_MOD, connection.fd(), &event);
      blocked_ = true;
    }
    return {};
  }

  const PeerLoadOptions& options_;
  Dialect& dialect_;
  const Socket epoll_;
  std::vector<std::unique_ptr<Connection>> connections_;
  bool blocked_ = false;  // a connection has been blocked before
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
