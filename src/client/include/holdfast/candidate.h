// A candidate of an election that does something while it leads: campaigns in the background, runs
// its work on a thread of its own whenever it is elected, and resigns when the work has returned.
// Made by Client::Lead.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "holdfast/export.h"
#include "holdfast/hold.h"
#include "holdfast/result.h"
#include "holdfast/states.h"

namespace holdfast::client {

// One term of office, given to the work of a leader.
class HOLDFAST_API Leadership {
 public:
  class Impl;
  Leadership(Impl& impl, Work& work) : impl_(impl), work_(work) {}

  // To be sent with everything that the leader does; greater than that of every leader before.
  std::uint64_t fencing_token() const { return work_.fencing_token(); }
  // Gate for each step.
  bool EnsureHeld() const { return work_.EnsureHeld(); }
  // The work must return when stop is requested: the candidate was stopped, or the local deadline
  // has come, which lies `stop_time` before the moment at which another may be elected.
  std::stop_token stop_token() const { return work_.stop_token(); }
  // Changes the value that observers see. Blocking, as the calls of Client.
  Result<ProclaimResult> Proclaim(const std::string& value);

 private:
  Impl& impl_;
  Work& work_;
};

// Runs on a thread of the candidate and may block. To return means to resign.
using LeaderWork = std::function<void(Leadership&)>;

struct ElectionGoal {
  // `campaign.acquire.wait` is the time of one stand in the queue; the candidate stands again until
  // it is stopped. `request_id` and `session_id` stay empty.
  CampaignRequest campaign;
  Duration stop_time = Seconds(1);  // how long the work needs to return
  // After a term of office, and after a failed attempt, before the next campaign. Drawn between
  // half of it and the whole.
  Duration pause = Seconds(1);
};

// Methods are thread-safe.
class HOLDFAST_API Candidate {
 public:
  explicit Candidate(std::unique_ptr<Leadership::Impl> impl);
  // Stop, and waits until the work has returned and the leadership is given back (or the client's
  // `timeout` is over). Not to be called inside the work.
  ~Candidate();
  Candidate(const Candidate&) = delete;
  Candidate& operator=(const Candidate&) = delete;

  bool IsLeader() const;
  // Of the campaign or the term that is running, or the last one.
  LockUpdate Current() const;
  // True when it has given up: the service refuses such a campaign (invalid, not permitted). Why is
  // in Current().
  bool GivenUp() const;
  // Withdraws or resigns, and campaigns no more. Returns at once.
  void Stop();

 private:
  std::unique_ptr<Leadership::Impl> impl_;
};

}  // namespace holdfast::client
