// The configuration of a server: one plain struct. A TOML file sets it, flags of the form key=value
// override the file. `holdfast server --print-config` shows every option with its default, unit and
// meaning (PrintConfig).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/time.h"
#include "holdfast/result.h"
#include "server/auth.h"

namespace holdfast::server {

// What each option means is written once, in the table of config.cc, together with its range.
struct Config {
  std::string data_dir;
  std::string listen = "127.0.0.1:7420";
  std::string resp_listen;  // empty: no RESP front
  std::string http_listen;
  bool insecure = false;
  std::string log_level = "info";
  std::string audit_log;
  bool audit_renewals = false;
  Duration tick = Millis(200);
  Duration failover_grace = Seconds(10);
  Duration stop_timeout = Seconds(5);
  std::uint64_t segment_bytes = std::uint64_t{32} << 20U;
  std::uint64_t snapshot_bytes = std::uint64_t{256} << 20U;
  std::uint64_t batch_bytes = std::uint64_t{1} << 20U;
  std::uint64_t queue_max = 65'536;
  std::uint64_t max_calls = 100'000;
  std::uint64_t max_streams = 10'000;
  std::string tls_cert;
  std::string tls_key;
  std::string tls_client_ca;
  std::string etcd_endpoints;  // empty: embedded
  std::string etcd_prefix = "/holdfast";
  std::uint64_t etcd_quota_bytes = std::uint64_t{2} << 30U;
  std::string etcd_user;
  std::string etcd_password_file;
  std::string etcd_ca;
  std::string etcd_cert;
  std::string etcd_key;
  std::string node_name;
  std::string node_zone;
  std::string node_listen;
  std::string node_address;         // empty: node_listen
  std::string node_client_address;  // empty: listen
  std::string node_ca;
  std::string node_cert;
  std::string node_key;
  Duration keepalive_time = Seconds(10);
  Duration keepalive_timeout = Seconds(5);
  std::uint64_t http_max_connections = 1000;
  std::uint64_t http_max_watches = 500;
  std::uint64_t http_header_bytes = std::uint64_t{16} << 10U;
  std::uint64_t http_body_bytes = std::uint64_t{64} << 10U;
  Duration http_idle_timeout = Seconds(60);
  Duration http_request_timeout = Seconds(10);
  std::uint64_t hot_resources = 1024;
  Duration ttl_longest_pause = Seconds(1);
  Duration ttl_network_p99 = Millis(20);
  Duration ttl_failover = Duration::zero();
  Duration ttl_recovery = Seconds(2);
  Duration ttl_clock_error = Millis(10);
  std::vector<Identity> identities;

  bool operator==(const Config&) const = default;
};

// `path` may be empty: defaults and overrides only. kInvalidArgument names the option and its limit
// (for an unknown one, the nearest that exists), kIo the file.
Result<Config> LoadConfig(const std::string& path, const std::vector<std::string>& overrides);

// Rules between options: TLS files come together, a listener that others reach needs TLS and
// callers with names.
Status CheckConfig(const Config& config);

// A TOML file with every option, its value, meaning and range. Loading it gives the same
// configuration.
std::string PrintConfig(const Config& config);

log::Level LogLevelOf(const Config& config);

}  // namespace holdfast::server
