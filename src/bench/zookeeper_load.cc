#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "bench/load_loop.h"
#include "bench/peer_load.h"
#include "bench/zookeeper_wire.h"

namespace holdfast::bench {
namespace {

constexpr const char* kRoot = "/holdfast-bench";
// Sessions are opened one after the other before the first of them has anything to do.
constexpr Duration kSessionTimeout = Seconds(120);

// Who takes one lock and gives it back, again and again.
struct Worker {
  enum class Phase { kCreating, kListing, kDeleting, kGivingUp };

  std::string lock;   // the node of the lock
  std::string child;  // our own below it
  Phase phase = Phase::kCreating;
  LoadTime pair_from;
  LoadTime from;
};

class Session final : public LoadConnection {
 public:
  Session(Socket socket, std::int64_t id, const std::vector<std::string>& locks)
      : LoadConnection(std::move(socket)), prefix_(fmt::format("/{:016x}-lock-", id)) {
    for (const std::string& lock : locks) {
      workers_.emplace_back().lock = lock;
    }
  }

  bool Idle() const { return waiting_.empty(); }

  void Begin(Recorder& recorder, LoadTime now) {
    recorder_ = &recorder;
    for (Worker& worker : workers_) {
      Create(worker, now);
    }
  }

 private:
  struct Expected {
    Worker* worker;
    std::int32_t xid;
  };

  Status OnInput(std::string_view& in, LoadTime now) override {
    for (;;) {
      const Result<std::optional<ZooKeeperReply>> reply = TakeZooKeeperReply(in);
      if (!reply.ok()) {
        return reply.error();
      }
      if (!reply->has_value()) {
        return {};
      }
      if (waiting_.empty() || waiting_.front().xid != (*reply)->xid) {
        return Error{ErrorCode::kInternal, "zookeeper: a reply to nothing", {}, {}};
      }
      Worker& worker = *waiting_.front().worker;
      waiting_.pop_front();
      OnReply(worker, **reply, now);
    }
  }

  void OnReply(Worker& worker, const ZooKeeperReply& reply, LoadTime now) {
    const bool done = reply.error == zookeeper_error::kNone;
    const bool gone = reply.error == zookeeper_error::kNoNode;
    const bool refusal = worker.phase == Worker::Phase::kDeleting && gone;
    if (!done && !refusal) {
      recorder_->Failed(ZooKeeperErrorName(reply.error), now);
    }
    switch (worker.phase) {
      case Worker::Phase::kCreating:
        if (done) {
          worker.child = std::string(CreatedPath(reply.body));
          List(worker);
          return;
        }
        break;
      case Worker::Phase::kListing:
        if (done && IsLowestChild(reply.body, worker.child)) {
          recorder_->Operation(Verb::kAcquire, worker.from, now);
          Delete(worker, Worker::Phase::kDeleting, now);
          return;
        }
        if (done) {
          recorder_->Refused("HELD", now);
        }
        Delete(worker, Worker::Phase::kGivingUp, now);
        return;
      case Worker::Phase::kDeleting:
        if (done) {
          recorder_->Operation(Verb::kRelease, worker.from, now);
          recorder_->Pair(worker.pair_from, now);
        } else if (refusal) {
          recorder_->Refused("RELEASE_GONE", now);
        }
        break;
      case Worker::Phase::kGivingUp:
        break;
    }
    if (!recorder_->Over(now)) {
      Create(worker, now);
    }
  }

  void Create(Worker& worker, LoadTime now) {
    worker.phase = Worker::Phase::kCreating;
    worker.pair_from = now;
    worker.from = now;
    AppendCreate(out(), Expect(worker), worker.lock + prefix_, NodeKind::kEphemeralSequential);
  }

  void List(Worker& worker) {
    worker.phase = Worker::Phase::kListing;
    AppendGetChildren(out(), Expect(worker), worker.lock);
  }

  void Delete(Worker& worker, Worker::Phase phase, LoadTime now) {
    worker.phase = phase;
    worker.from = now;
    AppendDelete(out(), Expect(worker), worker.child);
  }

  std::int32_t Expect(Worker& worker) {
    last_xid_ = last_xid_ == INT32_MAX ? 1 : last_xid_ + 1;
    waiting_.push_back({&worker, last_xid_});
    return last_xid_;
  }

  const std::string prefix_;  // of the children, so that one whose reply is lost can be told
  Recorder* recorder_ = nullptr;
  std::int32_t last_xid_ = 0;
  std::deque<Worker> workers_;    // a deque, since waiting_ points into it
  std::deque<Expected> waiting_;  // for their replies, in order
};

Result<std::unique_ptr<Session>> Open(const PeerLoadOptions& options, int first_worker) {
  Result<ZooKeeperSession> session = ZooKeeperSession::Open(options.port, kSessionTimeout);
  if (!session.ok()) {
    return session.error();
  }
  Status made = first_worker == 0 ? session->EnsureNode(kRoot) : Status();
  std::vector<std::string> locks;
  for (int i = 0; i < options.outstanding; ++i) {
    locks.push_back(fmt::format("{}/{}", kRoot, first_worker + i));
    made = made.ok() ? session->EnsureNode(locks.back()) : made;
  }
  if (!made.ok()) {
    return made.error();
  }
  const std::int64_t id = session->id();
  return std::make_unique<Session>(session->Release(), id, locks);
}

}  // namespace

Result<LoadResult> RunZooKeeperLoad(const PeerLoadOptions& options) {
  std::vector<std::unique_ptr<Session>> sessions;
  LoadLoop loop;
  for (int i = 0; i < options.connections; ++i) {
    Result<std::unique_ptr<Session>> session = Open(options, i * options.outstanding);
    if (!session.ok()) {
      return session.error();
    }
    loop.Add(**session);
    sessions.push_back(std::move(*session));
  }
  const LoadTime begin = LoadClock::now();
  Recorder recorder(RecorderOf(options, begin));
  for (const auto& session : sessions) {
    session->Begin(recorder, begin);
    if (Status sent = loop.Flush(*session); !sent.ok()) {
      return sent.error();
    }
  }
  Result<LoadResult> result = loop.Run(recorder, [&sessions] {
    return std::all_of(sessions.begin(), sessions.end(),
                       [](const auto& session) { return session->Idle(); });
  });
  // Their end is a change that all servers write down, which belongs to no measurement.
  for (const auto& session : sessions) {
    if (!result.ok() || !session->Idle()) {
      continue;
    }
    if (Status closed = CloseZooKeeperSession(session->socket()); !closed.ok()) {
      return closed.error();
    }
  }
  return result;
}

}  // namespace holdfast::bench
