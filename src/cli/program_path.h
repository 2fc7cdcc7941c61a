// The program itself, for verbs that start a server of their own.
#pragma once

#include <string>

namespace holdfast::cli {

// Absolute.
std::string ProgramPath();

}  // namespace holdfast::cli
