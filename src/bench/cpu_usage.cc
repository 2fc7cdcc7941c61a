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

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

ProcessStat ReadProcess(const std::string& pid) {
  return ParseProcessStat(FirstLine("/proc/" + pid + "/stat")).value_or(ProcessStat{});
}

std::vector<ProcessStat> ChildrenOf(pid_t parent) {
  std::vector<ProcessStat> children;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) {
      continue;
    }
    if (const ProcessStat process = ReadProcess(name); process.parent == parent) {
      children.push_back(process);
    }
  }
  return children;
}

Duration OfTree(pid_t server) {
  const ProcessStat process = ReadProcess(std::to_string(server));
  Duration used = process.used + process.used_by_children;
  for (const ProcessStat& child : ChildrenOf(server)) {
    used += child.used + child.used_by_children;
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

// Fields 4, 14 to 17 and 24; the second field is a name in parentheses that may hold spaces.
std::optional<ProcessStat> ParseProcessStat(std::string_view line) {
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string_view::npos) {
    return std::nullopt;
  }
  std::istringstream fields{std::string(line.substr(name_end + 1))};
  std::string skipped;
  ProcessStat process;
  fields >> skipped >> process.parent;
  for (int field = 5; field < 14; ++field) {
    fields >> skipped;
  }
  std::int64_t user = 0;
  std::int64_t system = 0;
  std::int64_t user_of_children = 0;
  std::int64_t system_of_children = 0;
  fields >> user >> system >> user_of_children >> system_of_children;
  for (int field = 18; field < 24; ++field) {
    fields >> skipped;
  }
  std::int64_t pages = 0;
  fields >> pages;
  if (!fields) {
    return std::nullopt;
  }
  process.used = FromTicks(user + system);
  process.used_by_children = FromTicks(user_of_children + system_of_children);
  process.resident_bytes = pages * sysconf(_SC_PAGESIZE);
  return process;
}

std::optional<ProcessUsage> SampleProcess(pid_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  const std::optional<ProcessStat> stat = ParseProcessStat(FirstLine(folder + "/stat"));
  if (!stat.has_value()) {
    return std::nullopt;
  }
  ProcessUsage usage{.cpu = stat->used, .resident_bytes = stat->resident_bytes};
  std::ifstream io(folder + "/io");
  std::int64_t value = 0;
  for (std::string name; io >> name >> value;) {
    if (name == "write_bytes:") {
      usage.written_bytes = value;
    }
  }
  return usage;
}

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
