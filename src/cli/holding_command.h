// `holdfast lock NAME -- COMMAND` and `holdfast elect NAME -- COMMAND`: run a command while
// holding. Standard output belongs to the command, so everything that we say goes to standard
// error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "holdfast/states.h"

namespace holdfast::cli {

struct HoldingCommand {
  client::LockGoal goal;         // but for its wait and stop time
  std::optional<Duration> wait;  // absent: without an end
  std::optional<Duration> stop_time;
  std::optional<std::uint64_t> conflict_exit_code;
  std::vector<std::string> command;
};

// On the main thread, before any other was started. Gives the exit code.
int RunHolding(const Invocation& invocation, const HoldingCommand& holding);

// About the exit code, for the help.
extern const char* const kCommandExits;

}  // namespace holdfast::cli
