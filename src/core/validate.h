// The checks that need no state: names, lengths, character sets, ranges. Pure; any thread.
#pragma once

#include <string_view>

#include "core/command.h"
#include "core/view.h"
#include "holdfast/result.h"

namespace holdfast::core {

// kInvalidArgument that names the field (as the API spells it) and the limit.
Status Validate(const Command& command);
Status Validate(const Query& query);

// [a-z0-9][a-z0-9._:/-]{0,254} without empty, "." or ".." segments.
Status ValidateResource(std::string_view resource);
// [a-z0-9][a-z0-9-]{0,62}
Status ValidateNamespace(std::string_view name);
// 1..64 characters [!-~]
Status ValidateRequestId(std::string_view request_id);

// Checks the whole policy, for example ttl_min <= ttl_default <= ttl_max.
Status ValidatePolicy(const Policy& policy);

// Against the policy of the command's namespace: ttl and wait.
Status ValidateAgainst(const Policy& policy, const Command& command);

}  // namespace holdfast::core
