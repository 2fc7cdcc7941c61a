// What other threads leave for the loop of a front: replies, watches to look after, and the wish to
// stop. The loop is woken once, however much arrives before it looks. Thread-safe. Whoever may post
// holds it by shared_ptr, so that a late post finds a closed mailbox and not a dead one.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "engine/front.h"

namespace holdfast::server {

class Mailbox {
 public:
  struct Letters {
    std::vector<engine::Reply> replies;
    std::vector<std::uint64_t> wakes;
    bool stop = false;
    bool close = false;
    bool empty() const { return replies.empty() && wakes.empty() && !stop && !close; }
  };

  // `ring` wakes the loop's thread; OnRung must follow each call of it before it is called again.
  explicit Mailbox(std::function<void()> ring) : ring_(std::move(ring)) {}

  // From now on posts of the calling thread wake nobody: it looks by itself at the end of its turn.
  void SetReader() {
    const std::lock_guard<std::mutex> lock(mutex_);
    reader_ = std::this_thread::get_id();
  }

  void PostReplies(std::vector<engine::Reply>&& replies) {
    Post([&](Letters& letters) {
      if (letters.replies.empty()) {
        letters.replies = std::move(replies);
      } else {
        letters.replies.insert(letters.replies.end(), std::make_move_iterator(replies.begin()),
                               std::make_move_iterator(replies.end()));
      }
    });
  }
  void PostWake(std::uint64_t key) {
    Post([key](Letters& letters) { letters.wakes.push_back(key); });
  }
  void PostStop() {
    Post([](Letters& letters) { letters.stop = true; });
  }
  void PostClose() {
    Post([](Letters& letters) { letters.close = true; });
  }

  Letters Take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(letters_, {});
  }
  void OnRung() {
    const std::lock_guard<std::mutex> lock(mutex_);
    rung_ = false;
  }
  // Later posts are dropped, and `ring` is not called any more.
  void Close() {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    letters_ = {};
  }

 private:
  template <typename Put>
  void Post(Put&& put) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) {
      return;
    }
    put(letters_);
    if (!rung_ && std::this_thread::get_id() != reader_) {
      rung_ = true;
      ring_();  // under the mutex: after Close has returned, nobody is inside it
    }
  }

  const std::function<void()> ring_;
  std::mutex mutex_;
  Letters letters_;
  std::thread::id reader_;
  bool rung_ = false;
  bool closed_ = false;
};

}  // namespace holdfast::server
