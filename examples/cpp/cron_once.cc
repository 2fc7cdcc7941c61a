// A job that every host starts at the same time and only one may do.
//
//   cron_once HOST:PORT FILE PERIOD        for example: cron_once localhost:7420 runs 2026-11-30
//
// The lock keeps two hosts from doing it at once. That it is done once in each period is written
// down where the work is: a lock that is free again says nothing about the past.
#include <fstream>
#include <iostream>
#include <string>

#include <holdfast/client.h>

#include "fenced_file.h"

namespace {

bool IsDone(const std::string& file, const std::string& period) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (line == period) {
      return true;
    }
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace holdfast::client;
  if (argc != 4) {
    std::cerr << "usage: cron_once HOST:PORT FILE PERIOD\n";
    return 64;
  }
  ClientOptions options;
  options.endpoints = {argv[1]};
  auto client = Client::Create(options);
  if (!client.ok()) {
    std::cerr << client.error().message << "\n";
    return 64;
  }
  const std::string file = argv[2];
  const std::string period = argv[3];

  LockGoal goal;
  goal.acquire.resource = "examples/cron";
  goal.acquire.owner = "cron_once";
  goal.acquire.ttl = holdfast::Seconds(10);
  goal.acquire.wait = holdfast::Seconds(30);  // for the host that is doing it
  goal.stop_time = holdfast::Seconds(1);
  bool refused = false;
  const LockUpdate end = (*client)->RunWhileHeld(goal, [&](Work& work) {
    if (IsDone(file, period)) {
      std::cout << "already done" << std::endl;
      return;
    }
    // The work itself would be here, with a look at work.stop_token() now and then.
    refused = !FencedFile(file).Append(work.fencing_token(), period);
    std::cout << (refused ? "refused" : "done") << std::endl;
  });
  if (end.state != LockState::kReleased || refused) {
    std::cerr << "cron_once: " << Name(end.state) << "\n";
    return end.state == LockState::kNotAcquired ? 75 : 76;
  }
  return 0;
}
