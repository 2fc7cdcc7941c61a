// Several processes share a list of jobs. Each job is done by one worker at a time, and a job whose
// worker died is taken over when its lease has ended.
//
//   worker_pool HOST:PORT FOLDER JOBS      in as many processes as you like
//
// One session carries the locks of all threads of a process: one keepalive, however many they are.
#include <atomic>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include <holdfast/client.h>
#include <sys/stat.h>

#include "fenced_file.h"

using namespace holdfast::client;

namespace {

constexpr int kThreads = 4;

bool IsDone(const std::string& file) {
  struct stat found {};
  return stat(file.c_str(), &found) == 0 && found.st_size > 0;
}

// Does the job if nobody else is at it. True when it is done.
bool TryJob(Session& session, const std::string& folder, int job) {
  const std::string file = folder + "/job-" + std::to_string(job);
  if (IsDone(file)) {
    return true;
  }
  LockGoal goal;
  goal.acquire.resource = "examples/jobs/" + std::to_string(job);
  const auto hold = session.Lock(goal);
  hold->WaitUntilAcquired();
  const auto work = hold->BeginWork();
  if (!work.has_value()) {
    return false;  // somebody else has it
  }
  // Looked at again under the lock: it may have been done since.
  return IsDone(file) || FencedFile(file).Append(work->fencing_token(), "done");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: worker_pool HOST:PORT FOLDER JOBS\n";
    return 64;
  }
  ClientOptions options;
  options.endpoints = {argv[1]};
  auto client = Client::Create(options);
  if (!client.ok()) {
    std::cerr << client.error().message << "\n";
    return 64;
  }
  SessionGoal goal;
  goal.open.owner = "worker_pool";
  goal.open.ttl = holdfast::Seconds(5);
  const auto session = (*client)->KeepSession(goal);
  if (session->WaitUntilOpen().state != SessionState::kSafe) {
    std::cerr << "no session\n";
    return 69;
  }
  const std::string folder = argv[2];
  const int jobs = std::stoi(argv[3]);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int open = jobs; open > 0 && session->Current().state == SessionState::kSafe;) {
        open = 0;
        for (int i = 0; i < jobs; ++i) {
          open += TryJob(*session, folder, (i + thread * jobs / kThreads) % jobs) ? 0 : 1;
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  if (session->Current().state != SessionState::kSafe) {
    std::cerr << "the session was lost\n";
    return 76;
  }
  std::cout << "all jobs are done" << std::endl;
  return 0;
}
