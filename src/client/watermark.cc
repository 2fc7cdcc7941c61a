#include "client/watermark.h"

#include <algorithm>

namespace holdfast::client {

std::uint64_t ClientIdentity::Begin(const std::string& request_id, BootTime now) {
  GiveUpOld(now);
  const auto kept = unresolved_.find(request_id);
  if (kept != unresolved_.end()) {
    const std::uint64_t sequence = kept->second.sequence;
    unresolved_.erase(kept);
    return sequence;
  }
  open_.insert(next_);
  return next_++;
}

void ClientIdentity::Answered(std::uint64_t sequence) {
  open_.erase(sequence);
}

void ClientIdentity::Unresolved(std::uint64_t sequence, const std::string& request_id,
                                BootTime now) {
  GiveUpOld(now);
  if (unresolved_.size() == kUnresolvedMax) {
    const auto oldest = std::min_element(
        unresolved_.begin(), unresolved_.end(),
        [](const auto& a, const auto& b) { return a.second.since < b.second.since; });
    open_.erase(oldest->second.sequence);
    unresolved_.erase(oldest);
  }
  unresolved_[request_id] = Kept{.sequence = sequence, .since = now};
}

ClientContext ClientIdentity::Context(std::uint64_t sequence) const {
  return ClientContext{
      .client_id = client_id_, .sequence = sequence, .answered_below = answered_below()};
}

void ClientIdentity::GiveUpOld(BootTime now) {
  for (auto it = unresolved_.begin(); it != unresolved_.end();) {
    if (now - it->second.since >= kUnresolvedFor) {
      open_.erase(it->second.sequence);
      it = unresolved_.erase(it);
    } else {
      ++it;
    }
  }
}

}  // namespace holdfast::client
