#include "server/auth.h"

#include <filesystem>
#include <fstream>
#include <utility>

#include <gtest/gtest.h>

namespace holdfast::server {
namespace {

// printf %s holdfast-test-token | sha256sum
constexpr char kHash[] = "38e8b40a6ea345de7837c8d3dfc3166254cb7e9237c45249bc6363cc0fb3145d";

Identity Named(std::string name, std::string hash = {}) {
  Identity identity;
  identity.name = std::move(name);
  identity.token_sha256 = std::move(hash);
  return identity;
}

class TokenFile {
 public:
  explicit TokenFile(const std::string& text)
      : path_(testing::TempDir() + "token." +
              testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::ofstream(path_) << text;
  }
  ~TokenFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Credentials Header(std::string_view authorization) {
  Credentials credentials;
  credentials.authorization = authorization;
  return credentials;
}

Credentials Certificate(std::string name, std::vector<std::string> uris = {}) {
  Credentials credentials;
  credentials.certificate_name = std::move(name);
  credentials.certificate_uris = std::move(uris);
  return credentials;
}

ErrorCode Refusal(const Authenticator& authenticator, const Credentials& credentials) {
  const auto caller = authenticator.Authenticate(credentials);
  EXPECT_FALSE(caller.ok());
  return caller.ok() ? ErrorCode::kInternal : caller.error().code;
}

TEST(AuthTest, WithoutIdentitiesEverybodyIsAnonymous) {
  const auto loopback = Authenticator::Create({});
  EXPECT_TRUE(loopback->IsOpen());
  EXPECT_EQ((*loopback->Authenticate({}))->principal, "anonymous");
  EXPECT_EQ((*loopback->Authenticate({}))->role, Role::kAdmin);
  AuthenticatorOptions reachable;
  reachable.loopback = false;
  EXPECT_EQ((*Authenticator::Create(reachable)->Authenticate({}))->role, Role::kUser);
}

TEST(AuthTest, KnowsBearersByTheHashOfTheirToken) {
  const TokenFile file("correct horse battery\n");
  Identity reader = Named("reader");
  reader.token_file = file.path();
  Identity chief =
      Named("chief", "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef");
  chief.role = Role::kAdmin;
  const auto authenticator = Authenticator::Create({.identities = {chief, reader}});
  ASSERT_TRUE(authenticator.ok());
  EXPECT_FALSE(authenticator->IsOpen());
  const auto caller = authenticator->Authenticate(Header("Bearer correct horse battery"));
  ASSERT_TRUE(caller.ok());
  EXPECT_EQ((*caller)->principal, "reader");
  EXPECT_EQ((*caller)->role, Role::kUser);
  EXPECT_TRUE(authenticator->Authenticate(Header("bearer correct horse battery")).ok());
  for (const char* wrong :
       {"", "Bearer ", "Bearer correct horse batterx", "Bearer correct horse battery ",
        "Basic correct horse battery", "correct horse battery"}) {
    EXPECT_EQ(Refusal(*authenticator, Header(wrong)), ErrorCode::kUnauthenticated) << wrong;
  }
}

TEST(AuthTest, AHashStandsForItsTokenAndIsNotOne) {
  const auto authenticator = Authenticator::Create({.identities = {Named("hashed", kHash)}});
  ASSERT_TRUE(authenticator.ok());
  const std::string hash_as_token = std::string("Bearer ") + kHash;
  EXPECT_EQ((*authenticator->Authenticate(Header("Bearer holdfast-test-token")))->principal,
            "hashed");
  EXPECT_EQ(Refusal(*authenticator, Header(hash_as_token)), ErrorCode::kUnauthenticated);
}

TEST(AuthTest, ACertificateIsItsUriOrItsCommonName) {
  Identity spiffe = Named("spiffe://corp/billing");
  spiffe.role = Role::kAdmin;
  spiffe.namespaces = {"billing"};
  const auto authenticator =
      Authenticator::Create({.identities = {spiffe}, .client_certificates = true});
  ASSERT_TRUE(authenticator.ok());
  const auto by_uri =
      authenticator->Authenticate(Certificate("ignored", {"spiffe://corp/billing"}));
  EXPECT_EQ((*by_uri)->principal, "spiffe://corp/billing");
  EXPECT_EQ((*by_uri)->role, Role::kAdmin);
  EXPECT_EQ((*by_uri)->namespaces, std::vector<std::string>{"billing"});
  const auto by_name = authenticator->Authenticate(Certificate("worker-7"));
  EXPECT_EQ((*by_name)->principal, "worker-7");
  EXPECT_EQ((*by_name)->role, Role::kUser);
  // Two URIs do not say which one is meant, so the common name counts.
  EXPECT_EQ((*authenticator->Authenticate(Certificate("n", {"a:b", "c:d"})))->principal, "n");
  EXPECT_EQ(Refusal(*authenticator, Certificate("anonymous")), ErrorCode::kUnauthenticated);
  EXPECT_EQ(Refusal(*authenticator, Certificate("a b")), ErrorCode::kUnauthenticated);
  EXPECT_EQ(Refusal(*authenticator, {}), ErrorCode::kUnauthenticated);
  // A wrong token is refused although the certificate is good.
  Credentials both = Certificate("worker-7");
  both.authorization = "Bearer x";
  EXPECT_EQ(Refusal(*authenticator, both), ErrorCode::kUnauthenticated);
}

TEST(AuthTest, RefusesBadIdentities) {
  const auto limit_of = [](std::vector<Identity> identities) {
    const auto made = Authenticator::Create({.identities = std::move(identities)});
    EXPECT_FALSE(made.ok());
    EXPECT_EQ(made.error().field, "identity");
    return made.ok() ? "" : made.error().limit;
  };
  EXPECT_EQ(limit_of({Named("a", "abc")}), "64 hexadecimal digits");
  EXPECT_EQ(limit_of({Named("a", kHash), Named("a", kHash)}), "each name once");
  EXPECT_EQ(limit_of({Named("a", kHash), Named("b", kHash)}), "a token of its own");
  EXPECT_NE(limit_of({Named("anonymous", kHash)}).find("anonymous"), std::string::npos);
  EXPECT_NE(limit_of({Named("a b", kHash)}).find("[!-~]"), std::string::npos);
  EXPECT_NE(limit_of({Named("nobody")}).find("token_sha256"), std::string::npos);
  Identity both = Named("a", kHash);
  both.token_file = "f";
  EXPECT_EQ(limit_of({both}), "token_sha256 or token_file");
  Identity bad_namespace = Named("a", kHash);
  bad_namespace.namespaces = {"Bad"};
  EXPECT_NE(limit_of({bad_namespace}), "");
  const TokenFile short_token("short\n");
  Identity weak = Named("a");
  weak.token_file = short_token.path();
  EXPECT_EQ(limit_of({weak}), "16 .. 4096 bytes in token_file");
}

TEST(AuthTest, AMissingTokenFileIsNamed) {
  Identity identity = Named("a");
  identity.token_file = testing::TempDir() + "there-is-no-such-token";
  const auto made = Authenticator::Create({.identities = {identity}});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, ErrorCode::kIo);
  EXPECT_NE(made.error().message.find(identity.token_file), std::string::npos);
}

ErrorCode CodeOf(const Status& status) {
  return status.ok() ? ErrorCode::kInternal : status.error().code;
}

TEST(AuthTest, AuthorizesByRoleAndNamespace) {
  const Caller user{"u", Role::kUser, {}};
  const Caller limited{"l", Role::kUser, {"billing"}};
  const Caller local_admin{"la", Role::kAdmin, {"billing"}};
  const Caller admin{"a", Role::kAdmin, {}};
  const std::variant<core::Command, core::Query> in_billing =
      core::Command{"x", "billing", core::Renew{}};
  const std::variant<core::Command, core::Query> in_default =
      core::Command{"x", "default", core::Renew{}};
  EXPECT_TRUE(Authorize(user, Access::kUser, in_default).ok());
  EXPECT_EQ(CodeOf(Authorize(user, Access::kAdmin, in_default)), ErrorCode::kPermissionDenied);
  EXPECT_TRUE(Authorize(limited, Access::kUser, in_billing).ok());
  EXPECT_EQ(CodeOf(Authorize(limited, Access::kUser, in_default)), ErrorCode::kPermissionDenied);
  EXPECT_TRUE(Authorize(local_admin, Access::kAdmin, in_billing).ok());
  EXPECT_EQ(CodeOf(Authorize(local_admin, Access::kAdmin, in_default)),
            ErrorCode::kPermissionDenied);
  const std::variant<core::Command, core::Query> level =
      core::Command{"x", "", core::SetFeatureLevel{1}};
  EXPECT_EQ(CodeOf(Authorize(local_admin, Access::kAdmin, level)), ErrorCode::kPermissionDenied);
  EXPECT_TRUE(Authorize(admin, Access::kAdmin, level).ok());
}

TEST(AuthTest, FindsTheNamespaceOfARequest) {
  using Request = std::variant<core::Command, core::Query>;
  EXPECT_EQ(NamespaceOf(Request(core::Query(core::Describe{"n", "r"}))), "n");
  EXPECT_EQ(NamespaceOf(Request(core::Query(core::GetNamespace{"n"}))), "n");
  EXPECT_EQ(NamespaceOf(Request(core::Query(core::ListNamespaces{}))), std::nullopt);
  core::ChangeNamespace change;
  change.name = "c";
  EXPECT_EQ(NamespaceOf(Request(core::Command{"p", "", change})), "c");
}

TEST(AuthTest, KnowsLoopback) {
  for (const char* loopback : {"127.0.0.1:1", "127.3.2.1:0", "localhost:7420", "[::1]:7420"}) {
    EXPECT_TRUE(IsLoopback(loopback)) << loopback;
  }
  for (const char* reachable : {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "127.example.com:1",
                                "127.0.0.1.example.com:1", "localhost.example.com:1", "*:1"}) {
    EXPECT_FALSE(IsLoopback(reachable)) << reachable;
  }
}

}  // namespace
}  // namespace holdfast::server
