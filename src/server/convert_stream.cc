// Operations of the bidirectional stream: the verbs of the other services, chosen by what is set.
#include "holdfast/v1/stream.pb.h"
#include "server/fields.h"

namespace holdfast::server {
namespace {

template <typename Request, typename Response>
void Write(const Verb<Request, Response>& verb, const Request& request, engine::Reply& reply,
           Response& response, v1::OperationResult& result) {
  const Status status = verb.write(request, reply, response);
  if (!status.ok()) {
    WriteProblem(status.error(), *result.mutable_problem());
  }
}

}  // namespace

Result<EngineRequest> ReadOperation(v1::Operation& operation, const std::string& principal) {
  switch (operation.request_case()) {
    case v1::Operation::kAcquire:
      return kAcquire.read(*operation.mutable_acquire(), principal);
    case v1::Operation::kRenew:
      return kRenew.read(*operation.mutable_renew(), principal);
    case v1::Operation::kRelease:
      return kRelease.read(*operation.mutable_release(), principal);
    case v1::Operation::kCancel:
      return kCancel.read(*operation.mutable_cancel(), principal);
    case v1::Operation::kDescribe:
      return kDescribe.read(*operation.mutable_describe(), principal);
    case v1::Operation::kCheckToken:
      return kCheckToken.read(*operation.mutable_check_token(), principal);
    case v1::Operation::kOpenSession:
      return kOpenSession.read(*operation.mutable_open_session(), principal);
    case v1::Operation::kKeepAlive:
      return kKeepAlive.read(*operation.mutable_keep_alive(), principal);
    case v1::Operation::kCloseSession:
      return kCloseSession.read(*operation.mutable_close_session(), principal);
    case v1::Operation::kCampaign:
      return kCampaign.read(*operation.mutable_campaign(), principal);
    case v1::Operation::kProclaim:
      return kProclaim.read(*operation.mutable_proclaim(), principal);
    case v1::Operation::kLeader:
      return kLeader.read(*operation.mutable_leader(), principal);
    case v1::Operation::REQUEST_NOT_SET:
      break;
  }
  return InvalidArgument("request", "one of the operations of holdfast.v1.Operation",
                         "the operation is empty or unknown to this server");
}

void WriteResult(const v1::Operation& operation, engine::Reply& reply,
                 v1::OperationResult& result) {
  result.set_tag(operation.tag());
  switch (operation.request_case()) {
    case v1::Operation::kAcquire:
      return Write(kAcquire, operation.acquire(), reply, *result.mutable_acquire(), result);
    case v1::Operation::kRenew:
      return Write(kRenew, operation.renew(), reply, *result.mutable_renew(), result);
    case v1::Operation::kRelease:
      return Write(kRelease, operation.release(), reply, *result.mutable_release(), result);
    case v1::Operation::kCancel:
      return Write(kCancel, operation.cancel(), reply, *result.mutable_cancel(), result);
    case v1::Operation::kDescribe:
      return Write(kDescribe, operation.describe(), reply, *result.mutable_describe(), result);
    case v1::Operation::kCheckToken:
      return Write(kCheckToken, operation.check_token(), reply, *result.mutable_check_token(),
                   result);
    case v1::Operation::kOpenSession:
      return Write(kOpenSession, operation.open_session(), reply, *result.mutable_open_session(),
                   result);
    case v1::Operation::kKeepAlive:
      return Write(kKeepAlive, operation.keep_alive(), reply, *result.mutable_keep_alive(), result);
    case v1::Operation::kCloseSession:
      return Write(kCloseSession, operation.close_session(), reply, *result.mutable_close_session(),
                   result);
    case v1::Operation::kCampaign:
      return Write(kCampaign, operation.campaign(), reply, *result.mutable_acquire(), result);
    case v1::Operation::kProclaim:
      return Write(kProclaim, operation.proclaim(), reply, *result.mutable_proclaim(), result);
    case v1::Operation::kLeader:
      return Write(kLeader, operation.leader(), reply, *result.mutable_leader(), result);
    case v1::Operation::REQUEST_NOT_SET:
      break;  // ReadOperation refused it, so it has no reply
  }
}

void WriteProblemResult(const v1::Operation& operation, const Error& error,
                        v1::OperationResult& result) {
  result.set_tag(operation.tag());
  WriteProblem(error, *result.mutable_problem());
}

bool MayWait(const v1::Operation& operation) {
  return (operation.has_acquire() && MayWait(operation.acquire())) ||
         (operation.has_campaign() && MayWait(operation.campaign()));
}

}  // namespace holdfast::server
