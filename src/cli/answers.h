// Answers of the service as what is printed, and the exit codes of refusals. Schema: docs/CLI.md.
#pragma once

#include <map>
#include <string>

#include "cli/exit_code.h"
#include "cli/output.h"
#include "holdfast/states.h"
#include "holdfast/types.h"

namespace holdfast::cli {

Object AcquireAnswer(const client::AcquireResult& result);
Object RenewAnswer(const client::RenewResult& result, const std::string& lease_id);
Object ReleaseAnswer(const client::ReleaseResult& result, const std::string& lease_id);
Object BreakAnswer(const client::BreakResult& result);
Object DescribeAnswer(const client::DescribeResult& result);
Object ListRow(const client::ListItem& item);
Object WatchLine(const client::WatchItem& item);
Object OpenSessionAnswer(const client::OpenSessionResult& result);
Object SessionAnswer(const client::SessionDescription& session);
Object LeaderAnswer(const std::string& resource, const client::LeaderInfo& leader);
Object NamespaceAnswer(const client::NamespaceResult& result);
// Only the fields that are there.
Object PolicyAnswer(const client::Policy& policy);
Object StatusAnswer(const client::ServiceStatus& status);

ExitCode ExitCodeOf(const client::Refusal& refusal);
ExitCode ExitCodeOf(client::CancelOutcome outcome);
ExitCode ExitCodeOf(client::SessionRefusal reason);

}  // namespace holdfast::cli
