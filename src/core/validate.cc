#include "core/validate.h"

#include <algorithm>
#include <string>

#include "base/overloaded.h"
#include "core/limits.h"

namespace holdfast::core {
namespace {

bool IsLowerOrDigit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

// For a message: control bytes and anything beyond ASCII must not reach a terminal or a log as they
// are.
std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text.substr(0, 64)) {
    quoted.push_back(c >= ' ' && c <= '~' && c != '"' ? c : '?');
  }
  return quoted + (text.size() > 64 ? "...\"" : "\"");
}

Status CheckLength(std::string_view text, std::size_t max, const char* field) {
  if (text.size() > max) {
    return InvalidArgument(field, "at most " + std::to_string(max) + " bytes",
                           std::string(field) + " has " + std::to_string(text.size()) + " bytes");
  }
  return {};
}

bool IsContinuation(unsigned char byte) {
  return (byte & 0xc0U) == 0x80U;
}

// Length of the well-formed UTF-8 sequence at the front, 0 if it is not one (RFC 3629: no overlong
// forms, surrogates, or code points above U+10FFFF).
std::size_t Utf8Length(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const unsigned lead = byte(0);
  if (lead < 0x80) {
    return 1;
  }
  const auto continued = [&](std::size_t count) {
    for (std::size_t i = 1; i <= count; ++i) {
      if (!IsContinuation(static_cast<unsigned char>(byte(i)))) {
        return false;
      }
    }
    return true;
  };
  if (lead >= 0xc2 && lead <= 0xdf && continued(1)) {
    return 2;
  }
  if ((lead & 0xf0U) == 0xe0 && continued(2)) {
    const bool overlong = lead == 0xe0 && byte(1) < 0xa0;
    const bool surrogate = lead == 0xed && byte(1) >= 0xa0;
    return overlong || surrogate ? 0 : 3;
  }
  if (lead >= 0xf0 && lead <= 0xf4 && continued(3)) {
    const bool overlong = lead == 0xf0 && byte(1) < 0x90;
    const bool too_large = lead == 0xf4 && byte(1) >= 0x90;
    return overlong || too_large ? 0 : 4;
  }
  return 0;
}

// Text for people: UTF-8 without control characters.
Status CheckText(std::string_view text, std::size_t max, const char* field) {
  if (Status length = CheckLength(text, max, field); !length.ok()) {
    return length;
  }
  for (std::string_view rest = text; !rest.empty();) {
    const auto lead = static_cast<unsigned char>(rest.front());
    const std::size_t size = Utf8Length(rest);
    // U+0080 to U+009F are controls too: terminals take U+009B for the beginning of an escape
    // sequence.
    const bool control =
        lead < 0x20 || lead == 0x7f || (lead == 0xc2 && static_cast<unsigned char>(rest[1]) < 0xa0);
    if (size == 0 || control) {
      return InvalidArgument(
          field, "UTF-8 without control characters",
          std::string(field) + " " + Quoted(text) + " has a byte that is not allowed");
    }
    rest.remove_prefix(size);
  }
  return {};
}

Status CheckGraphic(std::string_view text, std::size_t max, const char* field) {
  const bool graphic =
      std::all_of(text.begin(), text.end(), [](char c) { return c >= '!' && c <= '~'; });
  if (text.empty() || text.size() > max || !graphic) {
    return InvalidArgument(field, "1 to " + std::to_string(max) + " characters from '!' to '~'",
                           std::string(field) + " " + Quoted(text) + " is not allowed");
  }
  return {};
}

std::string Text(Duration duration) {
  const std::int64_t millis = ToMillis(duration);
  return millis % 1000 == 0 ? std::to_string(millis / 1000) + "s" : std::to_string(millis) + "ms";
}

Status CheckRange(Duration value, Duration low, Duration high, const char* field) {
  if (value < low || value > high) {
    return InvalidArgument(field, Text(low) + " to " + Text(high),
                           std::string(field) + " is " + Text(value));
  }
  return {};
}

Status CheckRange(std::uint64_t value, std::uint64_t low, std::uint64_t high, const char* field) {
  if (value < low || value > high) {
    return InvalidArgument(field, std::to_string(low) + " to " + std::to_string(high),
                           std::string(field) + " is " + std::to_string(value));
  }
  return {};
}

// The first that failed.
Status First(std::initializer_list<Status> checks) {
  for (const Status& check : checks) {
    if (!check.ok()) {
      return check;
    }
  }
  return {};
}

Status CheckClient(const ClientContext& client) {
  if (client.client_id.empty()) {
    return {};
  }
  if (client.sequence == 0) {
    return InvalidArgument("client.sequence", "at least 1", "client.sequence is 0");
  }
  return CheckGraphic(client.client_id, kClientIdBytesMax, "client.client_id");
}

