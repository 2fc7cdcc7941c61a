#include "sim/worker.h"

#include <algorithm>
#include <utility>

#include "sim/translate.h"

namespace holdfast::sim {
namespace {

constexpr Duration kWriteEvery = Millis(150);

client::Failure Unanswered(client::FailureKind kind) {
  return {kind, Error{ErrorCode::kUnavailable, "simulated", {}, {}}, {}};
}

}  // namespace

bool Resources::Write(const std::string& resource, std::uint64_t token) {
  std::uint64_t& highest = highest_[resource];
  if (token < highest) {
    return false;
  }
  highest = token;
  return true;
}

Worker::Worker(Site& site, Resources& resources, int number, const Dice& dice,
               const Options& options)
    : site_(site), resources_(resources), number_(number), dice_(dice), options_(options) {
  clocks_.Begin(site.now());
}

void Worker::Start() {
  shared_ = std::make_unique<client::CallShared>(dice_, static_cast<std::size_t>(site_.size()));
  next_wish_ = site_.now() + dice_.UpTo(Millis(500));
  WakeAt(next_wish_);
}

void Worker::Finish() {
  finishing_ = true;
  Deliver([this] {
    for (const auto& job : jobs_) {
      job->forgets = false;
      job->release_at = BootTime{};
    }
  });
}

void Worker::Crash() {
  ++life_;
  for (const auto& [attempt, sent] : sent_) {
    site_.scheduler().In(dice_.UpTo(nastiness_.delay_max),
                         [this, sent = sent, node_life = site_.LifeOf(sent.node)] {
                           if (site_.LifeOf(sent.node) == node_life) {
                             site_.Abandon(sent.node, sent.served);
                           }
                         });
  }
  sent_.clear();
  // Locks before the sessions that they are on.
  std::erase_if(jobs_, [](const auto& job) { return !job->is_session(); });
  jobs_.clear();
  shared_.reset();
  Start();
}

std::uint64_t Worker::BelievesToHold(const std::string& resource) {
  for (const auto& job : jobs_) {
    if (job->lock && job->resource == resource && job->lock->EnsureHeld(Now())) {
      return job->lock->current().grant->fencing_token;
    }
  }
  return 0;
}

void Worker::WakeAt(BootTime true_time) {
  true_time = std::max(true_time, site_.now() + Millis(1));
  if (turn_at_ > site_.now() && turn_at_ <= true_time) {
    return;
  }
  turn_at_ = true_time;
  site_.scheduler().At(true_time, [this, true_time, life = life_] {
    if (life == life_ && turn_at_ == true_time) {
      Deliver([] {});
    }
  });
}

void Worker::Deliver(std::function<void()> input) {
  if (site_.now() < paused_until_) {
    site_.scheduler().At(paused_until_, [this, life = life_, input = std::move(input)] {
      if (life == life_) {
        Deliver(input);
      }
    });
    return;
  }
  input();
  Turn();
}

void Worker::Turn() {
  if (!finishing_ && site_.now() >= next_wish_) {
    Wish();
  }
  const BootTime now = Now();
  BootTime wake = now + Seconds(1);
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    Job& job = *jobs_[i];
    if (job.lock) {
      Work(job);
    } else if (job.release_at <= now && job.session.use_count() == 1 && !job.forgets) {
      job.release_at = client::kNever;
      job.session->Close(now);
    }
    std::vector<client::Outgoing> out;
    job.machine().Advance(now, out);
    for (client::Outgoing& outgoing : out) {
      Send(job, std::move(outgoing));
    }
    wake = std::min({wake, job.machine().NextWake(), std::max(job.write_at, now + Millis(1)),
                     std::max(job.release_at, now + Millis(1))});
  }
  std::erase_if(jobs_, [](const auto& job) {
    return job->machine().Done() && (job->lock != nullptr || job->session.use_count() == 1);
  });
  if (!finishing_) {
    wake = std::min(wake, now + (next_wish_ - site_.now()));
  }
  // A clock that is too slow by up to 2 % only makes it look once more.
  WakeAt(site_.now() + (wake - now));
}

