#include "core_load.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "base/id.h"

namespace holdfast::bench {
namespace {

constexpr std::size_t kClients = 256;
// Resources are taken in an order that is far from the order of their names.
constexpr std::uint64_t kStride = 7919;

Id128 LeaseId(std::uint64_t number) {
  return Hash128(std::to_string(number));  // spread over the whole id, as random ones are
}

core::Command Wrap(core::CommandBody body) {
  return core::Command{"anonymous", "default", std::move(body)};
}

}  // namespace

CoreLoad::CoreLoad(std::size_t resources, Memory memory) : memory_(memory) {
  HF_CHECK(resources % kStride != 0 && resources >= 2 * kBatchPairs, "every resource has its turn");
  for (std::size_t i = 0; i < resources; ++i) {
    resources_.push_back(fmt::format("bench/resource-{}", i));
  }
  for (std::size_t i = 0; i < kClients; ++i) {
    clients_.push_back(ToHex(LeaseId(i)));
  }
  sequences_.resize(kClients);
}

core::Batch CoreLoad::Stamp(Duration step) {
  time_ += step;
  core::Batch batch;
  batch.index = ++index_;
  batch.epoch = 1;
  batch.time = time_;
  batch.wall = WallTime(Seconds(1'800'000'000) + time_.time_since_epoch());
  return batch;
}

core::Command CoreLoad::NewAcquire(Duration ttl) {
  const std::uint64_t number = acquires_++;
  const std::size_t client = static_cast<std::size_t>(number % kClients);
  const std::uint64_t sequence = ++sequences_[client];
  core::Acquire acquire;
  acquire.resource = resources_[static_cast<std::size_t>(number * kStride % resources_.size())];
  acquire.request_id = fmt::format("{}{:016x}", clients_[client], sequence);
  acquire.owner = "bench";
  acquire.ttl = ttl;
  acquire.lease_id = LeaseId(number);
  if (memory_ == Memory::kWatermark) {
    acquire.client = {clients_[client], sequence, sequence};
  }
  return Wrap(std::move(acquire));
}

const core::Batch& CoreLoad::NextPairs(Duration step) {
  batch_ = Stamp(step);
  for (core::Release& release : held_) {
    batch_.commands.push_back(Wrap(std::move(release)));
  }
  held_.clear();
  for (std::size_t i = 0; i < kBatchPairs; ++i) {
    batch_.commands.push_back(NewAcquire(Seconds(30)));
    const auto& acquire = std::get<core::Acquire>(batch_.commands.back().body);
    held_.push_back({acquire.resource, acquire.lease_id});
  }
  return batch_;
}

core::Batch CoreLoad::Acquires(std::size_t count, Duration ttl) {
  core::Batch batch = Stamp(Millis(1));
  for (std::size_t i = 0; i < count; ++i) {
    batch.commands.push_back(NewAcquire(ttl));
  }
  return batch;
}

core::Batch CoreLoad::Renewals(const core::Batch& acquires) {
  core::Batch batch = Stamp(Millis(1));
  for (const core::Command& command : acquires.commands) {
    const auto& acquire = std::get<core::Acquire>(command.body);
    batch.commands.push_back(Wrap(core::Renew{acquire.resource, acquire.lease_id}));
  }
  return batch;
}

core::Batch CoreLoad::Tick(Duration step) {
  return Stamp(step);
}

void Fill(core::Machine& machine, const MachineSize& size) {
  CoreLoad load(size.resources, Memory::kRemembered);
  core::Applied applied;
  for (std::size_t done = 0; done < size.request_ids - size.holds; done += CoreLoad::kBatchPairs) {
    machine.Apply(load.NextPairs(Duration(1000)), applied);
  }
  for (std::size_t held = 0; held < size.holds;) {
    const std::size_t count = std::min<std::size_t>(size.holds - held, 1000);
    machine.Apply(load.Acquires(count, Seconds(600)), applied);
    for (const core::Outcome& outcome : applied.outcomes) {
      HF_CHECK(std::holds_alternative<core::Granted>(outcome), "the resource was free");
    }
    held += count;
  }
}

}  // namespace holdfast::bench
