#include <optional>
#include <string>
#include <vector>

#include "cli/verbs.h"
#include "gateway/resp_front.h"
#include "server/config.h"
#include "server/server.h"

namespace holdfast::cli {
namespace {

struct ServerOptions {
  std::string config;
  std::string data_dir;
  std::string listen;
  std::string resp;
  std::string http;
  std::string audit_log;
  std::string log_level;
  std::string etcd;
  std::string node;
  std::string node_listen;
  std::string zone;
  bool insecure = false;
  bool print_config = false;
  std::vector<std::string> settings;
};

// Flags come behind the file, and --set behind the flags of their own.
std::vector<std::string> OverridesOf(const ServerOptions& options) {
  std::vector<std::string> overrides;
  const auto add = [&](const char* key, const std::string& value) {
    if (!value.empty()) {
      overrides.push_back(std::string(key) + "=" + value);
    }
  };
  add("data_dir", options.data_dir);
  add("listen", options.listen);
  add("resp_listen", options.resp);
  add("http_listen", options.http);
  add("audit_log", options.audit_log);
  add("log_level", options.log_level);
  add("etcd.endpoints", options.etcd);
  add("node.name", options.node);
  add("node.listen", options.node_listen);
  add("node.zone", options.zone);
  add("insecure", options.insecure ? "true" : "");
  overrides.insert(overrides.end(), options.settings.begin(), options.settings.end());
  return overrides;
}

int Serve(const Invocation& invocation, const ServerOptions& options) {
  const auto refuse = [&](const Error& error) {
    PrintError(invocation.format, error);
    return static_cast<int>(ExitCodeOf(error));
  };
  const auto config = server::LoadConfig(options.config, OverridesOf(options));
  if (!config.ok()) {
    return refuse(config.error());
  }
  if (options.print_config) {
    PrintRaw(server::PrintConfig(*config));
    return kDone;
  }
  std::vector<server::FrontFactory> more;
  if (!config->resp_listen.empty()) {
    more.emplace_back([](const server::FrontContext& context) {
      return gateway::StartRespFront(context, context.config.resp_listen);
    });
  }
  const Status status = server::RunServer(*config, more);
  return status.ok() ? static_cast<int>(kDone) : refuse(status.error());
}

}  // namespace

void AddServerVerb(CommandLine& line) {
  auto options = std::make_shared<ServerOptions>();
  line.Local("server", "Service",
             "Serve locks from a data directory. Everything is durable before it is answered; "
             "after a crash or kill -9 start it again on the same directory. SIGTERM and SIGINT "
             "stop it gracefully, SIGHUP opens the audit log anew for rotation. Logs go to "
             "standard error.")
      .Text("--data-dir", options->data_dir, "Where the journal and its snapshots are")
      .Text("--listen", options->listen, "HOST:PORT of the gRPC listener (127.0.0.1:7420)")
      .Text("--resp", options->resp,
            "HOST:PORT of the RESP (Redis protocol) listener, the fast path (none)")
      .Text("--http", options->http, "HOST:PORT of the HTTP listener (none)")
      .Text("--etcd", options->etcd,
            "HOST:PORT,... of an etcd cluster that holds the log: a replicated node (none)")
      .Text("--node", options->node, "Name of a replicated node")
      .Text("--node-listen", options->node_listen, "HOST:PORT for the other nodes")
      .Text("--zone", options->zone, "Zone of a replicated node: what fails together (none)")
      .Text("--config", options->config, "TOML file with options; flags override it")
      .Text("--audit-log", options->audit_log, "One JSON line per change of ownership goes here")
      .Text("--log-level", options->log_level, "debug, info, warning or error (info)")
      .Flag("--insecure", options->insecure,
            "Let other machines in without TLS and without identities")
      .Texts("--set", options->settings, "KEY=VALUE for any option of --print-config; repeatable")
      .Flag("--print-config", options->print_config,
            "Print every option with value, meaning and range, and exit")
      .Example("holdfast server --data-dir data --listen 127.0.0.1:7420")
      .Exits({kDamaged})
      .Run([options](const Invocation& invocation) { return Serve(invocation, *options); });
}

}  // namespace holdfast::cli
