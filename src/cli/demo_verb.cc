#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "cli/demo.h"
#include "cli/demo_report.h"
#include "cli/verbs.h"

namespace holdfast::cli {
namespace {

struct DemoOptions {
  std::string json;
};

// HOLDFAST_ENDPOINTS is not enough: whoever has it set to a real service wants to see the
// demonstration, not to run it there.
bool NamesEndpoints(const Invocation& invocation) {
  return std::any_of(invocation.words.begin(), invocation.words.end(), [](const std::string& word) {
    return word == "--endpoints" || word.starts_with("--endpoints=");
  });
}

int Fail(const Invocation& invocation, const Error& error) {
  PrintError(invocation.format, error);
  return ExitCodeOf(error);
}

int RunDemo(const Invocation& invocation, const DemoOptions& options) {
  std::unique_ptr<DemoServer> server;
  Connection connection = invocation.connection;
  if (!NamesEndpoints(invocation)) {
    auto started = DemoServer::Start();
    if (!started.ok()) {
      return Fail(invocation, started.error());
    }
    server = std::move(*started);
    connection = Connection{};
    connection.endpoints = {server->address()};
  }
  DemoReport report(invocation.format == Format::kText);
  const Status status = Demo(connection, server.get(), report).Run();
  if (!status.ok()) {
    return Fail(invocation, status.error());
  }
  if (invocation.format == Format::kJson) {
    Print(Format::kJson, report.ToObject());
  } else {
    report.PrintSummary();
  }
  if (!options.json.empty()) {
    const Status written = WriteFile(options.json, ToJson(report.ToObject()) + "\n");
    if (!written.ok()) {
      return Fail(invocation, written.error());
    }
  }
  return report.failed() == 0 ? kDone : kFailed;
}

}  // namespace

void AddDemoVerb(CommandLine& line) {
  auto options = std::make_shared<DemoOptions>();
  line.OnService("demo", "Service",
                 "Show what Holdfast guarantees, in about ten seconds: a paused holder is fenced "
                 "off, a lost reply is asked for again, a killed server forgets nothing. Starts a "
                 "server of its own on loopback and removes it afterwards; with --endpoints it "
                 "runs there, in a namespace of its own, and kills nothing.")
      .Text("--json", options->json, "Write the timeline to this file as JSON")
      .Example("holdfast demo")
      .Exits({kFailed})
      .Run([options](const Invocation& invocation) { return RunDemo(invocation, *options); });
}

}  // namespace holdfast::cli
