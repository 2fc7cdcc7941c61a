#include "bench/hold_keeper.h"

#include "bench/grpc_status.h"
#include "bench/requests.h"
#include "holdfast/v1/stream.pb.h"

namespace holdfast::bench {
namespace {

constexpr std::size_t kWindow = 1024;  // operations outstanding
constexpr Duration kPauseAfterError = Millis(50);
// What is due within this time of a renewal leaves with it: a client with many leases on one stream
// sends frames of many, since the server answers a frame of one before it reads the next.
constexpr Duration kTogether = Millis(20);

}  // namespace

HoldKeeper::HoldKeeper(const LocksBenchOptions& options)
    : options_(options),
      renew_after_(options.ttl / 3),
      holds_(static_cast<std::size_t>(options.holds)) {
  for (std::size_t i = 0; i < holds_.size(); ++i) {
    Later(i, LoadTime());
  }
}

void HoldKeeper::Turn(LoadTime now) {
  if (releasing_) {
    while (!to_release_.empty() && outstanding_ < kWindow) {
      Send(to_release_.front(), now);
      to_release_.pop_front();
    }
  } else {
    const bool any_due = !due_.empty() && due_.top().first <= now;
    while (any_due && !due_.empty() && due_.top().first <= now + kTogether &&
           outstanding_ < kWindow) {
      const std::uint64_t number = due_.top().second;
      due_.pop();
      if (holds_[number].lease_id.empty()) {
        holds_[number].sequence = ids_.Begin();
      }
      Send(number, now);
    }
  }
  link_->Flush();
}

void HoldKeeper::ReleaseAll() {
  if (releasing_) {
    return;
  }
  releasing_ = true;
  for (std::size_t number = 0; number < holds_.size(); ++number) {
    if (!holds_[number].in_flight && !holds_[number].lease_id.empty()) {
      to_release_.push_back(number);
    }
  }
}

void HoldKeeper::Send(std::uint64_t number, LoadTime now) {
  holds_[number].from = now;
  holds_[number].in_flight = true;
  ++outstanding_;
  link_->Send(number);
}

std::string HoldKeeper::Resource(std::uint64_t number) const {
  return options_.prefix + "-held/" + std::to_string(number);
}

void HoldKeeper::FillOperation(std::uint64_t tag, v1::Operation& operation) {
  const Held& hold = holds_[tag];
  if (hold.lease_id.empty()) {
    FillAcquire(options_, ids_, hold.sequence, Resource(tag), *operation.mutable_acquire());
  } else if (releasing_) {
    operation.mutable_release()->set_namespace_(options_.name_space);
    operation.mutable_release()->set_resource(Resource(tag));
    operation.mutable_release()->set_lease_id(hold.lease_id);
  } else {
    operation.mutable_renew()->set_namespace_(options_.name_space);
    operation.mutable_renew()->set_resource(Resource(tag));
    operation.mutable_renew()->set_lease_id(hold.lease_id);
  }
}

void HoldKeeper::OnResult(const v1::OperationResult& result, LoadTime now) {
  const std::uint64_t number = result.tag();
  if (number >= holds_.size() || !holds_[number].in_flight) {
    fatal_ = Error{ErrorCode::kInternal, "the server answered what was not asked", {}, {}};
    return;
  }
  Held& hold = holds_[number];
  hold.in_flight = false;
  --outstanding_;
  if (result.has_acquire()) {
    ids_.Answered(hold.sequence);
    if (!result.acquire().has_granted()) {
      Lost(number, "HOLD_" + v1::RefusalCode_Name(result.acquire().refused().code()), now);
      return;
    }
    hold.lease_id = result.acquire().granted().lease_id();
    ++held_;
    // The first renewals are spread over the whole interval, and so are all later ones.
    Later(number, now + renew_after_ * static_cast<std::int64_t>(number) /
                            static_cast<std::int64_t>(holds_.size()));
  } else if (result.has_renew() && result.renew().has_renewed()) {
    if (recorder_ != nullptr) {
      recorder_->Operation(Verb::kRenew, hold.from, now);
    }
    Later(number, now + renew_after_);
  } else if (result.has_renew()) {
    hold.lease_id.clear();
    --held_;
    Lost(number, "RENEW_" + v1::Cause_Name(result.renew().not_renewed().cause()), now);
  } else if (result.has_problem()) {
    const Error error = ErrorOf(result.problem());
    if (recorder_ != nullptr) {
      recorder_->Failed(ErrorCodeName(error.code), now);
    }
    if (!IsTransient(error.code)) {
      fatal_ = error;
    }
    Later(number, now + kPauseAfterError);
  }
  if (releasing_ && !hold.lease_id.empty() && (result.has_acquire() || result.has_renew())) {
    to_release_.push_back(number);
  }
}

void HoldKeeper::Lost(std::uint64_t number, const std::string& why, LoadTime now) {
  if (recorder_ != nullptr) {
    recorder_->Refused(why, now);
  }
  Later(number, now + kPauseAfterError);
}

void HoldKeeper::OnLost(const Error& error, LoadTime now) {
  if (recorder_ != nullptr) {
    recorder_->Failed("LOST_STREAM", now);
  }
  if (!IsTransient(error.code)) {
    fatal_ = error;
  }
}

void HoldKeeper::OnReopened(Link& link) {
  for (std::uint64_t number = 0; number < holds_.size(); ++number) {
    if (holds_[number].in_flight) {
      link.Send(number);
    }
  }
}

}  // namespace holdfast::bench
