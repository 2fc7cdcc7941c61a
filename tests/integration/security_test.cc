// Who may do what: TLS with client certificates, bearer identities, namespaces, and the audit of
// denials.
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <utility>

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <nlohmann/json.hpp>

#include "holdfast/v1/admin.grpc.pb.h"
#include "holdfast/v1/locks.grpc.pb.h"
#include "holdfast/v1/stream.grpc.pb.h"
#include "tests/integration/server_fixture.h"

namespace holdfast::server {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class SecurityTest : public ServerFixture {
 protected:
  // A CA and certificates that it signed, made by the openssl command.
  void MakeCertificates() {
    Run("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "
        "/CN=test-ca "
        "-keyout ca.key -out ca.pem");
    Sign("server", "/CN=localhost", "DNS:localhost,IP:127.0.0.1");
    Sign("worker", "/CN=worker-7", "DNS:worker-7");
    Sign("billing", "/CN=ignored", "URI:spiffe://corp/billing");
  }
  std::string Pem(const std::string& name) const { return ReadFile(folder() + "/" + name); }

  std::shared_ptr<grpc::Channel> ConnectTls(const std::string& certificate) {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = Pem("ca.pem");
    if (!certificate.empty()) {
      options.pem_private_key = Pem(certificate + ".key");
      options.pem_cert_chain = Pem(certificate + ".pem");
    }
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(server().address(), grpc::SslCredentials(options), arguments);
  }

  // Acquires with a token (or none) and gives the status.
  static grpc::Status Try(const std::shared_ptr<grpc::Channel>& channel, const std::string& token,
                          const v1::AcquireRequest& request) {
    grpc::ClientContext context;
    SetDeadline(context);
    if (!token.empty()) {
      context.AddMetadata("authorization", "Bearer " + token);
    }
    v1::AcquireResponse response;
    return v1::Locks::NewStub(channel)->Acquire(&context, request, &response);
  }

