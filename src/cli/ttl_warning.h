// Whoever asks for a ttl that the service finds too short is told so, on standard error.
#pragma once

#include <optional>
#include <string>

#include "base/time.h"
#include "holdfast/client.h"
#include "holdfast/result.h"

namespace holdfast::cli {

// Asks the service, unless `ttl` is absent or so long that nobody finds it short. Gives the
// warning, if there is one.
Result<std::optional<std::string>> ShortTtlWarning(client::Client& client,
                                                   std::optional<Duration> ttl);
// The same, and prints it. A service that does not answer says nothing here.
void WarnOfShortTtl(client::Client& client, std::optional<Duration> ttl);

}  // namespace holdfast::cli
