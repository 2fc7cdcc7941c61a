// Batches to bytes and back, on one thread. `items_per_second` counts commands.
#include <cstdint>
#include <vector>

#include <benchmark/benchmark.h>

#include "base/check.h"
#include "codec/batch_codec.h"
#include "core_load.h"

namespace holdfast::bench {
namespace {

const core::Batch& MixedBatch() {
  static CoreLoad load(100'000, Memory::kWatermark);
  static const core::Batch batch = [] {
    load.NextPairs(Millis(1));
    return load.NextPairs(Millis(1));  // acquires and releases
  }();
  return batch;
}

void Encode(benchmark::State& state) {
  const core::Batch& batch = MixedBatch();
  ByteWriter out;
  for (auto _ : state) {
    out.Clear();
    codec::EncodeBatch(batch, 1, out);
    benchmark::DoNotOptimize(out.bytes().data());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(batch.commands.size()));
  state.counters["bytes_per_command"] =
      static_cast<double>(out.size()) / static_cast<double>(batch.commands.size());
}
BENCHMARK(Encode);

void Decode(benchmark::State& state) {
  const core::Batch& batch = MixedBatch();
  ByteWriter out;
  codec::EncodeBatch(batch, 1, out);
  for (auto _ : state) {
    auto decoded = codec::DecodeBatch(out.bytes());
    HF_CHECK(decoded.ok(), "a batch that was just encoded");
    benchmark::DoNotOptimize(*decoded);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(batch.commands.size()));
}
BENCHMARK(Decode);

void SizeBound(benchmark::State& state) {
  const core::Batch& batch = MixedBatch();
  for (auto _ : state) {
    std::size_t bytes = 0;
    for (const core::Command& command : batch.commands) {
      bytes += codec::EncodedSizeBound(command);
    }
    benchmark::DoNotOptimize(bytes);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(batch.commands.size()));
}
BENCHMARK(SizeBound);

}  // namespace
}  // namespace holdfast::bench