void Worker::Wish() {
  next_wish_ = site_.now() + dice_.UpTo(Millis(800));
  if (static_cast<int>(jobs_.size()) >= options_.wishes_max) {
    return;
  }
  ++operations_;
  auto job = std::make_unique<Job>();
  job->id = next_job_++;
  const BootTime now = Now();
  job->forgets = dice_.OneIn(12);
  job->release_at = client::kNever;
  client::FlowOptions flow;
  flow.timeout = Seconds(6);
  flow.attempt_timeout = Seconds(1);
  const Duration ttl = dice_.Between(options_.ttl_min, options_.ttl_max);
  std::shared_ptr<client::SessionFlow> session;
  for (const auto& other : jobs_) {
    if (other->is_session() && other->session->current().state == client::SessionState::kSafe) {
      session = other->session;
    }
  }
  const auto on_session = [this](const client::SessionUpdate& update) {
    site_.scheduler().Note(static_cast<std::uint64_t>(update.state) + 100);
    if (update.state == client::SessionState::kJeopardy) {
      site_.Count("session in jeopardy");
    }
  };
  if (!session && dice_.OneIn(8)) {
    client::SessionGoal goal;
    goal.open.ttl = ttl;
    goal.open.owner = "worker" + std::to_string(number_);
    job->session = std::make_shared<client::SessionFlow>(*shared_, goal, flow, on_session, now);
    job->release_at = now + dice_.UpTo(Seconds(20));
    jobs_.push_back(std::move(job));
    return;
  }
  job->resource = "r" + std::to_string(dice_.Below(options_.resources));
  client::LockGoal goal;
  goal.acquire.resource = job->resource;
  goal.acquire.owner = "worker" + std::to_string(number_);
  goal.acquire.wait = dice_.OneIn(2) ? dice_.UpTo(Seconds(5)) : Duration::zero();
  if (session && dice_.OneIn(2)) {
    job->session = session;
    goal.acquire.session_id = session->current().session_id;
  } else {
    goal.acquire.ttl = ttl;
  }
  const auto on_lock = [this](const client::LockUpdate& update) {
    site_.scheduler().Note(static_cast<std::uint64_t>(update.state));
    if (update.grant.has_value() &&
        !was_granted(update.grant->lease_id, update.grant->fencing_token)) {
      site_.Violated("I5: a grant was acknowledged that no log has: " + update.resource);
    }
    if (update.state == client::LockState::kLost) {
      site_.Count("hold lost");
    }
  };
  job->lock = std::make_unique<client::LockFlow>(*shared_, goal, flow, job->session, on_lock, now);
  jobs_.push_back(std::move(job));
}

// Under a lock: writes as long as it is held, then gives it back, or forgets to.
void Worker::Work(Job& job) {
  const BootTime now = Now();
  const client::LockState state = job.lock->current().state;
  if (state == client::LockState::kHeld && job.release_at == client::kNever && !job.forgets) {
    job.release_at = now + dice_.UpTo(Seconds(4));
    job.write_at = now;
  }
  if (job.write_at <= now && job.lock->EnsureHeld(now)) {
    job.write_at = now + kWriteEvery;
    ++operations_;
    // What is sent now may arrive much later: then the resource has to refuse it.
    const std::uint64_t token = job.lock->current().grant->fencing_token;
    const Duration late = dice_.OneIn(30) ? dice_.UpTo(Seconds(20)) : dice_.UpTo(Millis(5));
    site_.scheduler().In(late, [this, resource = job.resource, token] {
      if (!resources_.Write(resource, token)) {
        site_.Count("old token refused by a resource");
      }
    });
  }
  if (job.write_at <= now && !job.lock->EnsureHeld(now)) {
    job.write_at = client::kNever;
  }
  if (job.release_at <= now) {
    job.release_at = client::kNever;
    job.lock->Release(now);
  }
}

