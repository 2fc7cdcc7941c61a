#include "engine/recovery.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "codec/batch_codec.h"
#include "core/limits.h"

namespace holdfast::engine {
namespace {

constexpr std::size_t kReadBytes = std::size_t{4} << 20U;

struct Loaded {
  std::unique_ptr<core::Machine> machine;
  journal::SnapshotHeader header;
};

Result<Loaded> LoadSnapshot(journal::SnapshotStore& store, std::uint64_t index) {
  Result<journal::Snapshot> snapshot = store.Load(index);
  if (!snapshot.ok()) {
    return snapshot.error();
  }
  Result<std::unique_ptr<core::Machine>> machine = core::Machine::Load(snapshot->payload);
  if (!machine.ok()) {
    return machine.error();
  }
  return Loaded{std::move(machine.value()), snapshot->header};
}

// The newest that loads; an empty state without any.
Result<Loaded> LoadNewest(journal::SnapshotStore& store) {
  Result<std::vector<std::uint64_t>> indexes = store.List();
  if (!indexes.ok()) {
    return indexes.error();
  }
  for (auto index = indexes->rbegin(); index != indexes->rend(); ++index) {
    Result<Loaded> loaded = LoadSnapshot(store, *index);
    if (loaded.ok() || loaded.error().code == ErrorCode::kUnsupported) {
      return loaded;
    }
    log::Error("snapshot passed over index={} error=\"{}\"", *index, loaded.error().message);
  }
  return Loaded{std::make_unique<core::Machine>(), {}};
}

}  // namespace

Result<Recovered> Recover(storage::FileSystem& files, const std::string& directory,
                          const journal::FileJournalOptions& options) {
  Loaded loaded{std::make_unique<core::Machine>(), {}};
  if (files.Exists(directory)) {
    journal::SnapshotStore store(files, directory);
    Result<Loaded> newest = LoadNewest(store);
    if (!newest.ok()) {
      return newest.error();
    }
    loaded = std::move(newest.value());
  }
  Result<std::unique_ptr<journal::FileJournal>> opened =
      journal::FileJournal::Open(files, directory, loaded.header, options);
  if (!opened.ok()) {
    return opened.error();
  }
  Recovered recovered{std::move(loaded.machine), std::move(opened.value()), loaded.header};
  Replayer replayer(*recovered.machine);
  const std::uint64_t last = recovered.journal->Last().index;
  for (std::uint64_t index = loaded.header.index + 1; index <= last;) {
    const Result<std::vector<journal::Entry>> entries = recovered.journal->Read(index, kReadBytes);
    if (!entries.ok()) {
      return entries.error();
    }
    for (const journal::Entry& entry : *entries) {
      if (Status fed = replayer.Feed(entry); !fed.ok()) {
        return fed.error().WithContext("entry " + std::to_string(entry.index));
      }
    }
    index = entries->back().index + 1;
  }
  log::Info("recovered snapshot={} last_index={} state_time_ms={} token={}", loaded.header.index,
            last, ToMillis(recovered.machine->now().time_since_epoch()),
            recovered.machine->last_token());
  return recovered;
}

Status Replayer::Feed(const journal::Entry& entry) {
  completed_ = false;
  if (entry.fragment == 0) {
    bytes_.clear();
    next_fragment_ = 0;
  }
  if (entry.fragment != next_fragment_) {
    return {};  // the rest of a run whose beginning is void
  }
  bytes_ += entry.payload;
  ++next_fragment_;
  if (next_fragment_ < entry.fragments) {
    return {};
  }
  Result<codec::DecodedBatch> decoded = codec::DecodeBatch(bytes_);
  if (!decoded.ok()) {
    return decoded.error();
  }
  decoded->batch.index = entry.index;
  if (decoded->batch.time < machine_.now() || decoded->batch.epoch < machine_.epoch() ||
      decoded->batch.time - machine_.now() > core::kTimeStepMax) {
    return Error{ErrorCode::kCorrupt, "a batch does not follow the one before it", {}, {}};
  }
  batch_ = std::move(decoded->batch);
  machine_.Apply(batch_, applied_);
  completed_ = true;
  bytes_.clear();
  next_fragment_ = 0;
  return {};
}

}  // namespace holdfast::engine
