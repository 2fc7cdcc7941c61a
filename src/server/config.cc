#include "server/config.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "server/config_options.h"
#include "server/config_values.h"

namespace holdfast::server {
namespace {

std::string FormatNumber(Kind kind, std::uint64_t value) {
  switch (kind) {
    case Kind::kDuration:
      return FormatDuration(Duration(static_cast<std::int64_t>(value)));
    case Kind::kBytes:
      return FormatBytes(value);
    case Kind::kText:
    case Kind::kFlag:
    case Kind::kCount:
      break;
  }
  return std::to_string(value);
}

std::string LimitOf(const Option& option) {
  if (option.kind == Kind::kFlag) {
    return "true or false";
  }
  return FormatNumber(option.kind, option.min) + " .. " + FormatNumber(option.kind, option.max);
}

std::optional<std::uint64_t> ParseNumber(Kind kind, std::string_view text) {
  switch (kind) {
    case Kind::kDuration: {
      const auto duration = ParseDuration(text);
      return duration.has_value() ? std::optional(static_cast<std::uint64_t>(duration->count()))
                                  : std::nullopt;
    }
    case Kind::kBytes:
      return ParseBytes(text);
    case Kind::kText:
    case Kind::kFlag:
    case Kind::kCount:
      break;
  }
  return ParseCount(text);
}

Error BadValue(const Option& option, std::string_view text) {
  return InvalidArgument(
      std::string(option.key), LimitOf(option),
      fmt::format("option {} is \"{}\", must be {}", option.key, text, LimitOf(option)));
}

Error UnknownKey(std::string_view key) {
  const auto nearest =
      std::min_element(kOptions.begin(), kOptions.end(), [&](const Option& a, const Option& b) {
        return EditDistance(key, a.key) < EditDistance(key, b.key);
      });
  return InvalidArgument(std::string(key), "an option of --print-config",
                         fmt::format("there is no option {}; did you mean {}?", key, nearest->key));
}

Status Assign(Config& config, const Option& option, std::string_view text) {
  if (const auto* field = std::get_if<std::string Config::*>(&option.field)) {
    config.*(*field) = text;
    return {};
  }
  if (const auto* field = std::get_if<bool Config::*>(&option.field)) {
    if (text != "true" && text != "false") {
      return BadValue(option, text);
    }
    config.*(*field) = text == "true";
    return {};
  }
  const auto number = ParseNumber(option.kind, text);
  if (!number.has_value() || *number < option.min || *number > option.max) {
    return BadValue(option, text);
  }
  if (const auto* field = std::get_if<Duration Config::*>(&option.field)) {
    config.*(*field) = Duration(static_cast<std::int64_t>(*number));
  } else if (const auto* count = std::get_if<std::uint64_t Config::*>(&option.field)) {
    config.*(*count) = *number;
  }
  return {};
}

Status AssignKey(Config& config, std::string_view key, std::string_view text) {
  const auto found = std::find_if(kOptions.begin(), kOptions.end(),
                                  [&](const Option& option) { return option.key == key; });
  return found == kOptions.end() ? UnknownKey(key) : Assign(config, *found, text);
}

// A scalar of the file as the text that a flag would have.
std::optional<std::string> TextOf(const toml::node& node) {
  if (const auto* text = node.as_string()) {
    return text->get();
  }
  if (const auto* flag = node.as_boolean()) {
    return flag->get() ? "true" : "false";
  }
  if (const auto* number = node.as_integer()) {
    return std::to_string(number->get());
  }
  return std::nullopt;
}

Error BadIdentityKey(std::string_view key, std::string limit) {
  return InvalidArgument(fmt::format("identity.{}", key), limit,
                         fmt::format("identity.{} must be {}", key, limit));
}

Status ReadNamespaces(const toml::node& node, Identity& identity) {
  const toml::array* names = node.as_array();
  if (names == nullptr) {
    return BadIdentityKey("namespaces", "a list of names");
  }
  for (const toml::node& name : *names) {
    if (!name.is_string()) {
      return BadIdentityKey("namespaces", "a list of names");
    }
    identity.namespaces.push_back(name.as_string()->get());
  }
  return {};
}

Status ReadIdentityField(std::string_view key, const toml::node& node, Identity& identity) {
  if (key == "namespaces") {
    return ReadNamespaces(node, identity);
  }
  const auto text = TextOf(node);
  if (!text.has_value()) {
    return BadIdentityKey(key, "a string");
  }
  if (key == "name") {
    identity.name = *text;
  } else if (key == "token_sha256") {
    identity.token_sha256 = *text;
  } else if (key == "token_file") {
    identity.token_file = *text;
  } else if (key == "role" && (*text == "admin" || *text == "user")) {
    identity.role = *text == "admin" ? Role::kAdmin : Role::kUser;
  } else if (key == "role") {
    return BadIdentityKey(key, "admin or user");
  } else {
    return InvalidArgument(
        fmt::format("identity.{}", key), "name, role, token_sha256, token_file or namespaces",
        fmt::format(
            "an identity has no {}; it has name, role, token_sha256, token_file, namespaces", key));
  }
  return {};
}

Status ReadIdentities(const toml::node& node, Config& config) {
  const toml::array* tables = node.as_array();
  if (tables == nullptr) {
    return InvalidArgument("identity", "tables [[identity]]",
                           "identity must be written as [[identity]]");
  }
  for (const toml::node& item : *tables) {
    const toml::table* table = item.as_table();
    if (table == nullptr) {
      return InvalidArgument("identity", "tables [[identity]]",
                             "identity must be written as [[identity]]");
    }
    Identity identity;
    for (const auto& [key, value] : *table) {
      const Status status = ReadIdentityField(key.str(), value, identity);
      if (!status.ok()) {
        return status;
      }
    }
    config.identities.push_back(std::move(identity));
  }
  return {};
}

Status ReadNode(const std::string& key, const toml::node& node, Config& config) {
  const auto text = TextOf(node);
  if (!text.has_value()) {
    return InvalidArgument(key, "a string, a number or a boolean",
                           "option " + key + " is neither of these");
  }
  return AssignKey(config, key, *text);
}

Status ReadTable(const toml::table& table, Config& config) {
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    Status status;
    if (name == "identity") {
      status = ReadIdentities(node, config);
    } else if (const toml::table* inner = node.as_table()) {
      for (const auto& [inner_key, inner_node] : *inner) {
        status = ReadNode(name + "." + std::string(inner_key.str()), inner_node, config);
        if (!status.ok()) {
          return status;
        }
      }
    } else {
      status = ReadNode(name, node, config);
    }
    if (!status.ok()) {
      return status;
    }
  }
  return {};
}

Status ReadFile(const std::string& path, Config& config) {
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  if (!file.good() && !file.eof()) {
    return Error{ErrorCode::kIo, "cannot read the configuration " + path, "", ""};
  }
  try {
    const Status status = ReadTable(toml::parse(text, path), config);
    return status.ok() ? status : Status(status.error().WithContext(path));
  } catch (const toml::parse_error& error) {
    return InvalidArgument("config", "TOML 1.0",
                           fmt::format("{}:{}:{}: {}", path, error.source().begin.line,
                                       error.source().begin.column, error.description()));
  }
}

std::string Quote(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted.append({'\\', c});
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string ValueOf(const Config& config, const Option& option) {
  if (const auto* field = std::get_if<std::string Config::*>(&option.field)) {
    return Quote(config.*(*field));
  }
  if (const auto* field = std::get_if<bool Config::*>(&option.field)) {
    return config.*(*field) ? "true" : "false";
  }
  if (const auto* field = std::get_if<Duration Config::*>(&option.field)) {
    return Quote(FormatDuration(config.*(*field)));
  }
  const std::uint64_t number = config.*std::get<std::uint64_t Config::*>(option.field);
  return option.kind == Kind::kBytes ? Quote(FormatBytes(number)) : std::to_string(number);
}

std::string PrintIdentity(const Identity& identity) {
  std::string text = fmt::format("\n[[identity]]\nname = {}\nrole = \"{}\"\n", Quote(identity.name),
                                 identity.role == Role::kAdmin ? "admin" : "user");
  if (!identity.token_sha256.empty()) {
    text += fmt::format("token_sha256 = {}\n", Quote(identity.token_sha256));
  }
  if (!identity.token_file.empty()) {
    text += fmt::format("token_file = {}\n", Quote(identity.token_file));
  }
  std::string names;
  for (const std::string& name : identity.namespaces) {
    names += (names.empty() ? "" : ", ") + Quote(name);
  }
  return text + fmt::format("namespaces = [{}]\n", names);
}

// Whoever listens to other machines needs TLS and callers with names.
Status CheckListener(const char* key, const std::string& address, const Config& config) {
  const std::size_t colon = address.rfind(':');
  const auto port =
      colon == std::string::npos ? std::nullopt : ParseCount(address.substr(colon + 1));
  if (colon == 0 || !port.has_value() || *port > std::numeric_limits<std::uint16_t>::max()) {
    return InvalidArgument(key, "HOST:PORT",
                           fmt::format("{} is \"{}\", must be HOST:PORT", key, address));
  }
  if (IsLoopback(address) || config.insecure) {
    return {};
  }
  if (config.tls_cert.empty()) {
    return InvalidArgument(
        key, "a loopback address, or tls.cert and tls.key, or insecure",
        "other machines reach " + address + ": set up TLS, or say insecure = true");
  }
  if (config.identities.empty() && config.tls_client_ca.empty()) {
    return InvalidArgument(
        key, "a loopback address, or identities, or tls.client_ca, or insecure",
        "other machines reach " + address +
            ": set up identities or client certificates, or say insecure = true");
  }
  return {};
}

Status CheckRespListener(const Config& config) {
  if (!IsLoopback(config.resp_listen) && !config.insecure) {
    return InvalidArgument("resp_listen", "a loopback address, or insecure",
                           "other machines reach " + config.resp_listen +
                               ", and RESP has no TLS here: say insecure = true");
  }
  return CheckListener("resp_listen", config.resp_listen, config);
}

// Node names become keys of etcd and stand in logs.
bool IsNodeName(std::string_view name) {
  return !name.empty() && name.size() <= 63 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  });
}

