// Drives state machines for real: one background thread that waits for the transport, hands time
// and the ends of attempts to the machines and sends what they give out. All machines of one
// client, and what they share, belong to this thread; other threads reach it through Post.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "client/clock.h"
#include "client/machine.h"
#include "client/transport.h"
#include "holdfast/metrics.h"

namespace holdfast::client {

// Ids and jitter from the CSPRNG.
class SystemRandom : public RandomSource {
 public:
  Id128 Draw() override { return RandomId(); }
};

// What arrived on a stream, for the one thread that reads it.
struct StreamInbox {
  std::mutex mutex;
  std::condition_variable_any changed;
  // Guarded by mutex.
  std::deque<Transport::Event> events;
};

// The name of a verb in the path of its method.
std::string_view VerbOf(std::string_view method);

class Runner {
 public:
  // `metrics` may be null.
  Runner(std::unique_ptr<Transport> transport, std::vector<std::string> endpoints,
         std::shared_ptr<Metrics> metrics);
  // Drops the machines and what is on its way. Nothing may be posted any more.
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // Any thread.
  void Post(std::function<void()> task);
  BootTime Now() { return clock_.Now(); }

  // The rest belongs to the background thread.
  CallShared& shared() { return shared_; }
  // Takes the machine over until it is done, and starts it.
  void Add(std::shared_ptr<Machine> machine);
  // To be called after one of a machine's own methods was called. Machines that are gone are
  // ignored.
  void Touch(Machine& machine);
  // Opens a stream whose events go to `inbox`; each message is to be followed by ReadStream.
  AttemptId OpenStream(std::size_t endpoint, const RawRequest& request,
                       std::shared_ptr<StreamInbox> inbox);
  void ReadStream(AttemptId stream) { transport_->Read(stream); }
  void CloseStream(AttemptId stream);
  // For the metrics: the state of a hold or a session changed; a call ended as unknown.
  void Count(const LockUpdate& update);
  void Count(const SessionUpdate& update);
  void CountUnknown(std::string_view verb);

 private:
  struct Entry {
    std::shared_ptr<Machine> machine;
    BootTime wake = kNever;
  };
  struct Sent {
    Machine* machine = nullptr;
    Request request;
    const char* method = "";
    std::size_t endpoint = 0;
    BootTime at{};
  };

  void Loop();
  void RunTasks();
  void RunDue();
  void Deliver(Transport::Event event);
  void Fail(AttemptId attempt, const Sent& sent, const Failure& failure);
  void CountAttempt(const Sent& sent, const Failure* failure);
  void Turn(Machine& machine);
  void Remove(Machine& machine);
  Duration TimeToWait();

  SystemClock clock_;
  const std::vector<std::string> endpoints_;
  const std::shared_ptr<Metrics> metrics_;
  SystemRandom random_;

  // Belong to the background thread.
  CallShared shared_;
  std::unique_ptr<Transport> transport_;
  std::map<Machine*, Entry> machines_;
  std::set<std::pair<BootTime, Machine*>> wakes_;
  std::map<AttemptId, Sent> sent_;
  std::map<AttemptId, std::shared_ptr<StreamInbox>> streams_;
  std::vector<Outgoing> out_;

  // Guarded by mutex_.
  std::mutex mutex_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace holdfast::client
