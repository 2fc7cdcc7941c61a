#include "engine/admission.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "codec/batch_codec.h"

namespace holdfast::engine {
namespace {

bool IsRenewal(const core::Command& command) {
  return std::holds_alternative<core::Renew>(command.body) ||
         std::holds_alternative<core::KeepAlive>(command.body);
}

}  // namespace

bool Admission::Add(QueuedCommand&& queued) {
  const bool renewal = IsRenewal(queued.command);
  std::deque<QueuedCommand>& lane = renewal ? renewals_ : others_;
  if (queued.to.front != 0 &&
      lane.size() >= (renewal ? limits_.renewals_max : limits_.others_max)) {
    return false;
  }
  lane.push_back(std::move(queued));
  return true;
}

std::vector<ReplyTo> Admission::Of(FrontId front) const {
  std::vector<ReplyTo> found;
  for (const std::deque<QueuedCommand>* lane : {&renewals_, &others_}) {
    for (const QueuedCommand& queued : *lane) {
      if (queued.to.front == front) {
        found.push_back(queued.to);
      }
    }
  }
  return found;
}

std::vector<QueuedCommand> Admission::TakeAll() {
  std::vector<QueuedCommand> all;
  for (std::deque<QueuedCommand>* lane : {&renewals_, &others_}) {
    std::move(lane->begin(), lane->end(), std::back_inserter(all));
    lane->clear();
  }
  return all;
}

std::vector<QueuedCommand> Admission::Take(
    std::size_t commands_max, std::size_t bytes_max,
    const std::function<Duration(const core::Command&)>& time_left) {
  if (renewals_.size() > commands_max) {
    std::vector<std::pair<Duration, QueuedCommand>> urgent;
    urgent.reserve(renewals_.size());
    for (QueuedCommand& queued : renewals_) {
      const Duration left = time_left(queued.command);
      urgent.emplace_back(left, std::move(queued));
    }
    std::stable_sort(urgent.begin(), urgent.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    renewals_.clear();
    for (auto& [left, queued] : urgent) {
      renewals_.push_back(std::move(queued));
    }
  }
  std::vector<QueuedCommand> taken;
  taken.reserve(std::min(size(), commands_max));
  std::size_t bytes = 0;
  for (std::deque<QueuedCommand>* lane : {&renewals_, &others_}) {
    while (!lane->empty() && taken.size() < commands_max) {
      bytes += codec::EncodedSizeBound(lane->front().command);
      if (bytes > bytes_max && !taken.empty()) {
        return taken;
      }
      taken.push_back(std::move(lane->front()));
      lane->pop_front();
    }
  }
  return taken;
}

}  // namespace holdfast::engine