Status CheckNode(const Config& config) {
  if (config.etcd_endpoints.empty()) {
    return config.node_name.empty() && config.node_listen.empty()
               ? Status()
               : InvalidArgument("etcd.endpoints", "HOST:PORT,...",
                                 "node.name and node.listen are for nodes over etcd");
  }
  if (!IsNodeName(config.node_name)) {
    return InvalidArgument("node.name", "1 .. 63 characters [a-z0-9.-]",
                           "node.name is \"" + config.node_name + "\"");
  }
  if (config.etcd_prefix.size() < 2 || config.etcd_prefix.front() != '/' ||
      config.etcd_prefix.back() == '/') {
    return InvalidArgument("etcd.prefix", "/NAME without a slash at the end",
                           "etcd.prefix is \"" + config.etcd_prefix + "\"");
  }
  const std::array<const std::string*, 3> pem{&config.node_ca, &config.node_cert, &config.node_key};
  const auto given =
      std::count_if(pem.begin(), pem.end(), [](const auto* path) { return !path->empty(); });
  if (given != 0 && given != 3) {
    return InvalidArgument("node.cert", "all or none of node.ca, node.cert, node.key",
                           "node.ca, node.cert and node.key come together");
  }
  if (config.etcd_cert.empty() != config.etcd_key.empty() ||
      (!config.etcd_cert.empty() && config.etcd_ca.empty())) {
    return InvalidArgument("etcd.cert", "etcd.cert and etcd.key together, and with etcd.ca",
                           "etcd.cert and etcd.key come together, and with etcd.ca");
  }
  const std::size_t colon = config.node_listen.rfind(':');
  const auto port =
      colon == std::string::npos ? std::nullopt : ParseCount(config.node_listen.substr(colon + 1));
  if (colon == 0 || !port.has_value() || *port == 0 ||
      *port > std::numeric_limits<std::uint16_t>::max()) {
    return InvalidArgument("node.listen", "HOST:PORT",
                           "node.listen is \"" + config.node_listen + "\", must be HOST:PORT");
  }
  if (!IsLoopback(config.node_listen) && config.node_cert.empty() && !config.insecure) {
    return InvalidArgument("node.listen", "a loopback address, or node.cert, or insecure",
                           "other machines reach " + config.node_listen +
                               ": set up node.ca, node.cert and node.key, or say insecure = true");
  }
  return {};
}

