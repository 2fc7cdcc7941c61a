#include "engine/waiting.h"

#include <algorithm>

namespace holdfast::engine {

std::optional<ReplyTo> Waiting::Add(core::WaiterId waiter, std::uint64_t attachment,
                                    const ReplyTo& to) {
  std::optional<ReplyTo> before;
  Entry& entry = by_waiter_[waiter];
  if (entry.attachment != 0) {
    before = entry.to;
    by_request_.erase(entry.to);
  }
  entry = Entry{attachment, to};
  by_request_[to] = waiter;
  return before;
}

std::optional<ReplyTo> Waiting::Resolve(core::WaiterId waiter, std::uint64_t attachment) {
  const auto found = by_waiter_.find(waiter);
  if (found == by_waiter_.end() || found->second.attachment != attachment) {
    return std::nullopt;
  }
  const ReplyTo to = found->second.to;
  by_request_.erase(to);
  by_waiter_.erase(found);
  return to;
}

std::optional<core::Detach> Waiting::Abandon(const ReplyTo& to) {
  const auto found = by_request_.find(to);
  if (found == by_request_.end()) {
    return std::nullopt;
  }
  const core::WaiterId waiter = found->second;
  const core::Detach detach{waiter, by_waiter_[waiter].attachment};
  by_request_.erase(found);
  by_waiter_.erase(waiter);
  return detach;
}

std::vector<ReplyTo> Waiting::Of(FrontId front) const {
  std::vector<ReplyTo> requests = All();
  std::erase_if(requests, [front](const ReplyTo& to) { return to.front != front; });
  return requests;
}

std::vector<ReplyTo> Waiting::All() const {
  std::vector<std::pair<core::WaiterId, ReplyTo>> found;
  for (const auto& [waiter, entry] : by_waiter_) {
    found.emplace_back(waiter, entry.to);
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<ReplyTo> requests;
  for (const auto& [waiter, to] : found) {
    requests.push_back(to);
  }
  return requests;
}

}  // namespace holdfast::engine
