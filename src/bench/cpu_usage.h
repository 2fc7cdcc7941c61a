// CPU time used by this process, other processes with their children (PostgreSQL has one for each
// connection) and the whole machine, from /proc.
#pragma once

#include <vector>

#include <sys/types.h>

#include "base/time.h"

namespace holdfast::bench {

struct CpuUsage {
  Duration self{0};
  Duration server{0};   // of all servers together; zero for one that is not there
  Duration machine{0};  // busy time of all cores
};

// `server`: 0 for none; `more`: further members of its cluster. What cannot be read is zero.
CpuUsage SampleCpu(pid_t server, const std::vector<pid_t>& more = {});

// How many processes have this one as their parent.
int CountChildren(pid_t parent);

}  // namespace holdfast::bench