constexpr std::string_view kIdentityHelp = R"(
# Who may call, one table each. Without any (and without tls.client_ca) everybody is `anonymous`, which is an
# administrator where the listener is on loopback.
#   name          1 .. 255 characters [!-~]; for a client certificate its SAN URI or common name
#   role          "user" or "admin" (namespaces, break, feature level)
#   token_sha256  SHA-256 of the bearer token (printf %s TOKEN | sha256sum), or
#   token_file    file with the token itself, 16 .. 4096 bytes; neither: by client certificate only
#   namespaces    the only ones that it may use; empty: all
)";

}  // namespace

Result<Config> LoadConfig(const std::string& path, const std::vector<std::string>& overrides) {
  Config config;
  if (!path.empty()) {
    const Status status = ReadFile(path, config);
    if (!status.ok()) {
      return status.error();
    }
  }
  for (const std::string& text : overrides) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) {
      return InvalidArgument(text, "KEY=VALUE", "\"" + text + "\" is not of the form KEY=VALUE");
    }
    const Status status = AssignKey(config, text.substr(0, equals), text.substr(equals + 1));
    if (!status.ok()) {
      return status.error();
    }
  }
  const Status status = CheckConfig(config);
  if (!status.ok()) {
    return status.error();
  }
  return config;
}

