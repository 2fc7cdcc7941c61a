// Call: one RPC that is open, or waits to be opened. It lives on the loop's thread and owns itself:
// it is deleted when the completion queue owes it no event, the engine owes it no reply, and the
// loop has it in no list. So whoever starts something says so (Expect, Loop::Propose,
// Loop::FlushLater), and nothing can be left behind or deleted early.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/front.h"

namespace holdfast::server {

class Loop;

// What a tag of the completion queue points to.
class Completion {
 public:
  virtual void OnCompletion(bool ok) = 0;

 protected:
  ~Completion() = default;
};

class Call {
 public:
  explicit Call(Loop& loop) : loop_(loop) {}
  virtual ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // The answer to a proposal with this cookie.
  virtual void OnReply(std::uint32_t cookie, engine::Reply& reply) = 0;
  // After Loop::FlushLater: everything that this turn had for the call is there.
  virtual void OnTurnEnd() {}
  // After Loop::AddWaiting: the server stops. What may take long must end now.
  virtual void OnStop() {}
  // After Loop::AddWaiting: the loop is closed, and nothing that it owes can be sent any more.
  virtual void OnClose() {}
  // After Loop::AddWakeable: its watch has something.
  virtual void OnWake() {}

 protected:
  // One event of the completion queue, handled by a member function.
  template <typename Owner>
  class Step final : public Completion {
   public:
    Step(Owner& owner, void (Owner::*handle)(bool)) : owner_(owner), handle_(handle) {}
    void OnCompletion(bool ok) override {
      Call& call = owner_;
      --call.owed_;
      (owner_.*handle_)(ok);
      call.Settle();
    }

   private:
    Owner& owner_;
    void (Owner::*handle_)(bool);
  };

  // A tag must be the address of the Completion, whatever its object is.
  static void* TagOf(Completion& step) { return &step; }
  // The tag to start an operation with; only while the loop is open.
  void* Expect(Completion& step) {
    ++owed_;
    return TagOf(step);
  }
  Loop& loop() const { return loop_; }

 private:
  friend class Loop;
  // Deletes the call if nothing refers to it. The caller must not touch it afterwards.
  void Settle();

  Loop& loop_;
  std::size_t owed_ = 0;      // events of the completion queue
  std::size_t requests_ = 0;  // replies of the engine
  std::uint64_t wake_key_ = 0;
  bool flushing_ = false;
  bool waiting_ = false;
};

}  // namespace holdfast::server
