// A TCP proxy on loopback that can lose answers: how the demonstration makes a request arrive and
// its reply vanish.
#pragma once

#include <memory>
#include <string>

#include "holdfast/result.h"

namespace holdfast::cli {

class LossyProxy {
 public:
  // `target` is HOST:PORT. Forwards until it is destroyed.
  static Result<std::unique_ptr<LossyProxy>> Start(const std::string& target);
  ~LossyProxy();
  LossyProxy(const LossyProxy&) = delete;
  LossyProxy& operator=(const LossyProxy&) = delete;

  const std::string& address() const { return address_; }

  // What the target sends from now on is thrown away; what clients send still arrives.
  void LoseReplies();
  // Closes every connection and forwards new ones whole.
  void CutAndHeal();

 private:
  class Loop;
  LossyProxy(std::string address, std::unique_ptr<Loop> loop);

  const std::string address_;
  std::unique_ptr<Loop> loop_;
};

}  // namespace holdfast::cli
