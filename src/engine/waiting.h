// Which request waits as which waiter of the state, so that its late answer finds it, and a
// vanished client's waiter is detached.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/command.h"
#include "engine/admission.h"

namespace holdfast::engine {

// Not thread-safe.
class Waiting {
 public:
  // The request `to` now waits as `waiter`. Gives the request that waited as it before (on an older
  // attachment), if any.
  std::optional<ReplyTo> Add(core::WaiterId waiter, std::uint64_t attachment, const ReplyTo& to);
  // The waiter was decided at this attachment: gives the request to answer, if it is still here.
  std::optional<ReplyTo> Resolve(core::WaiterId waiter, std::uint64_t attachment);
  // The client behind the request is gone: gives the command that detaches its waiter.
  std::optional<core::Detach> Abandon(const ReplyTo& to);
  // All requests of a front, in order of their waiters.
  std::vector<ReplyTo> Of(FrontId front) const;
  // Every request, in order of their waiters.
  std::vector<ReplyTo> All() const;
  std::size_t size() const { return by_waiter_.size(); }

 private:
  struct Entry {
    std::uint64_t attachment = 0;
    ReplyTo to;
  };
  absl::flat_hash_map<core::WaiterId, Entry> by_waiter_;
  absl::flat_hash_map<ReplyTo, core::WaiterId> by_request_;
};

}  // namespace holdfast::engine
