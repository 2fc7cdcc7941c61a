#include "holdfast/session.h"

#include <utility>

#include "client/acquire_all.h"
#include "client/hold_impl.h"
#include "client/session_flow.h"

namespace holdfast::client {

std::unique_ptr<Session> StartSession(Runner& runner, const SessionGoal& goal,
                                      const FlowOptions& options, SessionCallback on_update) {
  auto impl = std::make_shared<Session::Impl>(runner, options, std::move(on_update));
  runner.Post([impl, goal] {
    Runner& owner = impl->runner;
    auto session = std::make_shared<SessionFlow>(
        owner.shared(), goal, impl->options,
        [impl](const SessionUpdate& update) {
          if (update.state != impl->published.Current().state) {
            impl->runner.Count(update);
          }
          impl->published.Publish(update);
        },
        owner.Now());
    impl->session = session;
    impl->published.Publish(session->current());
    owner.Add(std::move(session));
  });
  return std::make_unique<Session>(std::move(impl));
}

Session::Session(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Session::~Session() {
  impl_->published.StopCallbacks();
  Close();
}

SessionUpdate Session::Current() const {
  return impl_->published.Current();
}

SessionUpdate Session::WaitUntilOpen() {
  return impl_->published.WaitFor(
      [](SessionState state) { return state == SessionState::kSafe || IsFinal(state); });
}

SessionUpdate Session::WaitUntilOver() {
  return impl_->published.WaitFor([](SessionState state) { return IsFinal(state); });
}

std::unique_ptr<Hold> Session::Lock(const LockGoal& goal, LockCallback on_update) {
  auto lock =
      std::make_shared<Hold::Impl>(impl_->runner, goal.acquire.resource, std::move(on_update));
  impl_->runner.Post([impl = impl_, lock, goal] {
    std::shared_ptr<SessionFlow> session = impl->session.lock();
    if (session == nullptr || (session->current().state != SessionState::kSafe &&
                               session->current().state != SessionState::kJeopardy)) {
      LockUpdate update;
      update.state = LockState::kNotAcquired;
      update.resource = goal.acquire.resource;
      update.refusal = Refusal{};
      update.refusal->code = RefusalCode::kSessionEnded;
      lock->Publish(update);
      return;
    }
    LockGoal on_session = goal;
    on_session.acquire.session_id = session->current().session_id;
    on_session.acquire.namespace_name = session->namespace_name();
    StartFlow(lock, on_session, impl->options, std::move(session));
  });
  return std::make_unique<Hold>(std::move(lock));
}

AcquireAllResult Session::AcquireAll(const AcquireAllGoal& goal) {
  return AcquireInOrder(
      goal, [this] { return impl_->runner.Now(); },
      [this](const LockGoal& one) { return Lock(one); });
}

void Session::Close() {
  impl_->runner.Post([impl = impl_] {
    if (const auto session = impl->session.lock()) {
      session->Close(impl->runner.Now());
      impl->runner.Touch(*session);
    }
  });
}

}  // namespace holdfast::client
