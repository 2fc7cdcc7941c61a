// A lock (or a leadership) that is kept alive in the background, and the work that is done under
// it. Made by Client::Lock and Session::Lock. Methods are thread-safe. Callbacks run on the
// client's one background thread, in order, and must neither block nor call blocking methods of the
// client: while one runs, nothing is renewed.
//
// Two promises of this class, however it is used: nothing is renewed once the lease is given back,
// and the lease is not given back while a Work lives.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>

#include "holdfast/export.h"
#include "holdfast/states.h"

namespace holdfast::client {

class Work;

class HOLDFAST_API Hold {
 public:
  class Impl;
  explicit Hold(std::shared_ptr<Impl> impl);
  // As Release, without waiting for the answer; the client goes on trying for its `timeout`, or
  // until it is destroyed. No callback starts after this returns; not to be called inside one.
  ~Hold();
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  // Gate for new work: false at or after the local deadline, after Release, and before it is held.
  bool EnsureHeld() const;
  // To be sent with everything that is done under the lock; 0 before it is granted.
  std::uint64_t fencing_token() const;
  LockUpdate Current() const;

  // For work that must not be cut off by a Release in another thread: nothing if EnsureHeld() says
  // no.
  std::optional<Work> BeginWork();
  // Stop is requested when work has to end: at Release and at the local deadline, whichever is
  // first. Stop callbacks run on the releasing or on the background thread and must not block.
  std::stop_token stop_token() const;

  // Blocks until the lock is held, or is final without having been held.
  LockUpdate WaitUntilAcquired();
  // Blocks until the state is final.
  LockUpdate WaitUntilOver();
  // No new work begins, and when the last Work has ended the lease is given back. Withdraws the
  // acquire if it is not granted yet. Returns at once; the updates tell the rest.
  void Release();

 private:
  std::shared_ptr<Impl> impl_;
};

// Something that is being done under a hold. As long as it lives the lease is renewed and is not
// released; it can still be lost. Must be gone before the client is. For one thread at a time.
class HOLDFAST_API Work {
 public:
  Work(Work&& other) noexcept = default;
  Work& operator=(Work&& other) noexcept;
  ~Work();

  // Gate for each further step: false at or after the local deadline. A Release does not change it.
  bool EnsureHeld() const;
  std::uint64_t fencing_token() const;
  const std::string& resource() const;
  // As Hold::stop_token.
  std::stop_token stop_token() const;

 private:
  friend class Hold;
  explicit Work(std::shared_ptr<Hold::Impl> impl) : impl_(std::move(impl)) {}
  void End();

  std::shared_ptr<Hold::Impl> impl_;
};

}  // namespace holdfast::client
