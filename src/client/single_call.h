// One verb for a caller who waits for it: a call whose answer the machine does not look into. No
// I/O, no clock.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "client/machine.h"
#include "holdfast/result.h"

namespace holdfast::client {

class SingleCall : public Machine {
 public:
  struct Answer {
    std::string body;
    ReplyTiming timing;
  };
  // Called exactly once.
  using Completion = std::function<void(Result<Answer>)>;

  SingleCall(CallShared& shared, RawRequest request, const CallOptions& options,
             Completion completion, BootTime now)
      : call_(shared, options, now),
        request_(std::move(request)),
        completion_(std::move(completion)) {}

  void Advance(BootTime now, std::vector<Outgoing>& out) override {
    if (const auto order = call_.Poll(now)) {
      out.push_back({*order, request_});
    }
    if (!done_ && call_.error().has_value()) {
      done_ = true;
      completion_(*call_.error());
    }
  }
  BootTime NextWake() const override { return call_.NextWake(); }
  void OnReply(AttemptId attempt, const Reply& reply, BootTime now) override {
    if (!done_ && call_.Owns(attempt)) {
      done_ = true;
      completion_(Answer{std::get<RawReply>(reply).body, call_.OnReply(attempt, now)});
    }
  }
  void OnFailure(AttemptId attempt, const Failure& failure, BootTime now) override {
    call_.OnFailure(attempt, failure, now);
  }
  bool Done() const override { return done_; }

 private:
  Call call_;
  RawRequest request_;
  Completion completion_;
  bool done_ = false;
};

}  // namespace holdfast::client