Status CheckConfig(const Config& config) {
  constexpr std::array<std::string_view, 4> kLevels{"debug", "info", "warning", "error"};
  if (std::find(kLevels.begin(), kLevels.end(), config.log_level) == kLevels.end()) {
    return InvalidArgument(
        "log_level", "debug, info, warning or error",
        "log_level is \"" + config.log_level + "\", must be debug, info, warning or error");
  }
  if (config.tls_cert.empty() != config.tls_key.empty()) {
    return InvalidArgument(config.tls_cert.empty() ? "tls.cert" : "tls.key",
                           "both or none of tls.cert, tls.key",
                           "tls.cert and tls.key come together");
  }
  if (!config.tls_client_ca.empty() && config.tls_cert.empty()) {
    return InvalidArgument("tls.client_ca", "only with tls.cert and tls.key",
                           "tls.client_ca needs tls.cert");
  }
  if (Status listener = CheckListener("listen", config.listen, config); !listener.ok()) {
    return listener;
  }
  if (!config.http_listen.empty()) {
    if (Status listener = CheckListener("http_listen", config.http_listen, config);
        !listener.ok()) {
      return listener;
    }
  }
  if (!config.resp_listen.empty()) {
    if (Status listener = CheckRespListener(config); !listener.ok()) {
      return listener;
    }
  }
  return CheckNode(config);
}

std::string PrintConfig(const Config& config) {
  std::string text = "# Holdfast server: every option, with its value, meaning and range.\n";
  std::string_view section;
  for (const Option& option : kOptions) {
    const std::size_t dot = option.key.find('.');
    const std::string_view table = dot == std::string_view::npos ? "" : option.key.substr(0, dot);
    if (table != section) {
      text += fmt::format("\n[{}]\n", table);
      section = table;
    }
    const std::string range = option.kind == Kind::kText ? "" : " " + LimitOf(option) + ".";
    text += fmt::format("# {}{}\n{} = {}\n", option.meaning, range,
                        dot == std::string_view::npos ? option.key : option.key.substr(dot + 1),
                        ValueOf(config, option));
  }
  text += kIdentityHelp;
  for (const Identity& identity : config.identities) {
    text += PrintIdentity(identity);
  }
  return text;
}

log::Level LogLevelOf(const Config& config) {
  if (config.log_level == "debug") {
    return log::Level::kDebug;
  }
  if (config.log_level == "warning") {
    return log::Level::kWarning;
  }
  return config.log_level == "error" ? log::Level::kError : log::Level::kInfo;
}

}  // namespace holdfast::server
