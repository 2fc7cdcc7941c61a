// Verbs that change nothing.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "cli/answers.h"
#include "cli/service.h"
#include "cli/signals.h"
#include "cli/verbs.h"

namespace holdfast::cli {
namespace {

constexpr const char* kChapter = "Look";

int Describe(const Invocation& invocation, const std::string& resource) {
  return WithClient(invocation, [&](client::Client& client) {
    const auto result = client.Describe(resource);
    if (!result.ok()) {
      return Fail(invocation, result.error());
    }
    Print(invocation.format, DescribeAnswer(*result));
    return static_cast<int>(kDone);
  });
}

void AddDescribe(CommandLine& line) {
  auto resource = std::make_shared<std::string>();
  line.OnService("describe", kChapter,
                 "Show a lock: who holds it since when and for how long, its fencing token, who "
                 "waits, and what happened last, with causes.")
      .Text("NAME", *resource, "The resource")
      .Required()
      .Example("holdfast describe orders/7")
      .Exits({})
      .Run([resource](const Invocation& invocation) { return Describe(invocation, *resource); });
}

struct ListOptions {
  std::string prefix;
  std::optional<std::uint64_t> limit;
};

int List(const Invocation& invocation, const ListOptions& options) {
  constexpr std::uint64_t kPage = 1000;
  const std::uint64_t limit = options.limit.value_or(kPage);
  return WithClient(invocation, [&](client::Client& client) {
    std::vector<Object> rows;
    std::string page;
    do {
      const std::uint64_t wanted = limit == 0 ? kPage : std::min(kPage, limit - rows.size());
      const auto result = client.List({.namespace_name = {},
                                       .prefix = options.prefix,
                                       .page_size = static_cast<std::uint32_t>(wanted),
                                       .page_token = page});
      if (!result.ok()) {
        return Fail(invocation, result.error());
      }
      for (const client::ListItem& item : result->items) {
        rows.push_back(ListRow(item));
      }
      page = result->next_page_token;
    } while (!page.empty() && (limit == 0 || rows.size() < limit));
    Print(invocation.format, {{"resources", std::move(rows)}, {"more", !page.empty()}});
    return static_cast<int>(kDone);
  });
}

void AddList(CommandLine& line) {
  auto options = std::make_shared<ListOptions>();
  line.OnService("list", kChapter,
                 "List the resources that are held, waited for, or in lock-delay, in the order of "
                 "their names.")
      .Text("PREFIX", options->prefix, "Only those that begin with this")
      .Number("--limit", options->limit, "At most this many; 0: all (1000)")
      .Example("holdfast list orders/")
      .Exits({})
      .Run([options](const Invocation& invocation) { return List(invocation, *options); });
}

struct WatchOptions {
  std::string prefix;
  bool exact = false;
  std::optional<std::uint64_t> after;
  std::optional<std::uint64_t> count;
};

int Watch(const Invocation& invocation, const WatchOptions& options) {
  SignalWatch signals;
  return WithClient(invocation, [&](client::Client& client) {
    std::stop_source stop;
    const SignalWatch::Scope on_signal(signals, [&] { stop.request_stop(); });
    std::uint64_t left = options.count.value_or(0);
    const Status status = client.Watch(
        {.namespace_name = {},
         .prefix = options.prefix,
         .exact = options.exact,
         .after_index = options.after.value_or(0)},
        [&](const client::WatchItem& item) {
          PrintLine(invocation.format, WatchLine(item));
          const bool counted = std::holds_alternative<client::WatchEvent>(item) && left > 0;
          return !counted || --left > 0;
        },
        stop.get_token());
    return !status.ok() && !signals.came() ? Fail(invocation, status.error())
                                           : static_cast<int>(kDone);
  });
}

void AddWatch(CommandLine& line) {
  auto options = std::make_shared<WatchOptions>();
  line.OnService("watch", kChapter,
                 "Print one line for each event until interrupted: GRANTED, ENDED, REVOKED, "
                 "WAITING, WAITER_LEFT, PROCLAIMED, RENEWED_CONFIRMED. It survives a restart of "
                 "the service. GAP says that events were lost: read the state, then trust what "
                 "follows.")
      .Text("PREFIX", options->prefix, "A resource, or the beginning of several (all)")
      .Flag("--exact", options->exact, "Only the resource named exactly PREFIX")
      .Number("--after", options->after, "Events after this log position (from now on)")
      .Number("--count", options->count, "End after this many events")
      .Example("holdfast watch orders/ -o json")
      .Exits({})
      .Run([options](const Invocation& invocation) { return Watch(invocation, *options); });
}

struct CheckOptions {
  std::string resource;
  std::optional<std::uint64_t> token;
};

int CheckToken(const Invocation& invocation, const CheckOptions& options) {
  return WithClient(invocation, [&](client::Client& client) {
    const auto result = client.CheckToken(options.resource, *options.token);
    if (!result.ok()) {
      return Fail(invocation, result.error());
    }
    Print(invocation.format, {{"verdict", Name(result->verdict)},
                              {"current", result->current},
                              {"resource", options.resource},
                              {"fencing_token", Token(*options.token)},
                              {"index", result->index}});
    return static_cast<int>(result->current ? kDone : kOwnershipLost);
  });
}

void AddCheckToken(CommandLine& line) {
  auto options = std::make_shared<CheckOptions>();
  line.OnService("check-token", kChapter,
                 "Ask whether a fencing token is that of the present holder. Useful to give up "
                 "early, but no fencing: the answer may be old when it arrives. Let the protected "
                 "resource refuse every token below the highest that it has seen.")
      .Text("NAME", options->resource, "The resource")
      .Required()
      .Number("TOKEN", options->token, "The fencing token")
      .Required()
      .Example("holdfast check-token orders/7 42")
      .Exits({kOwnershipLost})
      .Run([options](const Invocation& invocation) { return CheckToken(invocation, *options); });
}

int ShowStatus(const Invocation& invocation) {
  return WithClient(invocation, [&](client::Client& client) {
    const auto result = client.GetStatus();
    if (!result.ok()) {
      return Fail(invocation, result.error());
    }
    Print(invocation.format, StatusAnswer(*result));
    return static_cast<int>(kDone);
  });
}

int StepDown(const Invocation& invocation) {
  return WithClient(invocation, [&](client::Client& client) {
    const auto result = client.StepDown();
    if (!result.ok()) {
      return Fail(invocation, result.error());
    }
    Print(invocation.format, {{"stepping_down", *result}});
    return static_cast<int>(*result ? kDone : kNotAcquired);
  });
}

void AddStepDown(CommandLine& line) {
  line.OnService("step-down", "Service",
                 "Let another node of a replicated cluster lead. Ask the node that leads, by its "
                 "own endpoint: it commits what is queued, another one takes over at once, and "
                 "nobody notices a gap. Any other node answers that it does not lead.")
      .Example("holdfast step-down --endpoints NODE:7420")
      .Exits({kNotAcquired})
      .Run(StepDown);
}

void AddStatus(CommandLine& line) {
  line.OnService("status", kChapter,
                 "Show the state of the service: its place in the log, the newest fencing token, "
                 "how much it holds, whether it accepts writes, how far expiry lags.")
      .Example("holdfast status -o json")
      .Exits({})
      .Run(ShowStatus);
}

}  // namespace

void AddLookVerbs(CommandLine& line) {
  AddDescribe(line);
  AddList(line);
  AddWatch(line);
  AddCheckToken(line);
  AddStatus(line);
  AddStepDown(line);
}

}  // namespace holdfast::cli
