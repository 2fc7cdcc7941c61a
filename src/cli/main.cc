// `holdfast`: the server, every verb of its clients, and the tools around both. Wiring only.
#include "cli/command_line.h"
#include "cli/verbs.h"

int main(int argc, char** argv) {
  using namespace holdfast::cli;  // NOLINT(google-build-using-namespace): this is the program
  CommandLine line;
  AddLockVerbs(line);
  AddElectionVerbs(line);
  AddSessionVerbs(line);
  AddLookVerbs(line);
  AddNamespaceVerbs(line);
  AddServerVerb(line);
  AddDemoVerb(line);
  AddBenchVerbs(line);
  AddJournalVerbs(line);
  return line.Run(argc, argv);
}
