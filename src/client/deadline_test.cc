// A small service, a network that delays, loses and repeats, and clients whose clocks run at
// different rates: no client may ever say that it holds the lock when the service could grant it to
// somebody else, and none may give a lock up while an answer that it got still covers it. The
// planted bugs of the client deadline must break one of the two.
#include <deque>
#include <map>
#include <memory>
#include <queue>
#include <sstream>

#include <gtest/gtest.h>

#include "base/planted.h"
#include "client/lock_flow.h"
#include "client/test_stage.h"

namespace holdfast::client {
namespace {

constexpr Duration kTtl = Seconds(10);
constexpr Duration kStopTime = Millis(300);
constexpr Duration kProvisional = Seconds(5);

// True time: nanoseconds since the start of the run.
using Time = Duration;

// One lock, as the real service has it: request ids, a queue, provisional grants, leases that are
// over when their deadline lies in the past, expired by a tick. Answers go out through `send`.
class Service {
 public:
  using Send = std::function<void(AttemptId, Reply)>;
  explicit Service(Send send) : send_(std::move(send)) {}

  void Receive(Time now, AttemptId attempt, const Request& request) {
    Expire(now);
    if (const auto* acquire = std::get_if<AcquireRequest>(&request)) {
      OnAcquire(now, attempt, *acquire);
    } else if (const auto* renew = std::get_if<RenewRequest>(&request)) {
      OnRenew(now, attempt, *renew);
    } else if (const auto* release = std::get_if<ReleaseRequest>(&request)) {
      const bool current = holder_ == release->lease_id && !holder_.empty();
      if (current) {
        ended_by_release_.insert(holder_);
        Free(now);
      }
      send_(attempt, ReleasedIs(ended_by_release_.contains(release->lease_id), Cause::kExpired));
    } else if (const auto* cancel = std::get_if<CancelRequest>(&request)) {
      OnCancel(now, attempt, *cancel);
    }
  }

  void Expire(Time now) {
    while (!holder_.empty() && deadline_ < now) {
      Free(now);
    }
  }

  // The lease is the current one and cannot be granted to another at `now`.
  bool Covers(const std::string& lease_id, Time now) const {
    return holder_ == lease_id && now <= deadline_;
  }
  std::uint64_t grants() const { return token_; }

 private:
  struct Waiter {
    std::string request_id;
    AttemptId attempt{};
    Time until{};
  };

  void OnAcquire(Time now, AttemptId attempt, const AcquireRequest& acquire) {
    const std::string& id = acquire.request_id;
    if (cancelled_.contains(id)) {
      send_(attempt, Refused(RefusalCode::kCancelled));
    } else if (const auto lease = lease_of_.find(id); lease != lease_of_.end()) {
      send_(attempt, lease->second == holder_ ? GrantNow(now) : Refused(RefusalCode::kEnded));
    } else if (holder_.empty()) {
      Grant(now, id, attempt, /*from_queue=*/false);
    } else {
      for (Waiter& waiter : queue_) {
        if (waiter.request_id == id) {
          send_(std::exchange(waiter.attempt, attempt), Refused(RefusalCode::kSuperseded));
          return;
        }
      }
      queue_.push_back({id, attempt, now + acquire.wait});
    }
  }

  void OnRenew(Time now, AttemptId attempt, const RenewRequest& renew) {
    if (renew.lease_id != holder_) {
      send_(attempt, NotRenewedBecause(Cause::kExpired));
      return;
    }
    provisional_ = false;
    deadline_ = std::max(deadline_, now + kTtl);
    send_(attempt, RenewedFor(deadline_ - now, kTtl));
  }