 private:
  void Run(const std::string& command) const {
    ASSERT_EQ(std::system(("cd '" + folder() + "' && " + command + " 2>openssl.log").c_str()),
              0)  // NOLINT
        << Pem("openssl.log");
  }
  void Sign(const std::string& name, const std::string& subject,
            const std::string& alternative) const {
    std::ofstream(folder() + "/" + name + ".ext") << "subjectAltName=" << alternative << "\n";
    Run("openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj '" + subject +
        "' -keyout " + name + ".key -out " + name + ".csr");
    Run("openssl x509 -req -in " + name +
        ".csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile " + name + ".ext -out " +
        name + ".pem");
  }
};

TEST_F(SecurityTest, ClientCertificatesNamePrincipals) {
  MakeCertificates();
  config().listen = "localhost:0";
  config().tls_cert = folder() + "/server.pem";
  config().tls_key = folder() + "/server.key";
  config().tls_client_ca = folder() + "/ca.pem";
  config().identities = {{"spiffe://corp/billing", Role::kAdmin, "", "", {}}};
  Start();
  EXPECT_TRUE(Try(ConnectTls("worker"), "", AcquireOf("by-worker")).ok());
  EXPECT_TRUE(Try(ConnectTls("billing"), "", AcquireOf("by-billing")).ok());
  const auto admin = ConnectTls("billing");
  const auto describe = [&](const std::string& resource) {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::DescribeRequest request;
    request.set_resource(resource);
    v1::DescribeResponse response;
    EXPECT_TRUE(v1::Locks::NewStub(admin)->Describe(&context, request, &response).ok());
    return response.holder().principal();
  };
  EXPECT_EQ(describe("by-worker"), "worker-7");
  EXPECT_EQ(describe("by-billing"), "spiffe://corp/billing");
  const auto break_as = [&](const std::shared_ptr<grpc::Channel>& channel) {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::BreakRequest request;
    request.set_resource("by-worker");
    request.set_reason("test");
    v1::BreakResponse response;
    return v1::Locks::NewStub(channel)->Break(&context, request, &response);
  };
  EXPECT_EQ(break_as(ConnectTls("worker")).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_TRUE(break_as(admin).ok());
  // Without a certificate, or without TLS, nobody gets in.
  EXPECT_EQ(Try(ConnectTls(""), "", AcquireOf("x")).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(Try(Connect(), "", AcquireOf("x")).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(SecurityTest, BearersHaveRolesAndNamespaces) {
  const std::string admin_token = "the token of the administrator";
  const std::string limited_token = "a token for one namespace";
  std::ofstream(folder() + "/admin.token") << admin_token << "\n";
  std::ofstream(folder() + "/limited.token") << limited_token;
  config().audit_log = folder() + "/audit.jsonl";
  config().identities = {{"ops", Role::kAdmin, "", folder() + "/admin.token", {}},
                         {"billing", Role::kUser, "", folder() + "/limited.token", {"billing"}}};
  Start();
  const auto create_as = [&](const std::string& token) {
    grpc::ClientContext context;
    SetDeadline(context);
    context.AddMetadata("authorization", "Bearer " + token);
    v1::SetNamespaceRequest request;
    request.set_name("billing");
    v1::NamespaceResponse response;
    return v1::Admin::NewStub(channel())->CreateNamespace(&context, request, &response);
  };
  EXPECT_EQ(create_as(limited_token).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_TRUE(create_as(admin_token).ok());

  v1::AcquireRequest in_billing = AcquireOf("a");
  in_billing.set_namespace_("billing");
  EXPECT_TRUE(Try(channel(), limited_token, in_billing).ok());
  const grpc::Status elsewhere = Try(channel(), limited_token, AcquireOf("a"));
  EXPECT_EQ(elsewhere.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(ProblemOf(elsewhere).code(), v1::Problem::PERMISSION_DENIED);
  EXPECT_TRUE(Try(channel(), admin_token, AcquireOf("a")).ok());
  EXPECT_EQ(Try(channel(), "a wrong token", AcquireOf("a")).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  const grpc::Status nobody = Try(channel(), "", AcquireOf("a"));
  EXPECT_EQ(nobody.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(ProblemOf(nobody).code(), v1::Problem::UNAUTHENTICATED);

  grpc::ClientContext list_context;
  list_context.AddMetadata("authorization", "Bearer " + limited_token);
  v1::ListNamespacesResponse listed;
  ASSERT_TRUE(v1::Admin::NewStub(channel())
                  ->ListNamespaces(&list_context, v1::ListNamespacesRequest(), &listed)
                  .ok());
  ASSERT_EQ(listed.namespaces_size(), 1) << "the others are none of its business";
  EXPECT_EQ(listed.namespaces(0).name(), "billing");

  grpc::ClientContext stream_context;
  SetDeadline(stream_context);
  stream_context.AddMetadata("authorization", "Bearer " + limited_token);
  auto stream = v1::Operations::NewStub(channel())->Stream(&stream_context);
  v1::OperationFrame frame;
  frame.add_operations()->mutable_leader()->set_resource("a");
  ASSERT_TRUE(stream->Write(frame));
  v1::ResultFrame results;
  ASSERT_TRUE(stream->Read(&results));
  EXPECT_EQ(results.results(0).problem().code(), v1::Problem::PERMISSION_DENIED);
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(v1::Operations::NewStub(channel())
                ->Stream(std::make_unique<grpc::ClientContext>().get())
                ->Finish()
                .error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  ExpectNothingOpen();

  Stop();
  std::ifstream file(folder() + "/audit.jsonl");
  int denied = 0;
  int granted = 0;
  for (std::string line; std::getline(file, line);) {
    const auto record = nlohmann::json::parse(line);
    denied += record["kind"] == "denied" ? 1 : 0;
    granted += record["kind"] == "command" && record["outcome"] == "GRANTED" ? 1 : 0;
    EXPECT_EQ(line.find(limited_token), std::string::npos);
  }
  EXPECT_EQ(denied, 6);
  EXPECT_EQ(granted, 2);
}

}  // namespace
}  // namespace holdfast::server
