// Every verb of `holdfast`, one file per group. Each function adds its verbs to the command line;
// what a verb takes and prints: docs/CLI.md.
#pragma once

#include "cli/command_line.h"

namespace holdfast::cli {

void AddLockVerbs(CommandLine& line);       // acquire, renew, release, cancel, break, lock
void AddLookVerbs(CommandLine& line);       // describe, list, watch, check-token, status
void AddTopVerb(CommandLine& line);         // top
void AddElectionVerbs(CommandLine& line);   // elect, leader, proclaim
void AddSessionVerbs(CommandLine& line);    // session ...
void AddNamespaceVerbs(CommandLine& line);  // namespace ...
void AddServerVerb(CommandLine& line);      // server
void AddJournalVerbs(CommandLine& line);    // journal ..., backup, restore, recover
void AddDemoVerb(CommandLine& line);        // demo
void AddBenchVerbs(CommandLine& line);      // bench ...

}  // namespace holdfast::cli
