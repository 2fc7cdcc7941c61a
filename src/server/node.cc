#include "server/node.h"

#include <algorithm>
#include <fstream>
#include <future>
#include <iterator>
#include <thread>
#include <utility>
#include <vector>

#include "base/id.h"
#include "base/log.h"
#include "etcd/client.h"
#include "server/peer_link.h"
#include "server/pem.h"

namespace holdfast::server {
namespace {

constexpr Duration kEtcdPatience = Seconds(3);

std::vector<std::string> Split(const std::string& list) {
  std::vector<std::string> items;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t comma = std::min(list.find(',', at), list.size());
    if (comma > at) {
      items.push_back(list.substr(at, comma - at));
    }
    at = comma + 1;
  }
  return items;
}

// The client of etcd as the port that the engine knows.
class EtcdAdapter : public engine::EtcdPort {
 public:
  explicit EtcdAdapter(std::unique_ptr<etcd::Client> client) : client_(std::move(client)) {}
  void Send(std::uint64_t id, const journal::etcd::Txn& txn, Duration timeout) override {
    client_->Send(id, txn, timeout);
  }
  void Watch(std::uint64_t id, journal::etcd::Revision revision) override {
    client_->Watch(id, revision);
  }
  void StopWatch() override { client_->StopWatch(); }
  std::vector<journal::etcd::EndpointHealth> Health(Duration timeout) override {
    return client_->Health(timeout);
  }

 private:
  std::unique_ptr<etcd::Client> client_;
};

Result<etcd::ClientOptions> EtcdOptionsOf(const Config& config) {
  etcd::ClientOptions options;
  options.endpoints = Split(config.etcd_endpoints);
  options.prefix = config.etcd_prefix + "/";
  options.user = config.etcd_user;
  options.tls = !config.etcd_ca.empty();
  for (const Status& read : {ReadPem("etcd.ca", config.etcd_ca, options.ca),
                             ReadPem("etcd.cert", config.etcd_cert, options.certificate),
                             ReadPem("etcd.key", config.etcd_key, options.key)}) {
    if (!read.ok()) {
      return read.error();
    }
  }
  if (!config.etcd_password_file.empty()) {
    std::ifstream file(config.etcd_password_file);
    std::getline(file, options.password);
    if (options.password.empty()) {
      return InvalidArgument("etcd.password_file", "a readable file with a password",
                             config.etcd_password_file + " has no password");
    }
  }
  return options;
}

// Whether any of the endpoints says that it must not be used.
Status CheckEtcd(etcd::Client& client) {
  bool answers = false;
  for (const journal::etcd::EndpointHealth& health : client.Health(kEtcdPatience)) {
    if (!health.answers) {
      log::Warning("etcd does not answer endpoint={} error=\"{}\"", health.endpoint,
                   health.problem);
      continue;
    }
    answers = true;
    if (!health.problem.empty()) {
      return Error{ErrorCode::kUnsupported, health.endpoint + ": " + health.problem, {}, {}};
    }
    log::Info("etcd endpoint={} version={} db_bytes={}", health.endpoint, health.version,
              health.db_bytes);
    if (!health.advice.empty()) {
      log::Warning("etcd endpoint={} {}", health.endpoint, health.advice);
    }
  }
  if (!answers) {
    log::Warning("no endpoint of etcd answers; this node waits for one");
  }
  return {};
}

engine::ReplicatedOptions OptionsOf(const Config& config, const engine::EngineOptions& engine) {
  engine::ReplicatedOptions options;
  options.data_directory = config.data_dir;
  options.member.name = config.node_name;
  options.member.zone = config.node_zone;
  options.member.address = config.node_address.empty() ? config.node_listen : config.node_address;
  options.member.client_address =
      config.node_client_address.empty() ? config.listen : config.node_client_address;
  options.member.prefix = config.etcd_prefix;
  options.member.engine = engine;
  options.member.tick = config.tick;
  options.member.detector.interval_min = config.tick;
  options.member.store_quota_bytes = config.etcd_quota_bytes;
  options.member.snapshot_bytes = config.snapshot_bytes;
  // The log stays in etcd until two nodes have a snapshot: room for several.
  options.member.log_bytes_max = 4 * config.snapshot_bytes;
  std::uint64_t incarnation = 0;
  for (const std::uint8_t byte : RandomId()) {
    incarnation = incarnation << 8U | byte;
  }
  options.member.incarnation = incarnation;
  return options;
}

}  // namespace

