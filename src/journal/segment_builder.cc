#include "journal/segment_builder.h"

#include <utility>

namespace holdfast::journal {
namespace {

// Large enough to write fast, small enough that a reader finds an entry without reading much else.
constexpr std::size_t kGroupBytes = std::size_t{64} << 10U;

}  // namespace

SegmentHeader HeaderBehind(const SnapshotHeader& snapshot, const Id128& log_id,
                           std::uint64_t last_index) {
  SegmentHeader header;
  header.log_id = log_id;
  header.first_index = snapshot.index + 1;
  header.previous_hash = snapshot.entry_hash;
  header.previous_epoch = snapshot.epoch;
  header.previous_time = snapshot.time;
  header.synced_index = last_index;
  return header;
}

Result<SegmentBuilder> SegmentBuilder::Create(storage::FileSystem& files, const std::string& path,
                                              const SegmentHeader& header) {
  auto writer = SegmentWriter::Create(files, path, 0);
  if (!writer.ok()) {
    return writer.error();
  }
  writer->Start(header);
  if (Status written = writer->WriteHeader(); !written.ok()) {
    return written.error();
  }
  return SegmentBuilder(std::move(*writer));
}

Status SegmentBuilder::Add(Entry entry) {
  group_bytes_ += entry.payload.size();
  group_.push_back(std::move(entry));
  return group_bytes_ >= kGroupBytes ? Flush() : Status();
}

Status SegmentBuilder::Flush() {
  Status written = writer_.WriteGroup(group_, group_.front().index - 1);
  group_.clear();
  group_bytes_ = 0;
  return written;
}

Status SegmentBuilder::Finish() {
  Status done = group_.empty() ? Status() : Flush();
  return done.ok() ? writer_.Sync() : done;
}

}  // namespace holdfast::journal
