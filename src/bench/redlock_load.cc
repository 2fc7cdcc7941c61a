#include <algorithm>
#include <array>
#include <deque>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <sys/resource.h>

#include "base/id.h"
#include "bench/load_loop.h"
#include "bench/peer_load.h"
#include "bench/resp_wire.h"

namespace holdfast::bench {
namespace {

constexpr int kMajority = kRedlockServers / 2 + 1;

// The part of the TTL that clocks may differ by, as the algorithm's description has it.
Duration Drift(Duration ttl) {
  return ttl / 100 + Millis(2);
}

// A client has as many sockets as there are servers.
void RaiseFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

// Who takes one lock and gives it back, again and again.
struct Worker {
  enum class Phase { kIdle, kAcquiring, kReleasing, kGivingUp };

  std::string key;
  std::string value;
  Phase phase = Phase::kIdle;
  std::uint64_t step = 0;  // counts the commands; replies to an earlier one are late
  int answers = 0;         // to the current command
  int yes = 0;
  bool failed = false;  // one of the answers was an error
  std::array<int, kRedlockServers> owed{};
  LoadTime pair_from;
  LoadTime from;
};

class Client;

// The connection of a client to one of the servers.
class Link final : public LoadConnection {
 public:
  Link(Socket socket, Client& client, std::size_t server)
      : LoadConnection(std::move(socket)), client_(client), server_(server) {}

  bool Idle() const { return waiting_.empty(); }
  void Send(std::string_view command, Worker& worker) {
    out() += command;
    waiting_.push_back({&worker, worker.step});
  }

 private:
  struct Expected {
    Worker* worker;
    std::uint64_t step;
  };

  Status OnInput(std::string_view& in, LoadTime now) override;

  Client& client_;
  const std::size_t server_;
  std::deque<Expected> waiting_;  // for their replies, in order
};

class Client {
 public:
  Client(const PeerLoadOptions& options, const std::string& script, int first_worker,
         LoadLoop& loop)
      : options_(options), script_(script), loop_(loop) {
    for (int i = 0; i < options.outstanding; ++i) {
      workers_.emplace_back().key = fmt::format("bench/{}", first_worker + i);
    }
  }

  void Add(Socket socket) {
    links_.push_back(std::make_unique<Link>(std::move(socket), *this, links_.size()));
    loop_.Add(*links_.back());
  }

  bool Idle() const {
    return std::all_of(links_.begin(), links_.end(), [](const auto& link) { return link->Idle(); });
  }

  Status Begin(Recorder& recorder, LoadTime now) {
    recorder_ = &recorder;
    for (Worker& worker : workers_) {
      Acquire(worker, now);
    }
    return Flush();
  }

  void OnReply(Worker& worker, std::uint64_t step, std::size_t server, const Reply& reply,
               LoadTime now) {
    --worker.owed[server];
    if (reply.kind == '-') {
      recorder_->Failed("REPLY", now);
    }
    if (step == worker.step && worker.phase != Worker::Phase::kIdle) {
      ++worker.answers;
      worker.failed = worker.failed || reply.kind == '-';
      worker.yes +=
          (reply.kind == '+' && reply.text == "OK") || (reply.kind == ':' && reply.text == "1") ? 1
                                                                                                : 0;
      Count(worker, now);
    }
    if (worker.phase == Worker::Phase::kIdle) {
      Acquire(worker, now);
    }
  }

  Status Flush() {
    for (const auto& link : links_) {
      if (Status flushed = loop_.Flush(*link); !flushed.ok()) {
        return flushed;
      }
    }
    return {};
  }

 private:
  void Count(Worker& worker, LoadTime now) {
    const bool majority = worker.yes >= kMajority;
    const bool lost = worker.answers - worker.yes > kRedlockServers - kMajority;
    switch (worker.phase) {
      case Worker::Phase::kAcquiring:
        if (majority && now - worker.from < options_.ttl - Drift(options_.ttl)) {
          recorder_->Operation(Verb::kAcquire, worker.from, now);
          Release(worker, Worker::Phase::kReleasing, now);
        } else if (majority || lost) {
          Refuse(worker, majority ? "EXPIRED" : "HELD", now);
          Release(worker, Worker::Phase::kGivingUp, now);
        }
        return;
      case Worker::Phase::kReleasing:
        if (majority) {
          recorder_->Operation(Verb::kRelease, worker.from, now);
          recorder_->Pair(worker.pair_from, now);
          worker.phase = Worker::Phase::kIdle;
        } else if (lost) {
          Refuse(worker, "RELEASE_GONE", now);
          worker.phase = Worker::Phase::kIdle;
        }
        return;
      case Worker::Phase::kGivingUp:
        if (worker.answers == kRedlockServers) {
          worker.phase = Worker::Phase::kIdle;
        }
        return;
      case Worker::Phase::kIdle:
        return;
    }
  }

