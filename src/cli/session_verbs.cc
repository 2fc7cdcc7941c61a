#include <optional>
#include <string>
#include <vector>

#include "base/id.h"
#include "cli/answers.h"
#include "cli/service.h"
#include "cli/verbs.h"

namespace holdfast::cli {
namespace {

constexpr const char* kChapter = "Sessions";
constexpr const char* kIdNames = "ID,--session,--session-id";

struct OpenOptions {
  std::optional<Duration> ttl;
  std::string owner;
  std::string request_id;
};

int Open(const Invocation& invocation, const OpenOptions& options) {
  const client::OpenSessionRequest request{
      .namespace_name = {},
      .request_id = options.request_id.empty() ? client::NewRequestId() : options.request_id,
      .owner = options.owner,
      .ttl = options.ttl,
      .context = {}};
  return WithClient(invocation, [&](client::Client& client) {
    const auto result = client.OpenSession(request);
    if (!result.ok()) {
      return Fail(invocation, result.error(), {.request_id = request.request_id, .look_first = {}});
    }
    Print(invocation.format, OpenSessionAnswer(*result));
    const client::SessionRefused* refused = result->refused();
    return static_cast<int>(refused != nullptr ? ExitCodeOf(refused->reason) : kDone);
  });
}

int KeepAlive(const Invocation& invocation, const std::string& id) {
  return WithClient(invocation, [&](client::Client& client) {
    const auto result = client.KeepAlive({.namespace_name = {}, .session_id = id});
    if (!result.ok()) {
      return Fail(invocation, result.error());
    }
    Object answer = {{"alive", result->alive},
                     {"session_fp", Fingerprint(id)},
                     {"remaining_ms", ToMillis(result->remaining)},
                     {"revocations", result->revocations}};
    if (!result->alive) {
      answer.push_back({"cause", Name(result->cause)});
    }
    Print(invocation.format, answer);
    return static_cast<int>(result->alive ? kDone : kOwnershipLost);
  });
}

int Close(const Invocation& invocation, const std::string& id) {
  return WithClient(invocation, [&](client::Client& client) {
    const auto result = client.CloseSession({.namespace_name = {}, .session_id = id});
    if (!result.ok()) {
      return Fail(invocation, result.error());
    }
    Object answer = {{"closed", result->closed}, {"session_fp", Fingerprint(id)}};
    if (!result->closed) {
      answer.push_back({"cause", Name(result->cause)});
    }
    Print(invocation.format, answer);
    return static_cast<int>(result->closed ? kDone : kOwnershipLost);
  });
}

int Describe(const Invocation& invocation, const std::string& id) {
  return WithClient(invocation, [&](client::Client& client) {
    const auto result = client.DescribeSession(id);
    if (!result.ok()) {
      return Fail(invocation, result.error());
    }
    Print(invocation.format, SessionAnswer(*result));
    return static_cast<int>(result->alive ? kDone : kOwnershipLost);
  });
}

using SessionAction = int (*)(const Invocation&, const std::string& id);

void AddOnSession(CommandLine& line, const char* path, const char* purpose,
                  const std::vector<ExitCode>& exits, SessionAction action) {
  auto id = std::make_shared<std::string>();
  line.OnService(path, "", purpose)
      .Text(kIdNames, *id, "The session, as open printed it")
      .Required()
      .Example(std::string("holdfast ") + path + " 77ab...")
      .Exits(exits)
      .Run([id, action](const Invocation& invocation) { return action(invocation, *id); });
}

}  // namespace

void AddSessionVerbs(CommandLine& line) {
  line.DescribeGroup("session", kChapter,
                     "One lease that many locks hang on: one keepalive renews them all.");
  auto options = std::make_shared<OpenOptions>();
  line.OnService("session open", "",
                 "Open a session. Locks acquired with --session live as long as it does; it ends "
                 "after its ttl without a keepalive, and all its locks with it.")
      .Time("--ttl", options->ttl, "Lifetime without a keepalive (the namespace's default, 30s)")
      .Text("--owner", options->owner, "Who asks, for people who look")
      .Text("--request-id", options->request_id,
            "Ask again under the same id: one effect, the same answer (default: a new one)")
      .Example("holdfast session open --ttl 30s -o json")
      .Exits({kOutcomeUnknown, kNotAcquired, kOwnershipLost})
      .Run([options](const Invocation& invocation) { return Open(invocation, *options); });
  AddOnSession(line, "session keepalive",
               "Make a session and all its locks last for its ttl again. Safe to repeat.",
               {kOutcomeUnknown, kOwnershipLost}, KeepAlive);
  AddOnSession(line, "session close",
               "End a session and release all its locks. Stop the work on them first. Safe to "
               "repeat.",
               {kOutcomeUnknown, kOwnershipLost}, Close);
  AddOnSession(line, "session describe", "Show whether a session lives, and how much hangs on it.",
               {kOwnershipLost}, Describe);
}

}  // namespace holdfast::cli
