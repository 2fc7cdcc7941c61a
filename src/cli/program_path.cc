#include "cli/program_path.h"

#include <filesystem>
#include <system_error>

namespace holdfast::cli {

std::string ProgramPath() {
  std::error_code failed;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", failed);
  return failed ? "/proc/self/exe" : path.string();
}

}  // namespace holdfast::cli
