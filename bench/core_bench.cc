// The state machine alone, on one thread. `items_per_second` counts what the name says: pairs,
// renewals, leases, ... Only Apply is timed; making the commands is not.
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <time.h>

#include "base/check.h"
#include "core/machine.h"
#include "core_load.h"

namespace holdfast::bench {
namespace {

using core::Applied;
using core::Batch;
using core::Machine;

// Of this thread's CPU, so that other processes of the machine count as little as possible.
template <typename F>
double SecondsOf(F&& work) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  };
  const double begin = now();
  work();
  return now() - begin;
}

template <typename Wanted>
void CheckAll(const Applied& applied) {
  for (const core::Outcome& outcome : applied.outcomes) {
    HF_CHECK(std::holds_alternative<Wanted>(outcome),
             "an outcome that this benchmark does not mean");
  }
}

void CheckPairs(const Applied& applied) {
  for (const core::Outcome& outcome : applied.outcomes) {
    const auto* released = std::get_if<core::Released>(&outcome);
    HF_CHECK(std::holds_alternative<core::Granted>(outcome) || (released && released->released),
             "a pair failed");
  }
}

// A machine in the middle of its life. Google Benchmark calls a function several times to find its
// number of iterations; what it asks for again goes on where it was.
struct Running {
  Running(std::size_t resources_wanted, Memory memory_wanted)
      : resources(resources_wanted), memory(memory_wanted), load(resources, memory) {}

  const std::size_t resources;
  const Memory memory;
  CoreLoad load;
  Machine machine;
  Applied applied;
};

// Remembered for 600 s at a batch each 64 ms: 1,200,000 ids.
constexpr Duration kStep = Millis(64);

Running& SteadyState(std::size_t resources, Memory memory) {
  static std::unique_ptr<Running> running;
  if (running == nullptr || running->resources != resources || running->memory != memory) {
    running.reset();
    running = std::make_unique<Running>(resources, memory);
    const std::size_t fill = memory == Memory::kWatermark ? 2 * resources : 1'300'000;
    for (std::size_t done = 0; done < fill; done += CoreLoad::kBatchPairs) {
      running->machine.Apply(running->load.NextPairs(kStep), running->applied);
      CheckPairs(running->applied);
    }
  }
  return *running;
}

