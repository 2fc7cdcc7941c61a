#include "holdfast/hold.h"

#include <utility>

#include "client/hold_impl.h"

namespace holdfast::client {

void StartFlow(const std::shared_ptr<Hold::Impl>& hold, const LockGoal& goal,
               const FlowOptions& options, std::shared_ptr<SessionFlow> session) {
  Runner& runner = hold->runner;
  // The machine keeps `hold` alive, and the runner keeps the machine until it is done.
  const auto on_update = [hold](const LockUpdate& update) {
    hold->Publish(update);
    if (IsFinal(update.state)) {
      // It may have ended with its session, and then nobody else looks after it.
      hold->runner.Post([hold] {
        if (const auto ended = hold->flow.lock()) {
          hold->runner.Touch(*ended);
        }
      });
    }
  };
  auto flow = std::make_shared<LockFlow>(runner.shared(), goal, options, std::move(session),
                                         on_update, runner.Now());
  hold->flow = flow;
  hold->published.Publish(flow->current());
  runner.Add(std::move(flow));
}

std::unique_ptr<Hold> StartLock(Runner& runner, const LockGoal& goal, const FlowOptions& options,
                                LockCallback on_update) {
  auto impl = std::make_shared<Hold::Impl>(runner, goal.acquire.resource, std::move(on_update));
  runner.Post([impl, goal, options] { StartFlow(impl, goal, options, nullptr); });
  return std::make_unique<Hold>(std::move(impl));
}

void Hold::Impl::Publish(const LockUpdate& update) {
  if (update.state != published.Current().state) {
    runner.Count(update);
  }
  if (IsFinal(update.state)) {
    stop.request_stop();
  }
  published.Publish(update);
}

bool Hold::Impl::IsHeld() const {
  const LockUpdate update = published.Current();
  const bool held = update.state == LockState::kHeld || update.state == LockState::kRevoking;
  return held && runner.Now() < update.deadline;
}

bool Hold::Impl::BeginWork() {
  if (!IsHeld()) {
    return false;
  }
  const std::lock_guard lock(mutex_);
  if (released_) {
    return false;
  }
  ++works_;
  return true;
}

void Hold::Impl::EndWork() {
  bool last = false;
  {
    const std::lock_guard lock(mutex_);
    --works_;
    last = works_ == 0 && released_;
  }
  if (last) {
    GiveBack();
  }
}

void Hold::Impl::Release() {
  bool idle = false;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(released_, true)) {
      return;
    }
    idle = works_ == 0;
  }
  stop.request_stop();
  if (idle) {
    GiveBack();
  }
}

bool Hold::Impl::released() const {
  const std::lock_guard lock(mutex_);
  return released_;
}

void Hold::Impl::GiveBack() {
  runner.Post([impl = shared_from_this()] {
    if (const auto ending = impl->flow.lock()) {
      ending->Release(impl->runner.Now());
      impl->runner.Touch(*ending);
    }
  });
}

Hold::Hold(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Hold::~Hold() {
  impl_->published.StopCallbacks();
  Release();
}

bool Hold::EnsureHeld() const {
  return impl_->IsHeld() && !impl_->released();
}

std::uint64_t Hold::fencing_token() const {
  const LockUpdate update = Current();
  return update.grant.has_value() ? update.grant->fencing_token : 0;
}

LockUpdate Hold::Current() const {
  return impl_->published.Current();
}

std::optional<Work> Hold::BeginWork() {
  if (!impl_->BeginWork()) {
    return std::nullopt;
  }
  return Work(impl_);
}

std::stop_token Hold::stop_token() const {
  return impl_->stop.get_token();
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
  impl_->Release();
}

Work& Work::operator=(Work&& other) noexcept {
  if (this != &other) {
    End();
    impl_ = std::move(other.impl_);
  }
  return *this;
}

Work::~Work() {
  End();
}

void Work::End() {
  if (const auto ending = std::exchange(impl_, nullptr)) {
    ending->EndWork();
  }
}

bool Work::EnsureHeld() const {
  return impl_->IsHeld();
}

std::uint64_t Work::fencing_token() const {
  return impl_->published.Current().grant->fencing_token;
}

const std::string& Work::resource() const {
  return impl_->resource;
}

std::stop_token Work::stop_token() const {
  return impl_->stop.get_token();
}

}  // namespace holdfast::client