Status CheckMetadata(const std::vector<MetadataEntry>& metadata) {
  std::size_t bytes = 0;
  for (const MetadataEntry& entry : metadata) {
    bytes += entry.key.size() + entry.value.size();
    if (Status text = First({CheckText(entry.key, kMetadataBytesMax, "metadata"),
                             CheckText(entry.value, kMetadataBytesMax, "metadata")});
        !text.ok()) {
      return text;
    }
    if (entry.key.empty()) {
      return InvalidArgument("metadata", "keys of at least 1 byte", "metadata has an empty key");
    }
  }
  const auto not_rising = [](const MetadataEntry& a, const MetadataEntry& b) {
    return a.key >= b.key;
  };
  if (const auto twice = std::adjacent_find(metadata.begin(), metadata.end(), not_rising);
      twice != metadata.end()) {
    return InvalidArgument("metadata", "each key once",
                           "metadata has the key " + Quoted(twice->key) + " twice");
  }
  if (metadata.size() > kMetadataEntriesMax || bytes > kMetadataBytesMax) {
    return InvalidArgument("metadata", "at most 16 entries and 1024 bytes in all",
                           "metadata has " + std::to_string(metadata.size()) + " entries and " +
                               std::to_string(bytes) + " bytes");
  }
  return {};
}

Status CheckNotNegative(Duration value, const char* field) {
  if (value < Duration{}) {
    return InvalidArgument(field, "not negative", std::string(field) + " is negative");
  }
  return {};
}

Status Check(const Acquire& command) {
  if (command.ttl != Duration{} && !IsZero(command.session)) {
    return InvalidArgument("ttl", "absent with a session",
                           "a lease on a session lives as long as the session");
  }
  return First({ValidateResource(command.resource), ValidateRequestId(command.request_id),
                CheckText(command.owner, kOwnerBytesMax, "owner"),
                CheckNotNegative(command.ttl, "ttl"), CheckNotNegative(command.wait, "wait"),
                CheckMetadata(command.metadata), CheckText(command.value, kValueBytesMax, "value"),
                CheckClient(command.client)});
}

Status Check(const Break& command) {
  if (command.reason.empty()) {
    return InvalidArgument("reason", "1 to 256 bytes", "a break needs a reason");
  }
  return First(
      {ValidateResource(command.resource), CheckText(command.reason, kReasonBytesMax, "reason")});
}

Status Check(const OpenSession& command) {
  return First({ValidateRequestId(command.request_id),
                CheckText(command.owner, kOwnerBytesMax, "owner"),
                CheckNotNegative(command.ttl, "ttl"), CheckClient(command.client)});
}

Status TokenRange(Token token, const char* field) {
  return CheckRange(token, 0, kTokenMax, field);
}

}  // namespace

Status ValidateResource(std::string_view resource) {
  const auto refuse = [&] {
    return InvalidArgument("resource",
                           "[a-z0-9][a-z0-9._:/-]{0,254} without empty, '.' or '..' segments",
                           "resource " + Quoted(resource) + " is not a resource name");
  };
  if (resource.empty() || resource.size() > kResourceBytesMax ||
      !IsLowerOrDigit(resource.front())) {
    return refuse();
  }
  std::size_t start = 0;
  for (std::size_t i = 0; i <= resource.size(); ++i) {
    if (i == resource.size() || resource[i] == '/') {
      const std::string_view segment = resource.substr(start, i - start);
      if (segment.empty() || segment == "." || segment == "..") {
        return refuse();
      }
      start = i + 1;
    } else if (!IsLowerOrDigit(resource[i]) &&
               std::string_view("._:-").find(resource[i]) == std::string_view::npos) {
      return refuse();
    }
  }
  return {};
}

Status ValidateNamespace(std::string_view name) {
  const bool allowed =
      std::all_of(name.begin(), name.end(), [](char c) { return IsLowerOrDigit(c) || c == '-'; });
  if (name.empty() || name.size() > kNamespaceBytesMax || !IsLowerOrDigit(name.front()) ||
      !allowed) {
    return InvalidArgument("namespace", "[a-z0-9][a-z0-9-]{0,62}",
                           "namespace " + Quoted(name) + " is not a namespace name");
  }
  return {};
}

Status ValidateRequestId(std::string_view request_id) {
  return CheckGraphic(request_id, kRequestIdBytesMax, "request_id");
}

