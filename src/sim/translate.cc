#include "sim/translate.h"

#include <utility>

#include "base/check.h"
#include "base/id.h"

namespace holdfast::sim {
namespace {

template <typename... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <typename... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

const std::string kNamespace = "default";

Id128 IdOf(const std::string& hex) {
  return ParseId(hex).value_or(Id128{});
}

core::ClientContext ContextOf(const std::optional<client::ClientContext>& context) {
  return context
             ? core::ClientContext{context->client_id, context->sequence, context->answered_below}
             : core::ClientContext{};
}

core::Acquire AcquireFrom(const client::AcquireRequest& request) {
  core::Acquire acquire;
  acquire.resource = request.resource;
  acquire.request_id = request.request_id;
  acquire.owner = request.owner;
  acquire.ttl = request.ttl.value_or(Duration::zero());
  acquire.session = IdOf(request.session_id);
  acquire.wait = request.wait;
  acquire.client = ContextOf(request.context);
  return acquire;
}

client::Cause CauseOf(core::Cause cause) {
  return static_cast<client::Cause>(cause);  // the numbers are those of the API in both
}

client::Grant GrantOf(const core::Granted& granted) {
  client::Grant grant;
  grant.lease_id = ToHex(granted.lease_id);
  grant.fencing_token = granted.token;
  grant.ttl = granted.ttl;
  grant.remaining = granted.remaining;
  grant.provisional = granted.provisional;
  grant.guarantee = static_cast<client::Guarantee>(granted.guarantee);
  return grant;
}

client::Failure FailureOf(const Error& error) {
  const bool nothing_done = error.code == ErrorCode::kUnavailable ||
                            error.code == ErrorCode::kOverloaded ||
                            error.code == ErrorCode::kDiskFull;
  const bool refused =
      error.code == ErrorCode::kInvalidArgument || error.code == ErrorCode::kUnsupported;
  return {nothing_done ? client::FailureKind::kNothingDone
          : refused    ? client::FailureKind::kFinal
                       : client::FailureKind::kUnknown,
          error,
          {}};
}

struct Answer {
  const std::string& resource;
  const std::string& request_id;

  using Result = std::optional<client::Reply>;
  Result operator()(const core::Granted& granted) const {
    return client::AcquireResult{resource, request_id, GrantOf(granted), {}};
  }
  Result operator()(const core::Refused& refused) const {
    client::Refusal refusal;
    refusal.code = static_cast<client::RefusalCode>(refused.code);
    refusal.cause = CauseOf(refused.cause);
    refusal.retry_after = refused.retry_after;
    refusal.queue_length = refused.queue_length;
    return client::AcquireResult{resource, request_id, refusal, {}};
  }
  Result operator()(const core::Renewed& renewed) const {
    return client::RenewResult{resource, client::Renewed{renewed.ttl, renewed.remaining}, {}};
  }
  Result operator()(const core::NotRenewed& not_renewed) const {
    return client::RenewResult{
        resource,
        client::NotRenewed{CauseOf(not_renewed.cause), not_renewed.remaining, not_renewed.reason},
        {}};
  }
  Result operator()(const core::Released& released) const {
    return client::ReleaseResult{resource, released.released, CauseOf(released.cause)};
  }
  Result operator()(const core::Cancelled& cancelled) const {
    return client::CancelResult{resource, static_cast<client::CancelOutcome>(cancelled.result)};
  }
  Result operator()(const core::SessionOpened& opened) const {
    return client::OpenSessionResult{
        request_id,
        client::SessionOpened{ToHex(opened.session_id), {}, opened.ttl, opened.remaining},
        {}};
  }
  Result operator()(const core::SessionRefused& refused) const {
    return client::OpenSessionResult{
        request_id,
        client::SessionRefused{static_cast<client::SessionRefusal>(refused.reason), refused.limit},
        {}};
  }
  Result operator()(const core::SessionKept& kept) const {
    return client::KeepAliveResult{
        kept.alive, kept.remaining, CauseOf(kept.cause), kept.revocations, {}};
  }
  Result operator()(const core::SessionClosed& closed) const {
    return client::CloseSessionResult{closed.closed, CauseOf(closed.cause)};
  }
  template <typename Other>
  Result operator()(const Other&) const {
    return std::nullopt;
  }
};

}  // namespace

core::Command CommandOf(const client::Request& request, const std::string& principal) {
  core::CommandBody body = std::visit(
      Overloaded{
          [](const client::AcquireRequest& r) -> core::CommandBody { return AcquireFrom(r); },
          [](const client::RenewRequest& r) -> core::CommandBody {
            return core::Renew{r.resource, IdOf(r.lease_id)};
          },
          [](const client::ReleaseRequest& r) -> core::CommandBody {
            return core::Release{r.resource, IdOf(r.lease_id)};
          },
          [](const client::CancelRequest& r) -> core::CommandBody {
            return core::Cancel{r.resource, r.request_id, r.owner, ContextOf(r.context)};
          },
          [](const client::OpenSessionRequest& r) -> core::CommandBody {
            core::OpenSession open;
            open.request_id = r.request_id;
            open.owner = r.owner;
            open.ttl = r.ttl.value_or(Duration::zero());
            open.client = ContextOf(r.context);
            return open;
          },
          [](const client::KeepAliveRequest& r) -> core::CommandBody {
            return core::KeepAlive{IdOf(r.session_id)};
          },
          [](const client::CloseSessionRequest& r) -> core::CommandBody {
            return core::CloseSession{IdOf(r.session_id)};
          },
          [](const auto&) -> core::CommandBody {
            HF_CHECK(false, "simulated clients do not ask that");
            return core::Renew{};
          }},
      request);
  return core::Command{principal, kNamespace, std::move(body)};
}

std::variant<client::Reply, client::Failure> ReplyOf(const client::Request& request,
                                                     const engine::Reply& reply) {
  if (const auto* error = std::get_if<Error>(&reply.answer); error != nullptr) {
    return FailureOf(*error);
  }
  std::string resource;
  std::string request_id;
  std::visit(Overloaded{[&](const client::AcquireRequest& r) {
                          resource = r.resource;
                          request_id = r.request_id;
                        },
                        [&](const client::RenewRequest& r) { resource = r.resource; },
                        [&](const client::ReleaseRequest& r) { resource = r.resource; },
                        [&](const client::CancelRequest& r) { resource = r.resource; },
                        [&](const client::OpenSessionRequest& r) { request_id = r.request_id; },
                        [](const auto&) {}},
             request);
  const auto* outcome = std::get_if<core::Outcome>(&reply.answer);
  HF_CHECK(outcome != nullptr, "commands have outcomes");
  std::optional<client::Reply> answer = std::visit(Answer{resource, request_id}, *outcome);
  HF_CHECK(answer.has_value(), "an outcome of what simulated clients ask");
  return std::move(*answer);
}

}  // namespace holdfast::sim
