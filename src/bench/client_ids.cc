#include "bench/client_ids.h"

#include <fmt/core.h>

#include "base/check.h"
#include "base/id.h"

namespace holdfast::bench {

ClientIds::ClientIds() : client_id_(ToHex(RandomId())) {}

std::uint64_t ClientIds::Begin() {
  answered_.push_back(false);
  return answered_below_ + answered_.size() - 1;
}

void ClientIds::Answered(std::uint64_t sequence) {
  HF_CHECK(sequence >= answered_below_ && sequence - answered_below_ < answered_.size(),
           "an answer to a request that was not begun");
  answered_[static_cast<std::size_t>(sequence - answered_below_)] = true;
  while (!answered_.empty() && answered_.front()) {
    answered_.pop_front();
    ++answered_below_;
  }
}

std::string ClientIds::RequestId(std::uint64_t sequence) const {
  return fmt::format("{}{:016x}", client_id_, sequence);
}

}  // namespace holdfast::bench
