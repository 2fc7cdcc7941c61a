#include "server/auth.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <utility>

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include "core/limits.h"
#include "core/validate.h"

namespace holdfast::server {
namespace {

constexpr std::string_view kAnonymous = "anonymous";
constexpr std::string_view kBearer = "bearer ";
constexpr std::size_t kTokenBytesMin = 16;
constexpr std::size_t kTokenBytesMax = 4096;

using Digest = std::array<std::uint8_t, 32>;

Digest Sha256(std::string_view text) {
  Digest digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

std::optional<Digest> ParseDigest(const std::string& text) {
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  if (lower.size() != 64) {
    return std::nullopt;
  }
  const auto first = ParseId(std::string_view(lower).substr(0, 32));
  const auto second = ParseId(std::string_view(lower).substr(32));
  if (!first.has_value() || !second.has_value()) {
    return std::nullopt;
  }
  Digest digest{};
  std::copy(first->begin(), first->end(), digest.begin());
  std::copy(second->begin(), second->end(), digest.begin() + 16);
  return digest;
}

// Names appear in logs, views and audit lines.
bool IsPrincipal(std::string_view name) {
  return !name.empty() && name.size() <= core::kPrincipalBytesMax &&
         std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c <= '~'; });
}

Error BadIdentity(const Identity& identity, const std::string& limit, const std::string& message) {
  return InvalidArgument("identity", limit, "identity \"" + identity.name + "\": " + message);
}

Result<std::string> ReadToken(const Identity& identity) {
  std::ifstream file(identity.token_file, std::ios::binary);
  std::string token(std::istreambuf_iterator<char>(file), {});
  if (!file.good() && !file.eof()) {
    return Error{
        ErrorCode::kIo,
        "identity \"" + identity.name + "\": cannot read token_file " + identity.token_file, "",
        ""};
  }
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) {
    token.pop_back();
  }
  if (token.size() < kTokenBytesMin || token.size() > kTokenBytesMax) {
    return BadIdentity(identity, "16 .. 4096 bytes in token_file",
                       "the token is too short or too long");
  }
  return token;
}

Status CheckIdentity(const Identity& identity) {
  if (!IsPrincipal(identity.name) || identity.name == kAnonymous) {
    return BadIdentity(identity, "1 .. 255 characters [!-~], not \"anonymous\"", "not a name");
  }
  if (!identity.token_sha256.empty() && !identity.token_file.empty()) {
    return BadIdentity(identity, "token_sha256 or token_file", "has both");
  }
  for (const std::string& name : identity.namespaces) {
    const Status status = core::ValidateNamespace(name);
    if (!status.ok()) {
      return BadIdentity(identity, status.error().limit, "namespaces has \"" + name + "\"");
    }
  }
  return {};
}

Result<std::optional<Digest>> TokenDigest(const Identity& identity) {
  if (!identity.token_file.empty()) {
    auto token = ReadToken(identity);
    if (!token.ok()) {
      return token.error();
    }
    return std::optional<Digest>(Sha256(*token));
  }
  if (identity.token_sha256.empty()) {
    return std::optional<Digest>();
  }
  const auto digest = ParseDigest(identity.token_sha256);
  if (!digest.has_value()) {
    return BadIdentity(identity, "64 hexadecimal digits", "token_sha256 is not a SHA-256");
  }
  return digest;
}

Error Unauthenticated(std::string message) {
  return Error{ErrorCode::kUnauthenticated, std::move(message), "", ""};
}

}  // namespace

Result<Authenticator> Authenticator::Create(const AuthenticatorOptions& options) {
  Authenticator made;
  for (const Identity& identity : options.identities) {
    const Status status = CheckIdentity(identity);
    if (!status.ok()) {
      return status.error();
    }
    auto caller =
        std::make_shared<const Caller>(Caller{identity.name, identity.role, identity.namespaces});
    if (!made.by_name_.emplace(identity.name, caller).second) {
      return BadIdentity(identity, "each name once", "is there twice");
    }
    const auto digest = TokenDigest(identity);
    if (!digest.ok()) {
      return digest.error();
    }
    const bool token_taken = std::any_of(
        made.bearers_.begin(), made.bearers_.end(),
        [&](const Bearer& other) { return digest->has_value() && other.token_sha256 == **digest; });
    if (token_taken) {
      return BadIdentity(identity, "a token of its own", "has the token of another identity");
    }
    if (digest->has_value()) {
      made.bearers_.push_back({**digest, std::move(caller)});
    } else if (!options.client_certificates) {
      return BadIdentity(identity, "token_sha256 or token_file, or tls.client_ca",
                         "nobody can be it: it has no token, and client certificates are not used");
    }
  }
  if (options.identities.empty() && !options.client_certificates) {
    const Role role = options.loopback ? Role::kAdmin : Role::kUser;
    made.anonymous_ = std::make_shared<const Caller>(Caller{std::string(kAnonymous), role, {}});
  }
  return made;
}

