#include "exec/process_tree.h"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include <unistd.h>

// The header of glibc 2.36 does not say that these are C functions.
extern "C" {
#include <sys/pidfd.h>
}

namespace holdfast::exec {
namespace {

struct Process {
  pid_t id = 0;
  char state = 0;
  pid_t parent = 0;
  pid_t group = 0;
  unsigned long long start = 0;  // ticks since boot: with the number, what identifies a process

  bool IsSame(const Process& other) const { return id == other.id && start == other.start; }
  bool Alive() const { return state != 'Z' && state != 'X'; }
};

// Its name may hold anything, blanks and parentheses too, and is the last thing in parentheses.
std::optional<Process> ReadProcess(pid_t id) {
  std::ifstream file("/proc/" + std::to_string(id) + "/stat");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const std::size_t end = text.rfind(')');
  if (end == std::string::npos) {
    return std::nullopt;
  }
  constexpr int kBeforeStart = 16;  // fields between the group and the start
  Process process{.id = id};
  std::istringstream fields(text.substr(end + 1));
  fields >> process.state >> process.parent >> process.group;
  std::string skipped;
  for (int i = 0; i < kBeforeStart; ++i) {
    fields >> skipped;
  }
  fields >> process.start;
  return fields ? std::optional(process) : std::nullopt;
}

std::vector<Process> AllProcesses() {
  std::vector<Process> all;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    pid_t id = 0;
    const auto [rest, bad] = std::from_chars(name.data(), name.data() + name.size(), id);
    if (bad != std::errc() || rest != name.data() + name.size()) {
      continue;
    }
    if (const auto process = ReadProcess(id)) {
      all.push_back(*process);
    }
  }
  return all;
}

std::vector<Process> Descendants(pid_t ancestor) {
  const std::vector<Process> all = AllProcesses();
  std::vector<Process> found;
  std::set<pid_t> family = {ancestor};
  // Children may be listed before their parents, so until nothing is added any more.
  for (bool grown = true; grown;) {
    grown = false;
    for (const Process& process : all) {
      if (family.contains(process.parent) && family.insert(process.id).second) {
        found.push_back(process);
        grown = true;
      }
    }
  }
  std::erase_if(found, [](const Process& process) { return !process.Alive(); });
  return found;
}

void Signal(const Process& process, int signal) {
  const int file = pidfd_open(process.id, 0);
  if (file < 0) {
    return;
  }
  const auto now = ReadProcess(process.id);
  if (now.has_value() && now->IsSame(process)) {
    pidfd_send_signal(file, signal, nullptr, 0);
  }
  close(file);
}

}  // namespace

std::size_t SignalDescendants(pid_t ancestor, int signal, std::optional<pid_t> but_group) {
  const std::vector<Process> found = Descendants(ancestor);
  for (const Process& process : found) {
    if (process.group != but_group) {
      Signal(process, signal);
    }
  }
  return found.size();
}

std::size_t CountDescendants(pid_t ancestor) {
  return Descendants(ancestor).size();
}

}  // namespace holdfast::exec