  void OnCancel(Time now, AttemptId attempt, const CancelRequest& cancel) {
    const auto lease = lease_of_.find(cancel.request_id);
    if (lease != lease_of_.end()) {
      const bool current = lease->second == holder_;
      if (current && provisional_) {
        Free(now);
      }
      send_(attempt, CancelledAs(!current       ? CancelOutcome::kAlreadyOver
                                 : provisional_ ? CancelOutcome::kProvisionalReleased
                                                : CancelOutcome::kStillGranted));
      return;
    }
    cancelled_.insert(cancel.request_id);
    std::erase_if(queue_,
                  [&](const Waiter& waiter) { return waiter.request_id == cancel.request_id; });
    send_(attempt, CancelledAs(CancelOutcome::kCancelledBeforeArrival));
  }

  void Grant(Time now, const std::string& request_id, AttemptId attempt, bool from_queue) {
    holder_ = "lease-" + std::to_string(++token_);
    lease_of_[request_id] = holder_;
    provisional_ = from_queue;
    deadline_ = now + (from_queue ? kProvisional : kTtl);
    send_(attempt, GrantNow(now));
  }
  Reply GrantNow(Time now) const {
    AcquireResult result = Granted(deadline_ - now, provisional_, kTtl);
    std::get<client::Grant>(result.outcome).lease_id = holder_;
    std::get<client::Grant>(result.outcome).fencing_token = token_;
    return result;
  }
  void Free(Time now) {
    holder_.clear();
    while (holder_.empty() && !queue_.empty()) {
      const Waiter next = queue_.front();
      queue_.pop_front();
      if (next.until < now) {
        cancelled_.insert(next.request_id);
        send_(next.attempt, Refused(RefusalCode::kWaitTimeout));
      } else {
        Grant(now, next.request_id, next.attempt, /*from_queue=*/true);
      }
    }
  }