  // Errors have been counted already.
  void Refuse(const Worker& worker, std::string_view kind, LoadTime now) {
    if (!worker.failed) {
      recorder_->Refused(kind, now);
    }
  }

  // Only while no server is too far behind: its late replies come back here.
  void Acquire(Worker& worker, LoadTime now) {
    const auto behind = [](int owed) { return owed >= kMostOwed; };
    if (recorder_->Over(now) || std::any_of(worker.owed.begin(), worker.owed.end(), behind)) {
      return;
    }
    worker.value = ToHex(RandomId());
    worker.pair_from = now;
    Start(worker, Worker::Phase::kAcquiring, now);
    SendToAll(worker, {"SET", worker.key, worker.value, "NX", "PX",
                       std::to_string(ToMillis(options_.ttl))});
  }

  void Release(Worker& worker, Worker::Phase phase, LoadTime now) {
    Start(worker, phase, now);
    SendToAll(worker, {"EVALSHA", script_, "1", worker.key, worker.value});
  }

  static void Start(Worker& worker, Worker::Phase phase, LoadTime now) {
    worker.phase = phase;
    worker.from = now;
    ++worker.step;
    worker.answers = 0;
    worker.yes = 0;
    worker.failed = false;
  }

  void SendToAll(Worker& worker, std::initializer_list<std::string_view> words) {
    std::string command;
    AppendCommand(command, words);
    for (std::size_t server = 0; server < links_.size(); ++server) {
      ++worker.owed[server];
      links_[server]->Send(command, worker);
    }
  }

  const PeerLoadOptions& options_;
  const std::string script_;
  LoadLoop& loop_;
  Recorder* recorder_ = nullptr;
  std::vector<std::unique_ptr<Link>> links_;  // by server
  std::deque<Worker> workers_;                // a deque, since the links point into it
};

Status Link::OnInput(std::string_view& in, LoadTime now) {
  while (const std::optional<Reply> reply = TakeReply(in)) {
    if (waiting_.empty()) {
      return Error{ErrorCode::kInternal, "redlock: a reply to nothing", {}, {}};
    }
    const Expected expected = waiting_.front();
    waiting_.pop_front();
    client_.OnReply(*expected.worker, expected.step, server_, *reply, now);
  }
  return client_.Flush();
}

Status Connect(const PeerLoadOptions& options, LoadLoop& loop,
               std::vector<std::unique_ptr<Client>>& clients) {
  std::string script;  // the same digest everywhere
  for (const int port : options.ports) {
    const Result<Socket> socket = ConnectTo(port);
    Result<std::string> loaded =
        socket.ok() ? LoadCompareAndDelete(*socket) : Result<std::string>(socket.error());
    if (!loaded.ok()) {
      return loaded.error();
    }
    script = std::move(*loaded);
  }
  for (int i = 0; i < options.connections; ++i) {
    clients.push_back(std::make_unique<Client>(options, script, i * options.outstanding, loop));
    for (const int port : options.ports) {
      Result<Socket> socket = ConnectTo(port);
      if (!socket.ok()) {
        return socket.error();
      }
      clients.back()->Add(std::move(*socket));
    }
  }
  return {};
}

}  // namespace

Result<LoadResult> RunRedlockLoad(const PeerLoadOptions& options) {
  if (options.ports.size() != kRedlockServers) {
    return InvalidArgument("ports", fmt::format("{} of them", kRedlockServers),
                           "bad number of servers");
  }
  RaiseFileLimit();
  LoadLoop loop;
  std::vector<std::unique_ptr<Client>> clients;
  if (Status connected = Connect(options, loop, clients); !connected.ok()) {
    return connected.error();
  }
  const LoadTime begin = LoadClock::now();
  Recorder recorder(RecorderOf(options, begin));
  for (const auto& client : clients) {
    if (Status begun = client->Begin(recorder, begin); !begun.ok()) {
      return begun.error();
    }
  }
  return loop.Run(recorder, [&clients] {
    return std::all_of(clients.begin(), clients.end(),
                       [](const auto& client) { return client->Idle(); });
  });
}

}  // namespace holdfast::bench
