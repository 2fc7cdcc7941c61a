#include "bench/cpu_usage.h"

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

#include <sys/resource.h>
#include <unistd.h>

namespace holdfast::bench {
namespace {

Duration FromTicks(std::int64_t ticks) {
  static const std::int64_t per_second = sysconf(_SC_CLK_TCK);
  return Duration(ticks * (1'000'000'000 / per_second));
}

Duration FromTimeval(const timeval& time) {
  return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
}

Duration OfSelf() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return FromTimeval(usage.ru_utime) + FromTimeval(usage.ru_stime);
}

// Fields 14 and 15 of /proc/PID/stat; the second field is a name in parentheses that may hold
// spaces.
Duration OfProcess(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) {
    return Duration(0);
  }
  std::istringstream fields(line.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 14; ++field) {
    fields >> skipped;
  }
  std::int64_t user = 0;
  std::int64_t system = 0;
  fields >> user >> system;
  return FromTicks(user + system);
}

// cpu user nice system idle iowait irq softirq steal ...
Duration OfMachine() {
  std::ifstream file("/proc/stat");
  std::string name;
  std::int64_t user = 0;
  std::int64_t nice = 0;
  std::int64_t system = 0;
  std::int64_t idle = 0;
  std::int64_t iowait = 0;
  std::int64_t irq = 0;
  std::int64_t softirq = 0;
  file >> name >> user >> nice >> system >> idle >> iowait >> irq >> softirq;
  return FromTicks(user + nice + system + irq + softirq);
}

}  // namespace

CpuUsage SampleCpu(pid_t server) {
  return CpuUsage{.self = OfSelf(),
                  .server = server == 0 ? Duration(0) : OfProcess(server),
                  .machine = OfMachine()};
}

}  // namespace holdfast::bench
