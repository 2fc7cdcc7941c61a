#include "holdfast/hold.h"

#include <utility>

#include "client/hold_impl.h"

namespace holdfast::client {
namespace {

// Background thread. The machine keeps `impl` alive, and the runner keeps the machine until it is
// done.
void StartFlow(const std::shared_ptr<Hold::Impl>& impl, const LockGoal& goal,
               const FlowOptions& options, std::shared_ptr<SessionFlow> session) {
  Runner& runner = impl->runner;
  const auto on_update = [impl](const LockUpdate& update) {
    impl->published.Publish(update);
    if (IsFinal(update.state)) {
      // It may have ended with its session, and then nobody else looks after it.
      impl->runner.Post([impl] {
        if (const auto ended = impl->flow.lock()) {
          impl->runner.Touch(*ended);
        }
      });
    }
  };
  auto flow = std::make_shared<LockFlow>(runner.shared(), goal, options, std::move(session),
                                         on_update, runner.Now());
  impl->flow = flow;
  impl->published.Publish(flow->current());
  runner.Add(std::move(flow));
}

}  // namespace

std::unique_ptr<Hold> StartLock(Runner& runner, const LockGoal& goal, const FlowOptions& options,
                                LockCallback on_update) {
  auto impl = std::make_shared<Hold::Impl>(runner, std::move(on_update));
  runner.Post([impl, goal, options] { StartFlow(impl, goal, options, nullptr); });
  return std::make_unique<Hold>(std::move(impl));
}

Hold::Hold(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Hold::~Hold() {
  impl_->published.StopCallbacks();
  Release();
}

bool Hold::EnsureHeld() const {
  const LockUpdate update = impl_->published.Current();
  const bool held = update.state == LockState::kHeld || update.state == LockState::kRevoking;
  return held && !impl_->released.load() && impl_->runner.Now() < update.deadline;
}

LockUpdate Hold::Current() const {
  return impl_->published.Current();
}

LockUpdate Hold::WaitUntilAcquired() {
  return impl_->published.WaitFor([](LockState state) {
    return state != LockState::kAcquiring && state != LockState::kConfirming;
  });
}

LockUpdate Hold::WaitUntilOver() {
  return impl_->published.WaitFor([](LockState state) { return IsFinal(state); });
}

void Hold::Release() {
  if (impl_->released.exchange(true) || IsFinal(Current().state)) {
    return;
  }
  impl_->runner.Post([impl = impl_] {
    if (const auto flow = impl->flow.lock()) {
      flow->Release(impl->runner.Now());
      impl->runner.Touch(*flow);
    }
  });
}

std::unique_ptr<Session> StartSession(Runner& runner, const SessionGoal& goal,
                                      const FlowOptions& options, SessionCallback on_update) {
  auto impl = std::make_shared<Session::Impl>(runner, options, std::move(on_update));
  runner.Post([impl, goal] {
    Runner& owner = impl->runner;
    auto session = std::make_shared<SessionFlow>(
        owner.shared(), goal, impl->options,
        [impl](const SessionUpdate& update) { impl->published.Publish(update); }, owner.Now());
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
  auto lock = std::make_shared<Hold::Impl>(impl_->runner, std::move(on_update));
  impl_->runner.Post([impl = impl_, lock, goal] {
    const std::shared_ptr<SessionFlow> session = impl->session.lock();
    if (session == nullptr || (session->current().state != SessionState::kSafe &&
                               session->current().state != SessionState::kJeopardy)) {
      LockUpdate update;
      update.state = LockState::kNotAcquired;
      update.resource = goal.acquire.resource;
      update.refusal = Refusal{};
      update.refusal->code = RefusalCode::kSessionEnded;
      lock->published.Publish(update);
      return;
    }
    LockGoal on_session = goal;
    on_session.acquire.session_id = session->current().session_id;
    on_session.acquire.namespace_name = session->namespace_name();
    StartFlow(lock, on_session, impl->options, session);
  });
  return std::make_unique<Hold>(std::move(lock));
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
