// Commands in the shape that many clients send, for the benchmarks of core and codec.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/command.h"
#include "core/event.h"
#include "core/machine.h"

namespace holdfast::bench {

// Whether acquires carry a client context, which lets the core forget their request ids early.
enum class Memory { kWatermark, kRemembered };

class CoreLoad {
 public:
  static constexpr std::size_t kBatchPairs = 128;

  CoreLoad(std::size_t resources, Memory memory);

  // The next batch: kBatchPairs acquires of free resources, each from another client, and releases
  // of what the batch before was granted. Nothing waits, nothing is refused. `step`: how far it
  // moves state time.
  const core::Batch& NextPairs(Duration step);
  // Acquires the next `count` resources for good, with this ttl.
  core::Batch Acquires(std::size_t count, Duration ttl);
  // Renewals of the leases of an Acquires batch.
  core::Batch Renewals(const core::Batch& acquires);
  // An empty batch `step` later.
  core::Batch Tick(Duration step);

 private:
  core::Command NewAcquire(Duration ttl);
  core::Batch Stamp(Duration step);

  const Memory memory_;
  std::vector<std::string> resources_;
  std::vector<std::string> clients_;
  std::vector<std::uint64_t> sequences_;
  std::uint64_t acquires_ = 0;
  core::Batch batch_;
  std::vector<core::Release> held_;
  std::uint64_t index_ = 0;
  Timestamp time_{};
};

// A machine with this many resources that were used, `holds` of them held for an hour, and
// `request_ids` remembered.
struct MachineSize {
  std::size_t resources = 100'000;
  std::size_t holds = 20'000;
  std::size_t request_ids = 1'200'000;
};
void Fill(core::Machine& machine, const MachineSize& size);

}  // namespace holdfast::bench
