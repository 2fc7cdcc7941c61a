// The descendants of a process, read from /proc. A process that its parent left behind counts as
// long as it still is below `ancestor`; an ancestor that is a subreaper (PR_SET_CHILD_SUBREAPER)
// loses none, whatever group or session they moved to. Not seen: what other services start on
// behalf of a descendant (systemd-run, docker, at).
#pragma once

#include <cstddef>
#include <optional>

#include <sys/types.h>

namespace holdfast::exec {

// Signals every descendant that is alive, except those of `but_group`, and never a process that
// took over the number of one. Gives how many descendants are alive, whoever was signalled.
std::size_t SignalDescendants(pid_t ancestor, int signal,
                              std::optional<pid_t> but_group = std::nullopt);

std::size_t CountDescendants(pid_t ancestor);

}  // namespace holdfast::exec
