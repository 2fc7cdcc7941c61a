// A leader with standbys: start it several times, kill the one that leads, and watch.
//
//   leader HOST:PORT NAME
#include <condition_variable>
#include <csignal>
#include <iostream>
#include <mutex>

#include <holdfast/client.h>
#include <pthread.h>

using namespace holdfast::client;

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: leader HOST:PORT NAME\n";
    return 64;
  }
  sigset_t stop_signals;
  sigemptyset(&stop_signals);
  sigaddset(&stop_signals, SIGINT);
  sigaddset(&stop_signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &stop_signals, nullptr);  // before the library starts its thread

  ClientOptions options;
  options.endpoints = {argv[1]};
  auto client = Client::Create(options);
  if (!client.ok()) {
    std::cerr << client.error().message << "\n";
    return 64;
  }
  const std::string name = argv[2];
  ElectionGoal goal;
  goal.campaign.acquire.resource = "examples/leader";
  goal.campaign.acquire.owner = name;
  goal.campaign.acquire.ttl = holdfast::Seconds(3);
  goal.campaign.value = name;
  goal.stop_time = holdfast::Millis(500);
  const auto candidate = (*client)->Lead(goal, [&](Leadership& term) {
    std::cout << name << " leads with token " << term.fencing_token() << std::endl;
    // A leader works here, with the token on every write, and returns when stop is requested.
    std::mutex mutex;
    std::condition_variable_any changed;
    std::unique_lock lock(mutex);
    changed.wait(lock, term.stop_token(), [] { return false; });
    std::cout << name << " leads no more" << std::endl;
  });

  int signal = 0;
  sigwait(&stop_signals, &signal);
  return 0;  // ~Candidate resigns
}
