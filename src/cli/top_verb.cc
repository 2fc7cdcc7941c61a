// `holdfast top`: the busiest resources.
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/service.h"
#include "cli/signals.h"
#include "cli/verbs.h"

namespace holdfast::cli {
namespace {

constexpr std::uint64_t kLimit = 20;
constexpr std::uint64_t kLimitMax = 1024;
constexpr Duration kShortestInterval = Millis(100);

struct TopOptions {
  std::optional<Duration> interval;
  std::optional<std::uint64_t> limit;
  bool once = false;
};

// Of one operation in all, or of nothing yet, a rate would say too much.
std::string Rate(std::uint64_t count, Duration window) {
  const double seconds = std::chrono::duration<double>(window).count();
  return seconds > 0 ? fmt::format("{:.1f}", static_cast<double>(count) / seconds) : "-";
}

Object JsonOf(const client::HotResources& hot) {
  std::vector<Object> rows;
  for (const client::HotResource& resource : hot.resources) {
    rows.push_back({{"namespace", resource.namespace_name},
                    {"resource", resource.resource},
                    {"operations", resource.operations},
                    {"error", resource.error},
                    {"acquires", resource.acquires},
                    {"waits", resource.waits}});
  }
  return {{"window_ms", ToMillis(hot.window)},
          {"operations", hot.operations},
          {"error_max", hot.error_max},
          {"resources", std::move(rows)}};
}

Object TextOf(const client::HotResources& hot) {
  std::vector<Object> rows;
  for (const client::HotResource& resource : hot.resources) {
    rows.push_back({{"ops_per_s", Rate(resource.operations, hot.window)},
                    {"error", Rate(resource.error, hot.window)},
                    {"acquires_per_s", Rate(resource.acquires, hot.window)},
                    {"waits_per_s", Rate(resource.waits, hot.window)},
                    {"namespace", resource.namespace_name},
                    {"resource", resource.resource}});
  }
  return {{"window_ms", ToMillis(hot.window)},
          {"ops_per_s", Rate(hot.operations, hot.window)},
          {"error_max", Rate(hot.error_max, hot.window)},
          {"resources", std::move(rows)}};
}

int Refresh(const Invocation& invocation, SignalWatch& signals, client::Client& client,
            std::uint32_t limit, Duration interval) {
  std::stop_source stop;
  std::mutex mutex;
  std::condition_variable_any never;
  const SignalWatch::Scope on_signal(signals, [&] { stop.request_stop(); });
  while (!stop.stop_requested()) {
    const auto hot = client.ListHotResources(invocation.connection.name_space, limit);
    if (!hot.ok()) {
      return Fail(invocation, hot.error());
    }
    PrintRaw("\x1b[H\x1b[2J");  // the cursor home, and nothing on the screen
    Print(invocation.format, TextOf(*hot));
    std::unique_lock lock(mutex);
    never.wait_for(lock, stop.get_token(), interval, [] { return false; });
  }
  return kDone;
}

int Top(const Invocation& invocation, const TopOptions& options) {
  const std::uint64_t limit = options.limit.value_or(kLimit);
  const Duration interval = options.interval.value_or(Seconds(2));
  if (limit == 0 || limit > kLimitMax) {
    return Fail(invocation,
                InvalidArgument("limit", "1 to 1024", fmt::format("limit is {}", limit)));
  }
  if (interval < kShortestInterval) {
    return Fail(invocation, InvalidArgument("interval", "at least 100ms", "interval is too short"));
  }
  const auto rows = static_cast<std::uint32_t>(limit);
  const bool refresh =
      !options.once && invocation.format == Format::kText && isatty(STDOUT_FILENO) != 0;
  if (refresh) {
    SignalWatch signals;
    return WithClient(invocation, [&](client::Client& client) {
      return Refresh(invocation, signals, client, rows, interval);
    });
  }
  return WithClient(invocation, [&](client::Client& client) {
    const auto hot = client.ListHotResources(invocation.connection.name_space, rows);
    if (!hot.ok()) {
      return Fail(invocation, hot.error());
    }
    Print(invocation.format, invocation.format == Format::kJson ? JsonOf(*hot) : TextOf(*hot));
    return static_cast<int>(kDone);
  });
}

}  // namespace

void AddTopVerb(CommandLine& line) {
  auto options = std::make_shared<TopOptions>();
  line.OnService("top", "Look",
                 "Show the busiest resources, of all namespaces that the caller may use or of "
                 "--namespace: commands per second over about the last 15 to 30 seconds. A rate "
                 "is too high by at most its error. On a terminal it refreshes until interrupted.")
      .Time("--interval", options->interval, "Between two refreshes (2s)")
      .Number("--limit", options->limit, "At most this many (20)")
      .Flag("--once", options->once, "Do not refresh")
      .Example("holdfast top --once -o json")
      .Exits({})
      .Run([options](const Invocation& invocation) { return Top(invocation, *options); });
}

}  // namespace holdfast::cli