  Send send_;
  std::string holder_;
  Time deadline_{};
  bool provisional_ = false;
  std::uint64_t token_ = 0;
  std::deque<Waiter> queue_;
  std::map<std::string, std::string> lease_of_;  // by request id
  std::set<std::string> cancelled_;
  std::set<std::string> ended_by_release_;
};

class Simulation {
 public:
  explicit Simulation(std::uint64_t seed)
      : random_(seed),
        service_([this](AttemptId attempt, Reply reply) { Answer(attempt, std::move(reply)); }) {
    for (std::size_t i = 0; i < kClients; ++i) {
      clients_.push_back(std::make_unique<Client>(random_.Next()));
      Client& client = *clients_.back();
      client.epoch = BootTime(random_.Between(Seconds(1), Seconds(100'000)));
      client.rate_ppm =
          1'000'000 + static_cast<std::int64_t>(random_.Next() % 40'001) - 20'000;  // +-2 %
    }
  }

  // The first violation, or nothing.
  std::string Play() {
    for (now_ = Time::zero(); now_ < kLength && violation_.empty(); now_ += kStep) {
      service_.Expire(now_);
      Deliver();
      for (auto& client : clients_) {
        Step(*client);
      }
    }
    return violation_;
  }
  std::uint64_t grants() const { return service_.grants(); }
  int times_lost() const { return times_lost_; }
  int late_replies() const { return late_replies_; }

 private:
  static constexpr std::size_t kClients = 3;
  static constexpr Time kStep = Millis(20);
  static constexpr Time kLength = Seconds(240);

  struct Client {
    explicit Client(std::uint64_t seed) : random(seed), shared(random, 2) {}
    BootTime Boot(Time now) const { return epoch + Duration(now.count() / 1000 * rate_ppm / 1000); }

    SeededRandom random;
    CallShared shared;
    BootTime epoch{};
    std::int64_t rate_ppm = 1'000'000;
    std::unique_ptr<LockFlow> flow;
    LockState last = LockState::kNotAcquired;
    Time next_action{};    // when it wants the lock again, or releases it
    Time cut_off_until{};  // nothing gets through
    Time asleep_until{};   // the process does not run
    BootTime
        covered_until{};  // by the answers that it got, counted from the sends of their attempts
    std::map<AttemptId, BootTime> sent_at;
    std::map<AttemptId, BootTime> open;  // attempts without an end, and their deadlines
  };
  struct Message {
    Time at{};
    std::uint64_t order = 0;  // among those of one moment
    std::size_t client = 0;
    AttemptId attempt{};
    std::variant<Request, Reply> body;
    bool operator<(const Message& other) const {
      return std::tie(at, order) > std::tie(other.at, other.order);
    }
  };

  // Attempt ids are per client; on the way to the service they carry the client in their upper
  // bits.
  static AttemptId Global(std::size_t client, AttemptId attempt) {
    return AttemptId{static_cast<std::uint64_t>(attempt) |
                     (static_cast<std::uint64_t>(client) << 48U)};
  }

  void Transmit(std::size_t client, AttemptId attempt, std::variant<Request, Reply> body) {
    const bool cut_off = now_ < clients_[client]->cut_off_until;
    const int copies = cut_off || random_.OneIn(12) ? 0 : random_.OneIn(12) ? 2 : 1;
    for (int i = 0; i < copies; ++i) {
      const Time delay = random_.OneIn(4) ? random_.Between(Millis(1), Seconds(4))
                                          : random_.Between(Millis(1), Millis(50));
      messages_.push({now_ + delay, ++order_, client, attempt, body});
    }
  }
  void Answer(AttemptId global, Reply reply) {
    const auto number = static_cast<std::uint64_t>(global);
    Transmit(number >> 48U, AttemptId{number & 0xffff'ffff'ffffU}, std::move(reply));
  }

  void Deliver() {
    while (!messages_.empty() && messages_.top().at <= now_) {
      const Message message = messages_.top();
      messages_.pop();
      Client& client = *clients_[message.client];
      if (const auto* request = std::get_if<Request>(&message.body)) {
        service_.Receive(now_, Global(message.client, message.attempt), *request);
      } else if (now_ < client.asleep_until) {
        messages_.push(
            {client.asleep_until, ++order_, message.client, message.attempt, message.body});
      } else if (client.flow != nullptr) {
        OnAnswer(client, message.attempt, std::get<Reply>(message.body));
      }
    }
  }

  void OnAnswer(Client& client, AttemptId attempt, const Reply& reply) {
    const BootTime boot = client.Boot(now_);
    late_replies_ += client.open.erase(attempt) == 0 ? 1 : 0;
    const bool was_asking = !client.flow->current().grant.has_value();
    // What comes at or after the local deadline finds the lock lost for good, and covers nothing.
    const bool in_time =
        client.flow->current().state != LockState::kHeld || client.flow->EnsureHeld(boot);
    client.flow->OnReply(attempt, reply, boot);
    const auto cover = [&](Duration remaining) {
      client.covered_until = std::max(client.covered_until, client.sent_at.at(attempt) + remaining);
    };
    const auto* acquire = std::get_if<AcquireResult>(&reply);
    if (acquire != nullptr && acquire->granted() != nullptr && was_asking) {
      cover(acquire->granted()->remaining);
    }
    if (const auto* renew = std::get_if<RenewResult>(&reply);
        renew != nullptr && renew->renewed() != nullptr && in_time) {
      cover(renew->renewed()->remaining);
    }
    Check(client);
  }

  void Step(Client& client) {
    if (now_ < client.asleep_until) {
      return;
    }
    const BootTime boot = client.Boot(now_);
    if (client.flow == nullptr && now_ >= client.next_action) {
      StartFlow(client, boot);
    }
    if (client.flow == nullptr) {
      return;
    }
    for (auto open = client.open.begin(); open != client.open.end();) {
      if (open->second <= boot) {
        const AttemptId attempt = open->first;
        open = client.open.erase(open);
        client.flow->OnFailure(attempt, Unknown(), boot);
      } else {
        ++open;
      }
    }
    if (client.flow->EnsureHeld(boot) && now_ >= client.next_action) {
      client.flow->Release(boot);
    }
    std::vector<Outgoing> out;
    client.flow->Advance(boot, out);
    for (Outgoing& outgoing : out) {
      client.open[outgoing.attempt.id] = outgoing.attempt.deadline;
      client.sent_at[outgoing.attempt.id] = boot;
      Transmit(IndexOf(client), outgoing.attempt.id, std::move(outgoing.request));
    }
    Check(client);
    if (random_.OneIn(1500)) {
      client.cut_off_until = now_ + random_.Between(Seconds(1), Seconds(20));
    }
    if (random_.OneIn(3000)) {
      client.asleep_until = now_ + random_.Between(Millis(100), Seconds(15));
    }
    if (client.flow->Done()) {
      client.flow.reset();
      client.next_action = now_ + random_.Between(Millis(100), Seconds(5));
    }
  }

  void StartFlow(Client& client, BootTime boot) {
    LockGoal goal;
    goal.acquire.resource = "r";
    goal.acquire.wait = random_.Between(Seconds(0), Seconds(40));
    goal.stop_time = kStopTime;
    client.covered_until = BootTime{};
    client.last = LockState::kAcquiring;
    client.flow = std::make_unique<LockFlow>(client.shared, goal, FlowOptions{}, nullptr,
                                             LockCallback{}, boot);
    client.next_action = now_ + random_.Between(Seconds(2), Seconds(60));
  }

  void Check(Client& client) {
    const BootTime boot = client.Boot(now_);
    const LockUpdate& update = client.flow->current();
    if (client.flow->EnsureHeld(boot) && !service_.Covers(update.grant->lease_id, now_)) {
      Violate(client, "says that it holds what the service could grant to another");
    }
    const bool lost_now = update.state == LockState::kLost && client.last != LockState::kLost;
    times_lost_ += lost_now ? 1 : 0;
    if (lost_now && update.cause == Cause::kExpired &&
        boot < client.covered_until - kTtl / 20 - kStopTime &&
        service_.Covers(update.grant->lease_id, now_)) {
      Violate(client, "gave up what its answers still covered");
    }
    client.last = update.state;
  }

  void Violate(const Client& client, const char* what) {
    if (violation_.empty()) {
      std::ostringstream text;
      text << "client " << IndexOf(client) << " at " << ToMillis(now_) << " ms " << what;
      violation_ = text.str();
    }
  }

  std::size_t IndexOf(const Client& client) const {
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      if (clients_[i].get() == &client) {
        return i;
      }
    }
    return kClients;
  }

  SeededRandom random_;
  Service service_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::priority_queue<Message> messages_;
  std::uint64_t order_ = 0;
  Time now_{};
  std::string violation_;
  int times_lost_ = 0;
  int late_replies_ = 0;
};

constexpr std::uint64_t kSeeds = 60;

TEST(Deadline, NoClientSaysHeldWhenAnotherCouldBeGrantedAndNoneGivesUpTooEarly) {
  std::uint64_t grants = 0;
  int lost = 0;
  int late = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Simulation run(seed);
    const std::string violation = run.Play();
    ASSERT_EQ(violation, "") << "seed " << seed;
    grants += run.grants();
    lost += run.times_lost();
    late += run.late_replies();
  }
  // The runs would prove little if nothing had happened in them.
  EXPECT_GT(grants, 10 * kSeeds);
  EXPECT_GT(lost, static_cast<int>(kSeeds));
  EXPECT_GT(late, static_cast<int>(kSeeds));
}

#ifdef HOLDFAST_PLANTED_BUGS
int SeedsThatFail(Bug bug) {
  const PlantBug planted(bug);
  int failed = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const std::string violation = Simulation(seed).Play();
    failed += violation.empty() ? 0 : 1;
  }
  return failed;
}

TEST(Deadline, CountingFromTheReceiptIsCaught) {
  EXPECT_GT(SeedsThatFail(Bug::kDeadlineFromReceipt), 0);
}

TEST(Deadline, CountingFromTheFirstSendIsCaught) {
  EXPECT_GT(SeedsThatFail(Bug::kDeadlineFromFirstSend), 0);
}
#endif

}  // namespace
}  // namespace holdfast::client
