// What the exit code of `holdfast` says; docs/ERRORS.md is the same table for users.
#pragma once

#include "holdfast/result.h"

namespace holdfast::cli {

enum ExitCode : int {
  kDone = 0,
  kFailed = 1,           // an assertion of `demo` did not hold, or `bench capacity` did not pass
  kUsage = 64,           // the request is wrong: the same again gives the same
  kDamaged = 65,         // stored bytes are not what was written
  kUnavailable = 69,     // nothing was done
  kDefect = 70,          // of Holdfast
  kOutcomeUnknown = 74,  // it may or may not have been done
  kNotAcquired = 75,     // the answer says why
  kOwnershipLost = 76,   // the lease or session is over, or ends without a renewal
  kNotPermitted = 77,
};

// In words, for `--help`.
const char* Meaning(ExitCode code);

ExitCode ExitCodeOf(const Error& error);

}  // namespace holdfast::cli
