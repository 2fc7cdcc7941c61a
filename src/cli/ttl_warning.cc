#include "cli/ttl_warning.h"

#include <cstdio>

#include <fmt/format.h>

#include "cli/output.h"

namespace holdfast::cli {
namespace {

// The default of a namespace: asking costs a round trip.
constexpr Duration kLongEnough = Seconds(30);

}  // namespace

Result<std::optional<std::string>> ShortTtlWarning(client::Client& client,
                                                   std::optional<Duration> ttl) {
  using Warning = std::optional<std::string>;
  if (!ttl.has_value() || *ttl >= kLongEnough) {
    return Warning();
  }
  const auto status = client.GetStatus();
  if (!status.ok()) {
    return status.error();
  }
  return *ttl >= status->recommended_ttl_min
             ? Warning()
             : fmt::format(
                   "a ttl of {} is below the {} that the service recommends: a pause or a restart "
                   "may lose the lease",
                   ShowDuration(*ttl), ShowDuration(status->recommended_ttl_min));
}

void WarnOfShortTtl(client::Client& client, std::optional<Duration> ttl) {
  const auto warning = ShortTtlWarning(client, ttl);
  if (warning.ok() && warning->has_value()) {
    const std::string text = "holdfast: warning: " + **warning + "\n";
    std::fwrite(text.data(), 1, text.size(), stderr);
  }
}

}  // namespace holdfast::cli
