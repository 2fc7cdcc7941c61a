// Test support: a tiny in-process server of the stream and of the unary verbs, one map under a
// mutex. Grants what is free, refuses what is held, and can be told to misbehave. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/time.h"

namespace holdfast::bench {

class FakeService {
 public:
  FakeService();  // listens on a free loopback port
  ~FakeService();
  FakeService(const FakeService&) = delete;
  FakeService& operator=(const FakeService&) = delete;

  std::string endpoint() const;

  struct Seen {
    std::uint64_t acquires = 0;  // granted
    std::uint64_t renewals = 0;
    std::uint64_t releases = 0;
    std::uint64_t cancels = 0;
    std::uint64_t held = 0;  // at the moment
    std::uint64_t streams = 0;
    std::uint64_t largest_frame = 0;  // operations
    std::uint64_t resources = 0;      // different ones that were ever acquired
    std::uint64_t below_watermark =
        0;  // requests below a watermark that their client had sent before
  };
  Seen seen() const;

  // The next `count` operations are not done and get this problem (a v1::Problem::Code).
  void FailNext(int count, int problem_code);
  // The next acquire on a stream is done, and its stream ends without the answer.
  void LoseNextReply();
  // From the next operation on nothing is answered for this long.
  void StallOnce(Duration time);

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast::bench
