// The supervisor: a process of its own between the wrapper and the command. It has one thread, its
// own process group, and everything that the command starts below it (a subreaper). It stops all of
// that at the local deadline of the lease, or when the wrapper is gone, whatever happens to the
// wrapper: so a wrapper that is suspended, busy or killed with SIGKILL cannot keep the command
// running for longer than its lease.
//
// It is forked before the program has any other thread. A fork of a program with threads may call
// only async-signal-safe functions, since a lock that another thread held stays locked for ever in
// the copy; here neither the supervisor nor the command, which is forked by the supervisor, has
// that limit.
//
// Not caught: what other services start on the command's behalf (systemd-run, docker, at),
// processes that the user may not signal (set-user-ID programs), and processes that cannot be
// killed because they hang in the kernel. Of these the second and third are reported. If wrapper
// and supervisor are both killed with SIGKILL, the command dies (PR_SET_PDEATHSIG), but not what it
// started.
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

#include "exec/link.h"
#include "holdfast/result.h"

namespace holdfast::exec {

struct Command {
  std::vector<std::string> words;  // the program, searched on PATH, and its arguments
  std::string resource;
};

// The wrapper's side of its supervisor.
struct SupervisorHandle {
  pid_t process = -1;
  File link;
};

// Forks the supervisor, which waits for ToSupervisor::kStart. kInternal if there are other threads.
// The signal mask of the command is the caller's.
Result<SupervisorHandle> ForkSupervisor(const Command& command);

}  // namespace holdfast::exec