// Acquire + release pairs. Watermark: 256 clients acknowledge each answer. Remembered: the memory
// of request ids is full and each new one pushes an old one out.
void AcquireRelease(benchmark::State& state, Memory memory) {
  Running& running = SteadyState(static_cast<std::size_t>(state.range(0)), memory);
  for (auto _ : state) {
    const Batch& batch = running.load.NextPairs(kStep);
    state.SetIterationTime(SecondsOf([&] { running.machine.Apply(batch, running.applied); }));
    CheckPairs(running.applied);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(CoreLoad::kBatchPairs));
}
BENCHMARK_CAPTURE(AcquireRelease, watermark, Memory::kWatermark)
    ->Arg(1'000)
    ->Arg(100'000)
    ->Arg(1'000'000)
    ->UseManualTime();
BENCHMARK_CAPTURE(AcquireRelease, remembered, Memory::kRemembered)->Arg(100'000)->UseManualTime();

// Renewals in batches of 256, over 20,000 holds.
void Renew(benchmark::State& state) {
  constexpr std::size_t kHolds = 20'000;
  constexpr std::size_t kBatch = 256;
  CoreLoad load(100'000, Memory::kWatermark);
  Machine machine;
  Applied applied;
  std::vector<Batch> acquires;
  for (std::size_t held = 0; held < kHolds; held += kBatch) {
    acquires.push_back(load.Acquires(kBatch, Seconds(600)));
    machine.Apply(acquires.back(), applied);
    CheckAll<core::Granted>(applied);
  }
  std::size_t next = 0;
  for (auto _ : state) {
    const Batch batch = load.Renewals(acquires[next++ % acquires.size()]);
    state.SetIterationTime(SecondsOf([&] { machine.Apply(batch, applied); }));
    CheckAll<core::Renewed>(applied);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kBatch));
}
BENCHMARK(Renew)->UseManualTime();

// 20,000 leases that end at once, in as many batches as that takes; and the longest single batch.
void ExpireAll(benchmark::State& state) {
  constexpr std::size_t kLeases = 20'000;
  double longest = 0;
  for (auto _ : state) {
    CoreLoad load(100'000, Memory::kWatermark);
    Machine machine;
    Applied applied;
    for (std::size_t held = 0; held < kLeases; held += 1000) {
      machine.Apply(load.Acquires(1000, Seconds(1)), applied);
    }
    machine.Apply(load.Tick(Millis(900)), applied);
    double total = 0;
    std::size_t ended = 0;
    for (Batch tick = load.Tick(Millis(500)); ended < kLeases; tick = load.Tick(Millis(1))) {
      const double took = SecondsOf([&] { machine.Apply(tick, applied); });
      longest = std::max(longest, took);
      total += took;
      ended += applied.events.size();
      HF_CHECK(!applied.events.empty(), "nothing expires any more");
    }
    state.SetIterationTime(total);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kLeases));
  state.counters["longest_batch_ms"] = longest * 1000;
}
BENCHMARK(ExpireAll)->UseManualTime()->Unit(benchmark::kMillisecond);

// One resource handed over from waiter to waiter, with a queue of range(0) behind it.
void HandOver(benchmark::State& state) {
  const auto waiters = static_cast<std::uint64_t>(state.range(0));
  Machine machine;
  Applied applied;
  Batch batch;
  batch.epoch = 1;
  std::uint64_t number = 0;
  Id128 holder{};
  const auto wait = [&batch, &number](Id128 lease) {
    core::Acquire acquire;
    acquire.resource = "bench/one";
    acquire.request_id = std::to_string(++number);
    acquire.client = {"client", number, number};
    acquire.owner = "bench";
    acquire.wait = Seconds(3600);
    acquire.lease_id = lease;
    batch.commands.push_back({"anonymous", "default", std::move(acquire)});
  };
  const auto apply = [&] {
    ++batch.index;
    batch.time += Duration(1000);
    const double took = SecondsOf([&] { machine.Apply(batch, applied); });
    batch.commands.clear();
    return took;
  };
  for (std::uint64_t i = 0; i <= waiters; ++i) {
    wait(Hash128(std::to_string(i)));
  }
  apply();
  holder = std::get<core::Granted>(applied.outcomes.front()).lease_id;
  for (auto _ : state) {
    batch.commands.push_back({"anonymous", "default", core::Release{"bench/one", holder}});
    wait(Hash128(std::to_string(number)));
    state.SetIterationTime(apply());
    HF_CHECK(applied.resolutions.size() == 1, "one waiter is woken");
    holder = std::get<core::Granted>(applied.resolutions.front().outcome).lease_id;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(HandOver)->Arg(1)->Arg(100)->Arg(999)->UseManualTime();

const Machine& FullMachine() {
  static const Machine* machine = [] {
    auto* filled = new Machine;  // lives as long as the process
    Fill(*filled, {});
    return filled;
  }();
  return *machine;
}

// 100,000 resources, 20,000 holds, 1,200,000 remembered request ids.
void SnapshotSave(benchmark::State& state) {
  const Machine& machine = FullMachine();
  std::size_t bytes = 0;
  for (auto _ : state) {
    bytes = 0;
    machine.Save([&bytes](std::string_view piece) { bytes += piece.size(); });
  }
  state.counters["megabytes"] = static_cast<double>(bytes) / 1e6;
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}
BENCHMARK(SnapshotSave)->Unit(benchmark::kMillisecond);

void SnapshotLoad(benchmark::State& state) {
  std::string snapshot;
  FullMachine().Save([&snapshot](std::string_view piece) { snapshot += piece; });
  for (auto _ : state) {
    auto loaded = Machine::Load(snapshot);
    HF_CHECK(loaded.ok(), "a snapshot that was just saved");
    benchmark::DoNotOptimize(*loaded);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(snapshot.size()));
}
BENCHMARK(SnapshotLoad)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace holdfast::bench