void Worker::Send(Job& job, client::Outgoing&& outgoing) {
  ++operations_;
  const client::AttemptId attempt = outgoing.attempt.id;
  const int node = static_cast<int>(outgoing.attempt.endpoint);
  const Duration timeout = outgoing.attempt.deadline - Now();
  sent_[attempt] = Sent{job.id, outgoing.request, node, 0};
  const auto later = [this, life = life_](Duration delay, std::function<void()> run) {
    site_.scheduler().In(delay, [this, life, run = std::move(run)] {
      if (life == life_) {
        run();
      }
    });
  };
  later(std::max(timeout, Duration::zero()),
        [this, attempt] { End(attempt, Unanswered(client::FailureKind::kUnknown)); });
  if (site_.now() < cut_until_ || dice_.PerThousand(nastiness_.lost_requests)) {
    site_.Count("client request lost");
    return;
  }
  Arrive(attempt, node, outgoing.request, false);
  if (dice_.PerThousand(nastiness_.repeated_requests)) {
    site_.Count("client request repeated");
    site_.scheduler().In(dice_.UpTo(Seconds(10)),
                         [this, attempt, node, request = std::move(outgoing.request)] {
                           Arrive(attempt, node, request, true);
                         });
  }
}

// On its way to the node, there, and back. `again`: nobody waits for the answer.
void Worker::Arrive(client::AttemptId attempt, int node, client::Request request, bool again) {
  const int life = life_;
  site_.scheduler().In(dice_.UpTo(nastiness_.delay_max), [this, attempt, node,
                                                          request = std::move(request), again,
                                                          life] {
    const auto fail = [this, attempt, again, life](client::FailureKind kind) {
      if (!again && life == life_) {
        End(attempt, Unanswered(kind));
      }
    };
    if (!site_.IsUp(node)) {
      fail(client::FailureKind::kNothingDone);
      return;
    }
    if (site_.IsPaused(node)) {  // in the socket's buffer until it goes on
      site_.scheduler().In(Millis(100), [this, attempt, node, request, again] {
        Arrive(attempt, node, request, again);
      });
      return;
    }
    const std::uint64_t served =
        site_.Serve(node, CommandOf(request, "worker" + std::to_string(number_)),
                    [this, attempt, request, again, life](engine::Reply&& reply) {
                      if (again) {
                        return;
                      }
                      if (site_.now() < cut_until_ || dice_.PerThousand(nastiness_.lost_replies)) {
                        site_.Count("client reply lost");
                        return;
                      }
                      const bool late = dice_.PerThousand(nastiness_.late_replies);
                      if (late) {
                        site_.Count("client reply late");
                      }
                      site_.scheduler().In(dice_.UpTo(late ? Seconds(1) : nastiness_.delay_max),
                                           [this, attempt, life, how = ReplyOf(request, reply)] {
                                             if (life == life_) {
                                               End(attempt, how);
                                             }
                                           });
                    });
    if (const auto found = sent_.find(attempt); !again && life == life_ && found != sent_.end()) {
      found->second.served = served;
    }
  });
}

void Worker::End(client::AttemptId attempt,
                 const std::variant<client::Reply, client::Failure>& how) {
  Deliver([this, attempt, how] {
    const auto found = sent_.find(attempt);
    if (found == sent_.end()) {
      return;
    }
    const Sent sent = std::move(found->second);
    sent_.erase(found);
    Job* job = Find(sent.job);
    if (job == nullptr) {
      return;
    }
    if (const auto* reply = std::get_if<client::Reply>(&how); reply != nullptr) {
      job->machine().OnReply(attempt, *reply, Now());
    } else {
      site_.Abandon(sent.node, sent.served);
      job->machine().OnFailure(attempt, std::get<client::Failure>(how), Now());
    }
  });
}

Worker::Job* Worker::Find(std::uint64_t id) {
  const auto found =
      std::find_if(jobs_.begin(), jobs_.end(), [id](const auto& job) { return job->id == id; });
  return found == jobs_.end() ? nullptr : found->get();
}

}  // namespace holdfast::sim
