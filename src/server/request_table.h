// The requests that a front has in the engine, by tag. A tag is never used twice, so a reply that
// was under way when its request was abandoned finds nothing. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/time.h"

namespace holdfast::server {

class Call;

class RequestTable {
 public:
  struct Request {
    Call* call = nullptr;
    std::uint32_t cookie = 0;  // the call's own
    std::uint8_t verb = 0;     // for the meter, as is the time of its arrival
    BootTime arrived{};
  };

  // The tag, never 0.
  std::uint64_t Add(const Request& request) {
    std::uint32_t slot = 0;
    if (free_.empty()) {
      slot = static_cast<std::uint32_t>(slots_.size());
      slots_.emplace_back();
    } else {
      slot = free_.back();
      free_.pop_back();
    }
    slots_[slot].request = request;
    return (std::uint64_t{slots_[slot].generation} << 32U) | slot;
  }

  // Takes the request out; nothing if it is not there (any more).
  std::optional<Request> Remove(std::uint64_t tag) {
    const auto slot = static_cast<std::uint32_t>(tag);
    if (slot >= slots_.size() || slots_[slot].generation != tag >> 32U ||
        slots_[slot].request.call == nullptr) {
      return std::nullopt;
    }
    const Request request = slots_[slot].request;
    slots_[slot].request = {};
    ++slots_[slot].generation;
    free_.push_back(slot);
    return request;
  }

  std::size_t size() const { return slots_.size() - free_.size(); }

  std::vector<std::uint64_t> Tags() const {
    std::vector<std::uint64_t> tags;
    for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
      if (slots_[slot].request.call != nullptr) {
        tags.push_back((std::uint64_t{slots_[slot].generation} << 32U) | slot);
      }
    }
    return tags;
  }

 private:
  struct Slot {
    Request request;
    std::uint32_t generation = 1;
  };
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace holdfast::server