Result<std::shared_ptr<const Caller>> Authenticator::Authenticate(
    const Credentials& credentials) const {
  if (anonymous_ != nullptr) {
    return anonymous_;
  }
  if (!credentials.authorization.empty()) {
    return FromBearer(credentials.authorization);
  }
  if (!credentials.certificate_uris.empty() || !credentials.certificate_name.empty()) {
    return FromCertificate(credentials);
  }
  return Unauthenticated("this server wants a token: authorization: Bearer TOKEN");
}

Result<std::shared_ptr<const Caller>> Authenticator::FromBearer(
    std::string_view authorization) const {
  const auto same = [](char a, char b) {
    return a == b || (a >= 'A' && a <= 'Z' && a - 'A' + 'a' == b);
  };
  if (authorization.size() <= kBearer.size() ||
      !std::equal(kBearer.begin(), kBearer.end(), authorization.begin(),
                  [&](char expected, char given) { return same(given, expected); })) {
    return Unauthenticated("the authorization header is not of the form: Bearer TOKEN");
  }
  const Digest digest = Sha256(authorization.substr(kBearer.size()));
  // All are compared, each in constant time, so that the time tells nothing about which came close.
  const Bearer* found = nullptr;
  for (const Bearer& bearer : bearers_) {
    if (CRYPTO_memcmp(bearer.token_sha256.data(), digest.data(), digest.size()) == 0) {
      found = &bearer;
    }
  }
  if (found == nullptr) {
    return Unauthenticated("unknown token");
  }
  return found->caller;
}

Result<std::shared_ptr<const Caller>> Authenticator::FromCertificate(
    const Credentials& credentials) const {
  const bool one_uri = credentials.certificate_uris.size() == 1;
  const std::string& name =
      one_uri ? credentials.certificate_uris.front() : credentials.certificate_name;
  if (!IsPrincipal(name) || name == kAnonymous) {
    return Unauthenticated(
        "the client certificate names nobody: it needs one SAN URI or a common name");
  }
  const auto found = by_name_.find(name);
  if (found != by_name_.end()) {
    return found->second;
  }
  return std::make_shared<const Caller>(Caller{name, Role::kUser, {}});
}

std::optional<std::string_view> NamespaceOf(
    const std::variant<core::Command, core::Query>& request) {
  if (const auto* command = std::get_if<core::Command>(&request)) {
    if (const auto* change = std::get_if<core::ChangeNamespace>(&command->body)) {
      return change->name;
    }
    return command->name_space.empty() ? std::nullopt
                                       : std::optional<std::string_view>(command->name_space);
  }
  return std::visit(
      [](const auto& query) -> std::optional<std::string_view> {
        if constexpr (requires { query.name_space; }) {
          return query.name_space;
        } else if constexpr (requires { query.name; }) {
          return query.name;
        } else {
          return std::nullopt;
        }
      },
      std::get<core::Query>(request));
}

bool MayUse(const Caller& caller, std::string_view name_space) {
  return caller.namespaces.empty() || std::find(caller.namespaces.begin(), caller.namespaces.end(),
                                                name_space) != caller.namespaces.end();
}

Status Authorize(const Caller& caller, Access access,
                 const std::variant<core::Command, core::Query>& request) {
  if (access == Access::kAdmin && caller.role != Role::kAdmin) {
    return Error{ErrorCode::kPermissionDenied, caller.principal + " is not an administrator", "",
                 ""};
  }
  const auto name_space = NamespaceOf(request);
  if (access == Access::kAdmin && !name_space.has_value() && !caller.namespaces.empty()) {
    return Error{ErrorCode::kPermissionDenied,
                 caller.principal + " is an administrator of some namespaces only", "", ""};
  }
  if (name_space.has_value() && !MayUse(caller, *name_space)) {
    return Error{ErrorCode::kPermissionDenied,
                 caller.principal + " may not use the namespace " + std::string(*name_space),
                 "namespace", ""};
  }
  return {};
}

bool IsLoopback(std::string_view listen) {
  const std::string_view host = listen.substr(0, listen.rfind(':'));
  if (host == "localhost" || host == "[::1]") {
    return true;
  }
  // 127.0.0.0/8, written as four numbers: "127.example.com" is a name like any other.
  return host.substr(0, 4) == "127." && std::count(host.begin(), host.end(), '.') == 3 &&
         std::all_of(host.begin(), host.end(),
                     [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
}

}  // namespace holdfast::server
