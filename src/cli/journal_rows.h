// Log entries as what is printed. Request, lease and session ids are capabilities, so only their
// fingerprints appear.
#pragma once

#include "cli/output.h"
#include "core/command.h"
#include "journal/inspect.h"

namespace holdfast::cli {

// "verb", "resource", and the fields that are set.
Object CommandRow(const core::Command& command);

Object ReportOf(const journal::DirectoryReport& report);

}  // namespace holdfast::cli