Status Validate(const Command& command) {
  const Overloaded check{
      [](const Acquire& c) { return Check(c); },
      [](const Renew& c) { return ValidateResource(c.resource); },
      [](const Release& c) { return ValidateResource(c.resource); },
      [](const Cancel& c) {
        return First({ValidateResource(c.resource), ValidateRequestId(c.request_id),
                      CheckText(c.owner, kOwnerBytesMax, "owner"), CheckClient(c.client)});
      },
      [](const Detach&) { return Status(); },
      [](const Break& c) { return Check(c); },
      [](const Proclaim& c) {
        return First({ValidateResource(c.resource), CheckText(c.value, kValueBytesMax, "value")});
      },
      [](const OpenSession& c) { return Check(c); },
      [](const KeepAlive&) { return Status(); },
      [](const CloseSession&) { return Status(); },
      [](const ChangeNamespace& c) { return ValidateNamespace(c.name); },
      [](const EpochStart& c) {
        return CheckRange(c.grace, Duration{}, Seconds(60), "failover_grace");
      },
      [](const SetFeatureLevel& c) { return CheckRange(c.level, 1, kFeatureLevelMax, "level"); },
      [](const RecoverState& c) {
        return First({TokenRange(c.token_floor, "token_floor"),
                      CheckRange(c.block, Duration{}, kGrantsBlockedMax, "block")});
      },
  };
  const bool engine_own = std::holds_alternative<EpochStart>(command.body) ||
                          std::holds_alternative<RecoverState>(command.body) ||
                          std::holds_alternative<Detach>(command.body) ||
                          std::holds_alternative<SetFeatureLevel>(command.body) ||
                          std::holds_alternative<ChangeNamespace>(command.body);
  if (!engine_own) {
    if (Status name = ValidateNamespace(command.name_space); !name.ok()) {
      return name;
    }
  }
  if (Status length = CheckLength(command.principal, kPrincipalBytesMax, "principal");
      !length.ok()) {
    return length;
  }
  return std::visit(check, command.body);
}

Status Validate(const Query& query) {
  const Overloaded check{
      [](const Describe& q) {
        return First({ValidateNamespace(q.name_space), ValidateResource(q.resource)});
      },
      [](const List& q) {
        return First({ValidateNamespace(q.name_space),
                      CheckText(q.prefix, kResourceBytesMax, "prefix"),
                      CheckRange(q.page_size, 0, kListPageMax, "page_size"),
                      CheckText(q.after, kResourceBytesMax, "page_token")});
      },
      [](const CheckToken& q) {
        return First({ValidateNamespace(q.name_space), ValidateResource(q.resource),
                      TokenRange(q.token, "fencing_token")});
      },
      [](const Leader& q) {
        return First({ValidateNamespace(q.name_space), ValidateResource(q.resource)});
      },
      [](const DescribeSession& q) { return ValidateNamespace(q.name_space); },
      [](const GetNamespace& q) { return ValidateNamespace(q.name); },
      [](const ListNamespaces&) { return Status(); },
      [](const GetCounts&) { return Status(); },
  };
  return std::visit(check, query);
}

Status ValidatePolicy(const Policy& p) {
  const Duration day = Seconds(86'400);
  const Duration ten_minutes = Seconds(600);
  return First({CheckRange(p.ttl_max, p.ttl_min, day, "ttl_max"),
                CheckRange(p.ttl_min, Millis(100), p.ttl_max, "ttl_min"),
                CheckRange(p.ttl_default, p.ttl_min, p.ttl_max, "ttl_default"),
                CheckRange(p.hold_max, Duration{}, 30 * day, "hold_max"),
                CheckRange(p.wait_max, Duration{}, day, "wait_max"),
                CheckRange(p.waiters_per_resource, 0, 100'000, "waiters_per_resource"),
                CheckRange(p.waiters_per_tenant, 0, 1'000'000, "waiters_per_tenant"),
                CheckRange(p.holds_per_tenant, 1, 1'000'000, "holds_per_tenant"),
                CheckRange(p.sessions_per_tenant, 0, 1'000'000, "sessions_per_tenant"),
                CheckRange(p.lock_delay, Duration{}, ten_minutes, "lock_delay"),
                CheckRange(p.request_memory, Seconds(1), day, "request_memory"),
                CheckRange(p.request_bytes_per_tenant, 65'536, std::uint64_t{16} << 30U,
                           "request_bytes_per_tenant"),
                CheckRange(p.detach_grace, Duration{}, ten_minutes, "detach_grace")});
}

Status ValidateAgainst(const Policy& policy, const Command& command) {
  if (const auto* acquire = std::get_if<Acquire>(&command.body); acquire != nullptr) {
    if (Status wait = CheckRange(acquire->wait, Duration{}, policy.wait_max, "wait"); !wait.ok()) {
      return wait;
    }
    return acquire->ttl == Duration{}
               ? Status()
               : CheckRange(acquire->ttl, policy.ttl_min, policy.ttl_max, "ttl");
  }
  if (const auto* open = std::get_if<OpenSession>(&command.body);
      open != nullptr && open->ttl != Duration{}) {
    return CheckRange(open->ttl, policy.ttl_min, policy.ttl_max, "ttl");
  }
  return {};
}

}  // namespace holdfast::core
