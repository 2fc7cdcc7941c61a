// The table of options: what each is called, means, and may be. For config.cc only.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "server/config.h"

namespace holdfast::server {

enum class Kind { kText, kFlag, kDuration, kBytes, kCount };

// One option. `min` and `max` are in nanoseconds, bytes or pieces.
struct Option {
  std::string_view key;
  std::string_view meaning;
  Kind kind;
  std::variant<std::string Config::*, bool Config::*, Duration Config::*, std::uint64_t Config::*>
      field;
  std::uint64_t min = 0;
  std::uint64_t max = 0;
};

inline constexpr std::uint64_t kMillisecond = 1'000'000;
inline constexpr std::uint64_t kSecond = 1'000 * kMillisecond;
inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kGiB = kKiB * kKiB * kKiB;

// In the order in which they are printed: options of a table (with a dot) come after all plain
// ones.
inline constexpr std::array<Option, 50> kOptions{{
    {"data_dir",
     "Folder of the journal and its snapshots; made with mode 0700 if it is not there. Required.",
     Kind::kText, &Config::data_dir},
    {"listen", "HOST:PORT of the gRPC listener; port 0 takes a free one.", Kind::kText,
     &Config::listen},
    {"resp_listen",
     "HOST:PORT of the RESP (Redis protocol) listener, which has no TLS; empty: none.", Kind::kText,
     &Config::resp_listen},
    {"http_listen",
     "HOST:PORT of the HTTP listener, with the TLS files and identities of this page; empty: "
     "none.",
     Kind::kText, &Config::http_listen},
    {"insecure",
     "Allows a listener that other machines reach to be without TLS and without identities.",
     Kind::kFlag, &Config::insecure},
    {"log_level", "debug, info, warning or error.", Kind::kText, &Config::log_level},
    {"audit_log",
     "File for one JSON line per change of ownership; empty: none. SIGHUP opens it anew.",
     Kind::kText, &Config::audit_log},
    {"audit_renewals",
     "Whether successful renewals and keepalives are audited too: most lines, least news.",
     Kind::kFlag, &Config::audit_renewals},
    {"tick",
     "Time passes in steps of at most this while nothing happens; leases end up to this late.",
     Kind::kDuration, &Config::tick, 10 * kMillisecond, 500 * kMillisecond},
    {"failover_grace",
     "After a restart a lease lives at least this long (or its ttl), so clients can reconnect.",
     Kind::kDuration, &Config::failover_grace, 0, 60 * kSecond},
    {"stop_timeout", "How long a graceful stop waits for calls before it cuts them off.",
     Kind::kDuration, &Config::stop_timeout, 0, 300 * kSecond},
    {"segment_bytes", "Size of one journal file.", Kind::kBytes, &Config::segment_bytes, 64 * kKiB,
     kGiB},
    {"snapshot_bytes",
     "A snapshot is made after this much log; bounds disk use and the time of a restart.",
     Kind::kBytes, &Config::snapshot_bytes, 1024 * kKiB, 1024 * kGiB},
    {"batch_bytes", "Budget of one journal append; operations beyond it go into the next one.",
     Kind::kBytes, &Config::batch_bytes, 64 * kKiB, 1024 * kKiB},
    {"queue_max", "Operations that may wait for the journal; more are answered OVERLOADED.",
     Kind::kCount, &Config::queue_max, 64, 10'000'000},
    {"max_calls", "Calls that may be open at once, waiting acquires, watches and streams included.",
     Kind::kCount, &Config::max_calls, 1, 10'000'000},
    {"max_streams", "Calls that may be open at once on one connection.", Kind::kCount,
     &Config::max_streams, 1, 1'000'000},
    {"hot_resources", "Busy resources that `holdfast top` can tell apart; 0: it shows none.",
     Kind::kCount, &Config::hot_resources, 0, 1024},
    {"tls.cert", "PEM file with the server's certificate chain; empty: no TLS.", Kind::kText,
     &Config::tls_cert},
    {"tls.key", "PEM file with its private key.", Kind::kText, &Config::tls_key},
    {"tls.client_ca",
     "PEM file with the CA of client certificates, which are then required (mutual TLS).",
     Kind::kText, &Config::tls_client_ca},
    {"etcd.endpoints",
     "HOST:PORT,... of the etcd cluster that holds the log; empty: the log is in data_dir.",
     Kind::kText, &Config::etcd_endpoints},
    {"etcd.prefix", "Everything of this cluster in etcd is below it.", Kind::kText,
     &Config::etcd_prefix},
    {"etcd.quota_bytes",
     "Space quota of the etcd members (their --quota-backend-bytes). At nine tenths of it nothing "
     "new is granted.",
     Kind::kBytes, &Config::etcd_quota_bytes, 16 * 1024 * kKiB, 1024 * kGiB},
    {"etcd.user", "User of etcd; empty: none.", Kind::kText, &Config::etcd_user},
    {"etcd.password_file", "File with the user's password.", Kind::kText,
     &Config::etcd_password_file},
    {"etcd.ca", "PEM file with the CA of etcd's certificates; empty: no TLS.", Kind::kText,
     &Config::etcd_ca},
    {"etcd.cert", "PEM file with this node's certificate for etcd.", Kind::kText,
     &Config::etcd_cert},
    {"etcd.key", "PEM file with its private key.", Kind::kText, &Config::etcd_key},
    {"node.name", "Name of this node, unique in its cluster. Required with etcd.endpoints.",
     Kind::kText, &Config::node_name},
    {"node.zone",
     "Nodes of one zone fail together: the log is trimmed when snapshots are in two of them.",
     Kind::kText, &Config::node_zone},
    {"node.listen", "HOST:PORT for the other nodes. Required with etcd.endpoints.", Kind::kText,
     &Config::node_listen},
    {"node.address", "HOST:PORT at which they reach it; empty: node.listen.", Kind::kText,
     &Config::node_address},
    {"node.client_address",
     "HOST:PORT where clients reach this node, as their endpoint lists have it; empty: listen.",
     Kind::kText, &Config::node_client_address},
    {"node.ca", "PEM file with the CA of the nodes' certificates: they prove themselves.",
     Kind::kText, &Config::node_ca},
    {"node.cert", "PEM file with this node's certificate for its peers; empty: no TLS.",
     Kind::kText, &Config::node_cert},
    {"node.key", "PEM file with its private key.", Kind::kText, &Config::node_key},
    {"keepalive.time", "A connection that was quiet for this long is pinged.", Kind::kDuration,
     &Config::keepalive_time, kSecond, 3600 * kSecond},
    {"keepalive.timeout",
     "A ping without an answer for this long closes it; its waiters are detached.", Kind::kDuration,
     &Config::keepalive_timeout, 100 * kMillisecond, 60 * kSecond},
    {"http.max_connections", "Connections to HTTP that may be open at once.", Kind::kCount,
     &Config::http_max_connections, 1, 1'000'000},
    {"http.max_watches", "Event streams of HTTP that may be open at once.", Kind::kCount,
     &Config::http_max_watches, 0, 10'000},
    {"http.header_bytes", "Longest request line with its headers.", Kind::kBytes,
     &Config::http_header_bytes, kKiB, 1024 * kKiB},
    {"http.body_bytes", "Longest body of a request.", Kind::kBytes, &Config::http_body_bytes, kKiB,
     4 * kKiB* kKiB},
    {"http.idle_timeout", "A connection without a request for this long is closed.",
     Kind::kDuration, &Config::http_idle_timeout, kSecond, 3600 * kSecond},
    {"http.request_timeout",
     "A client that takes longer to send a request or to take an answer is cut off.",
     Kind::kDuration, &Config::http_request_timeout, 100 * kMillisecond, 300 * kSecond},
    {"ttl.longest_pause",
     "Longest pause of a client (garbage collection, swapping, a busy machine). With the other "
     "ttl options it gives the ttl below which the server warns.",
     Kind::kDuration, &Config::ttl_longest_pause, 0, 3600 * kSecond},
    {"ttl.network_p99", "99th percentile of a message's time between client and server.",
     Kind::kDuration, &Config::ttl_network_p99, 0, 60 * kSecond},
    {"ttl.failover", "Time until another server has taken over; 0 with a single server.",
     Kind::kDuration, &Config::ttl_failover, 0, 3600 * kSecond},
    {"ttl.recovery", "Time from the end of a server until its restart answers.", Kind::kDuration,
     &Config::ttl_recovery, 0, 3600 * kSecond},
    {"ttl.clock_error", "By how much clocks of clients and server may differ over one ttl.",
     Kind::kDuration, &Config::ttl_clock_error, 0, 60 * kSecond},
}};

}  // namespace holdfast::server
