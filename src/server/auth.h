// Who calls, and what they may do. Three ways to be somebody: a static bearer identity of the
// configuration, a TLS client certificate (its one SAN URI, else its common name), or, if neither
// is configured, `anonymous`. A credential that is presented must be right: a wrong token is
// refused, never ignored.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/command.h"
#include "core/view.h"
#include "holdfast/result.h"

namespace holdfast::server {

enum class Role : std::uint8_t { kUser, kAdmin };

struct Caller {
  std::string principal;
  Role role = Role::kUser;
  std::vector<std::string> namespaces;  // the only ones that it may use; empty: all
};

// What a verb needs.
enum class Access : std::uint8_t { kUser, kAdmin };

// One [[identity]] of the configuration. Without a token it gives a certificate's principal its
// role and namespaces.
struct Identity {
  std::string name;
  Role role = Role::kUser;
  std::string token_sha256;  // 64 hexadecimal digits
  std::string token_file;    // holds the token itself, read at the start; excludes token_sha256
  std::vector<std::string> namespaces;
  bool operator==(const Identity&) const = default;
};

// What a connection and a call present.
struct Credentials {
  std::string_view authorization;             // the header; empty without one
  std::vector<std::string> certificate_uris;  // SAN URIs of a verified client certificate
  std::string certificate_name;               // its common name
};

struct AuthenticatorOptions {
  std::vector<Identity> identities;
  bool client_certificates = false;  // the listener verifies them
  bool loopback = true;              // of the listener: there, anonymous callers are administrators
};

// Immutable, so any thread.
class Authenticator {
 public:
  // Reads the token files. kInvalidArgument or kIo names the identity.
  static Result<Authenticator> Create(const AuthenticatorOptions& options);

  // Everybody is anonymous: credentials need not be looked at.
  bool IsOpen() const { return anonymous_ != nullptr; }

  // kUnauthenticated for a missing or wrong credential.
  Result<std::shared_ptr<const Caller>> Authenticate(const Credentials& credentials) const;

 private:
  using Digest = std::array<std::uint8_t, 32>;
  struct Bearer {
    Digest token_sha256{};
    std::shared_ptr<const Caller> caller;
  };

  Authenticator() = default;
  Result<std::shared_ptr<const Caller>> FromBearer(std::string_view authorization) const;
  Result<std::shared_ptr<const Caller>> FromCertificate(const Credentials& credentials) const;

  std::vector<Bearer> bearers_;
  std::map<std::string, std::shared_ptr<const Caller>, std::less<>> by_name_;
  std::shared_ptr<const Caller> anonymous_;  // null: everybody must present something
};

// The namespace that a request is about; nothing for those about the whole service.
std::optional<std::string_view> NamespaceOf(
    const std::variant<core::Command, core::Query>& request);

// kPermissionDenied unless `caller` may do this.
Status Authorize(const Caller& caller, Access access,
                 const std::variant<core::Command, core::Query>& request);
bool MayUse(const Caller& caller, std::string_view name_space);

// Whether only processes of this machine reach the listener. `listen` is HOST:PORT.
bool IsLoopback(std::string_view listen);

}  // namespace holdfast::server
