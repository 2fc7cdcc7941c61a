#include "client/retry.h"

#include <algorithm>

namespace holdfast::client {
namespace {

constexpr std::int64_t kNanosPerSecond = 1'000'000'000;

}  // namespace

BootTime RetryBudget::Reserve(BootTime now) {
  Refill(now);
  credit_ -= kRetry;
  if (credit_ >= 0) {
    return now;
  }
  return now + Duration(-credit_ * (kNanosPerSecond / (kRefillPerSecond * kRetry)));
}

void RetryBudget::Spend(BootTime now) {
  Refill(now);
  // The floor bounds for how long others pay for renewals.
  credit_ = std::max(credit_ - kRetry, std::min(credit_, -kCapacity * kRetry));
}

void RetryBudget::Succeeded() {
  credit_ = std::min(credit_ + kEarned, kCapacity * kRetry);
}

void RetryBudget::Refill(BootTime now) {
  constexpr std::int64_t kNanosPerUnit = kNanosPerSecond / (kRefillPerSecond * kRetry);
  const std::int64_t units = (now - refilled_at_).count() / kNanosPerUnit;
  if (units <= 0) {
    return;
  }
  refilled_at_ += Duration(units * kNanosPerUnit);
  credit_ = credit_ + units >= kCapacity * kRetry ? kCapacity * kRetry : credit_ + units;
}

}  // namespace holdfast::client