Result<Node> StartNode(storage::FileSystem& files, engine::Clock& clock, const Config& config,
                       const engine::EngineOptions& engine) {
  const Result<etcd::ClientOptions> etcd_options = EtcdOptionsOf(config);
  if (!etcd_options.ok()) {
    return etcd_options.error();
  }
  PeerTls tls;
  for (const Status& read : {ReadPem("node.ca", config.node_ca, tls.ca),
                             ReadPem("node.cert", config.node_cert, tls.certificate),
                             ReadPem("node.key", config.node_key, tls.key)}) {
    if (!read.ok()) {
      return read.error();
    }
  }
  const auto make_ports = [&](engine::PortSink& sink) -> Result<engine::Ports> {
    etcd::Client::Handlers handlers;
    handlers.on_answer = [&sink](std::uint64_t id, journal::etcd::Answer&& answer) {
      sink.OnEtcdAnswer(id, std::move(answer));
    };
    handlers.on_news = [&sink](std::uint64_t id, journal::etcd::WatchNews&& news) {
      sink.OnEtcdNews(id, std::move(news));
    };
    Result<std::unique_ptr<etcd::Client>> client =
        etcd::Client::Create(*etcd_options, std::move(handlers));
    if (!client.ok()) {
      return client.error();
    }
    if (const Status checked = CheckEtcd(**client); !checked.ok()) {
      return checked.error();
    }
    engine::Ports ports;
    ports.etcd = std::make_unique<EtcdAdapter>(std::move(*client));
    ports.peers = MakePeerLink(sink, tls);
    return ports;
  };
  Node node;
  Result<std::unique_ptr<engine::ReplicatedRunner>> runner =
      engine::ReplicatedRunner::Start(files, clock, OptionsOf(config, engine), make_ports);
  if (!runner.ok()) {
    return runner.error();
  }
  node.runner = std::move(*runner);
  Result<std::unique_ptr<PeerServer>> peers =
      PeerServer::Start(*node.runner, config.node_listen, tls);
  if (!peers.ok()) {
    return peers.error();
  }
  node.peers = std::move(*peers);
  return node;
}

Result<engine::ClusterRecoveryReport> RecoverLog(storage::FileSystem& files, engine::Clock& clock,
                                                 const Config& config,
                                                 const engine::ClusterRecoveryOptions& options) {
  const Result<etcd::ClientOptions> etcd_options = EtcdOptionsOf(config);
  if (!etcd_options.ok()) {
    return etcd_options.error();
  }
  std::promise<journal::etcd::Answer> answer;
  etcd::Client::Handlers handlers;
  handlers.on_answer = [&answer](std::uint64_t, journal::etcd::Answer&& given) {
    answer.set_value(std::move(given));
  };
  handlers.on_news = [](std::uint64_t, journal::etcd::WatchNews&&) {};
  const Result<std::unique_ptr<etcd::Client>> client =
      etcd::Client::Create(*etcd_options, std::move(handlers));
  if (!client.ok()) {
    return client.error();
  }
  if (const Status checked = CheckEtcd(**client); !checked.ok()) {
    return checked.error();
  }
  std::uint64_t calls = 0;
  const auto call = [&](const journal::etcd::Txn& txn) {
    answer = {};
    std::future<journal::etcd::Answer> given = answer.get_future();
    (*client)->Send(++calls, txn, kEtcdPatience);
    return given.get();
  };
  const auto pause = [](Duration duration) { std::this_thread::sleep_for(duration); };
  return engine::RecoverCluster(files, clock, call, pause, options);
}

}  // namespace holdfast::server
