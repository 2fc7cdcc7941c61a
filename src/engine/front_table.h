// The fronts of a runner, and the way of replies to them. Not thread-safe: its owner has the mutex
// that Detach needs, so that no reply reaches a front after it.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/front.h"

namespace holdfast::engine {

class FrontTable {
 public:
  FrontId Attach(Front& front) {
    const FrontId id = next_front_++;
    fronts_.emplace(id, &front);
    return id;
  }
  void Detach(FrontId front) {
    fronts_.erase(front);
    deliveries_.erase(front);
  }

  // Hands each front all of its replies at once, and leaves `output` empty.
  void Deliver(EngineOutput& output) {
    for (auto& [front, reply] : output.replies) {
      if (fronts_.count(front) > 0) {
        deliveries_[front].push_back(std::move(reply));
      }
    }
    output.replies.clear();
    for (auto& [id, replies] : deliveries_) {
      if (!replies.empty()) {
        fronts_.at(id)->OnReplies(std::exchange(replies, {}));
      }
    }
  }

 private:
  std::map<FrontId, std::vector<Reply>> deliveries_;
  std::map<FrontId, Front*> fronts_;
  FrontId next_front_ = 1;
};

}  // namespace holdfast::engine
