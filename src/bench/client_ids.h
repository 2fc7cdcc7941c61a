// Request ids of one simulated client and its watermark, as the client library keeps them.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

namespace holdfast::bench {

class ClientIds {
 public:
  ClientIds();  // with a random client id

  // A new request; sequences count from 1.
  std::uint64_t Begin();
  // It was answered and will never be asked again.
  void Answered(std::uint64_t sequence);
  // Every sequence below this one is answered.
  std::uint64_t answered_below() const { return answered_below_; }

  const std::string& client_id() const { return client_id_; }
  std::string RequestId(std::uint64_t sequence) const;

 private:
  const std::string client_id_;
  std::uint64_t answered_below_ = 1;
  std::deque<bool> answered_;  // of answered_below_ and the ones after it
};

}  // namespace holdfast::bench
