// The one place where a test may pause: between two looks at something that another thread or
// process changes.
#pragma once

#include <chrono>
#include <thread>
#include <utility>

namespace holdfast::testing_support {

// Whether `condition` became true within the time.
template <typename Condition>
bool WaitUntil(Condition&& condition, std::chrono::milliseconds within = std::chrono::seconds(30)) {
  const auto deadline = std::chrono::steady_clock::now() + within;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace holdfast::testing_support
