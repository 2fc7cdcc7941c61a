// CPU time used by this process, one other process with its children (PostgreSQL has one for each
// connection) and the whole machine, from /proc.
#pragma once

#include <sys/types.h>

#include "base/time.h"

namespace holdfast::bench {

struct CpuUsage {
  Duration self{0};
  Duration server{0};   // zero if there is no such process
  Duration machine{0};  // busy time of all cores
};

// `server`: 0 for none. What cannot be read is zero.
CpuUsage SampleCpu(pid_t server);

// How many processes have this one as their parent.
int CountChildren(pid_t parent);

}  // namespace holdfast::bench
