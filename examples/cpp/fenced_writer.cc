// Takes a lock and writes to a store that checks its fencing token, until it loses the lock.
//
//   fenced_writer HOST:PORT FILE NAME
//
// Start two. The second waits. Stop the first one (Ctrl-Z) for longer than its ttl of 3 seconds and
// let it go on: the second writes, and the first is refused, even if it had passed its own check
// before it was stopped.
#include <chrono>
#include <iostream>
#include <thread>

#include <holdfast/client.h>

#include "fenced_file.h"

int main(int argc, char** argv) {
  using namespace holdfast::client;
  if (argc != 4) {
    std::cerr << "usage: fenced_writer HOST:PORT FILE NAME\n";
    return 64;
  }
  ClientOptions options;
  options.endpoints = {argv[1]};
  auto client = Client::Create(options);
  if (!client.ok()) {
    std::cerr << client.error().message << "\n";
    return 64;
  }
  FencedFile store(argv[2]);

  LockGoal goal;
  goal.acquire.resource = "examples/store";
  goal.acquire.owner = argv[3];
  goal.acquire.ttl = holdfast::Seconds(3);
  goal.acquire.wait = holdfast::Seconds(60);
  const auto hold = (*client)->Lock(goal);
  const LockUpdate acquired = hold->WaitUntilAcquired();
  if (acquired.state != LockState::kHeld) {
    std::cerr << "not acquired: " << Name(acquired.state) << "\n";
    return 75;
  }
  std::cout << argv[3] << " holds token " << hold->fencing_token() << std::endl;

  for (int line = 1; hold->EnsureHeld(); ++line) {
    // Whoever is paused here passes the check above and writes too late: the store notices.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const std::uint64_t token = hold->fencing_token();
    if (!store.Append(token, std::string(argv[3]) + " " + std::to_string(line))) {
      std::cout << argv[3] << " refused: token " << token << " is too old" << std::endl;
      return 76;
    }
  }
  std::cout << argv[3] << " lost the lock" << std::endl;
  return 76;
}
