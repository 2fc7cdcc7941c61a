#include "server/rpc.h"

#include <string>
#include <utility>

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/auth_context.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include "server/convert.h"

namespace holdfast::server {
namespace {

std::string_view ViewOf(const grpc::string_ref& text) {
  return {text.data(), text.size()};
}

Credentials CredentialsOf(const grpc::ServerContext& context) {
  Credentials credentials;
  const auto header = context.client_metadata().find("authorization");
  if (header != context.client_metadata().end()) {
    credentials.authorization = ViewOf(header->second);
  }
  const auto peer = context.auth_context();
  if (peer != nullptr && peer->IsPeerAuthenticated()) {
    for (const grpc::string_ref& uri : peer->FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME)) {
      credentials.certificate_uris.emplace_back(ViewOf(uri));
    }
    for (const grpc::string_ref& name : peer->FindPropertyValues(GRPC_X509_CN_PROPERTY_NAME)) {
      credentials.certificate_name = std::string(ViewOf(name));
    }
  }
  return credentials;
}

}  // namespace

grpc::Status RpcStatusOf(const Error& error) {
  return {static_cast<grpc::StatusCode>(RpcCode(error.code)), error.message, RpcDetails(error)};
}

Result<std::shared_ptr<const Caller>> Welcome(Loop& loop, const grpc::ServerContext& context,
                                              const char* verb) {
  const Status admitted = loop.Admit();
  if (!admitted.ok()) {
    return admitted.error();
  }
  const Authenticator& authenticator = loop.authenticator();
  auto caller = authenticator.IsOpen() ? authenticator.Authenticate({})
                                       : authenticator.Authenticate(CredentialsOf(context));
  if (!caller.ok()) {
    loop.AuditDenial("", verb, "", caller.error());
    loop.Leave();
  }
  return caller;
}

void NameLeader(Loop& loop, grpc::ServerContext& context) {
  if (const std::string leader = loop.runner().LeaderForClients(); !leader.empty()) {
    context.AddTrailingMetadata("holdfast-leader", leader);
  }
}

}  // namespace holdfast::server
