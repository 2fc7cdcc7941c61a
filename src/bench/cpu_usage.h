// CPU time used by this process, other processes with their children (PostgreSQL has one for each
// connection) and the whole machine, from /proc.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
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

// What a line of /proc/PID/stat says.
struct ProcessStat {
  pid_t parent = 0;
  Duration used{0};              // CPU, without children
  Duration used_by_children{0};  // those that have ended
  std::int64_t resident_bytes = 0;
};

std::optional<ProcessStat> ParseProcessStat(std::string_view line);

// Of one process without its children.
struct ProcessUsage {
  Duration cpu{0};
  std::int64_t resident_bytes = 0;
  std::int64_t written_bytes = 0;  // that went to storage; 0 if it may not be read
};

std::optional<ProcessUsage> SampleProcess(pid_t pid);

// How many processes have this one as their parent.
int CountChildren(pid_t parent);

}  // namespace holdfast::bench
