// `holdfast`: the server, every verb of its clients, and the tools around both. Wiring only.
#include "absl/synchronization/mutex.h"
#include "cli/command_line.h"
#include "cli/verbs.h"

int main(int argc, char** argv) {
  using namespace holdfast::cli;  // NOLINT(google-build-using-namespace): this is the program
  // Debian builds Abseil with its deadlock detector on; under gRPC it costs 5 % of the server's
  // CPU.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  CommandLine line;
  AddLockVerbs(line);
  AddElectionVerbs(line);
  AddSessionVerbs(line);
  AddLookVerbs(line);
  AddTopVerb(line);
  AddNamespaceVerbs(line);
  AddServerVerb(line);
  AddDemoVerb(line);
  AddBenchVerbs(line);
  AddJournalVerbs(line);
  return line.Run(argc, argv);
}
