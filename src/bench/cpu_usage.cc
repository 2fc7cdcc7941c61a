#include "bench/cpu_usage.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

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

struct Process {
  pid_t parent = 0;
  Duration used{0};  // with its children that have ended
};

// Fields 4 and 14 to 17 of /proc/PID/stat; the second field is a name in parentheses that may hold
// spaces.
Process ReadProcess(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) {
    return {};
  }
  std::istringstream fields(line.substr(name_end + 1));
  std::string skipped;
  Process process;
  fields >> skipped >> process.parent;
  for (int field = 5; field < 14; ++field) {
    fields >> skipped;
  }
  std::int64_t user = 0;
  std::int64_t system = 0;
  std::int64_t user_of_children = 0;
  std::int64_t system_of_children = 0;
  fields >> user >> system >> user_of_children >> system_of_children;
  process.used = FromTicks(user + system + user_of_children + system_of_children);
  return process;
}

std::vector<Process> ChildrenOf(pid_t parent) {
  std::vector<Process> children;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) {
      continue;
    }
    if (const Process process = ReadProcess(name); process.parent == parent) {
      children.push_back(process);
    }
  }
  return children;
}

Duration OfTree(pid_t server) {
  Duration used = ReadProcess(std::to_string(server)).used;
  for (const Process& child : ChildrenOf(server)) {
    used += child.used;
  }
  return used;
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

CpuUsage SampleCpu(pid_t server, const std::vector<pid_t>& more) {
  CpuUsage usage{.self = OfSelf(),
                 .server = server == 0 ? Duration(0) : OfTree(server),
                 .machine = OfMachine()};
  for (const pid_t member : more) {
    usage.server += OfTree(member);
  }
  return usage;
}

int CountChildren(pid_t parent) {
  return static_cast<int>(ChildrenOf(parent).size());
}

}  // namespace holdfast::bench
