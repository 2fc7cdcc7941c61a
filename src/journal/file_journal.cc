#include "journal/file_journal.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "base/check.h"
#include "base/log.h"
#include "base/planted.h"
#include "journal/chain.h"
#include "journal/identity.h"
#include "journal/layout.h"
#include "journal/log_walk.h"
#include "journal/segment_reader.h"
#include "journal/segment_writer.h"
#include "journal/startup.h"

namespace holdfast::journal {
namespace {

// A segment as Read sees it.
struct Segment {
  std::string name;
  SegmentHeader header;
  std::shared_ptr<const storage::File> file;
  std::uint64_t end_sector = 1;
  std::vector<IndexMark> marks;
};

class SegmentedJournal final : public FileJournal {
 public:
  SegmentedJournal(storage::FileSystem& files, std::string directory, FileJournalOptions options,
                   OpenedLog opened)
      : files_(files),
        directory_(std::move(directory)),
        options_(std::move(options)),
        lock_(std::move(opened.lock)),
        identity_(opened.identity),
        writer_(std::move(opened.tail)),
        end_(opened.end) {
    for (OpenedSegment& segment : opened.segments) {
      segments_.push_back(Segment{std::move(segment.walked.name), segment.walked.header,
                                  std::move(segment.file), segment.walked.end_sector,
                                  std::move(segment.walked.marks)});
    }
  }

  Position Last() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return end_.last;
  }

  std::uint64_t FirstIndex() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return segments_.front().header.first_index;
  }

  Status Append(const std::vector<Entry>& entries) override;
  Result<std::vector<Entry>> Read(std::uint64_t index, std::size_t bytes_max) const override;
  Status Trim(std::uint64_t index) override;
  Status PrepareSegment() override;

  JournalStats Stats() const override {
    JournalStats stats;
    stats.appends = appends_.load(std::memory_order_relaxed);
    stats.bytes_appended = bytes_appended_.load(std::memory_order_relaxed);
    stats.syncs = syncs_.load(std::memory_order_relaxed);
    stats.sync_seconds = sync_seconds_.Read();
    const std::lock_guard<std::mutex> lock(mutex_);
    stats.segments = segments_.size();
    return stats;
  }

  Id128 LogId() const override { return identity_.log_id; }
  std::uint64_t TokenFloor() const override { return identity_.token_floor; }
  bool Recovered() const override { return identity_.state == DirectoryState::kRecovered; }
  Status ClearRecovery() override;

 private:
  Status AppendToNewSegment(const std::vector<Entry>& entries, const ChainEnd& end);
  Result<SegmentWriter> TakeBlankSegment();
  // Moves the end of the log over `entries`, which are durable now, in the group at `sector`.
  void Commit(const std::vector<Entry>& entries, const ChainEnd& end, std::uint64_t sector);
  Status SyncWriter(SegmentWriter& writer);
  Error SyncFailed(const Error& error);
  Status FailedBefore() const;

  storage::FileSystem& files_;
  const std::string directory_;
  const FileJournalOptions options_;
  const std::unique_ptr<storage::DirectoryLock> lock_;
  DirectoryIdentity identity_;  // only `state` changes, by ClearRecovery

  // Used by Append only.
  SegmentWriter writer_;

  mutable std::mutex mutex_;  // guards the following; never held over I/O
  ChainEnd end_;
  std::vector<Segment> segments_;          // never empty; the last one is being written
  std::optional<SegmentWriter> prepared_;  // the next one
  bool preparing_ = false;
  std::uint64_t blanks_made_ = 0;  // for names
  std::optional<Error> sync_failure_;

  std::atomic<std::uint64_t> appends_{0};
  std::atomic<std::uint64_t> bytes_appended_{0};
  std::atomic<std::uint64_t> syncs_{0};
  Histogram sync_seconds_{kLatencyBounds};
};

Status SegmentedJournal::Append(const std::vector<Entry>& entries) {
  if (Status failed = FailedBefore(); !failed.ok()) {
    return failed;
  }
  const ChainEnd end = CheckedAdvance(end_, entries);  // only this thread changes end_
  if (entries.empty()) {
    return {};
  }
  const bool has_entries = writer_.header().first_index <= end_.last.index;
  const std::uint64_t bytes = writer_.end_sector() * kSectorBytes + GroupBytes(entries);
  if (writer_.failed() || (has_entries && bytes > options_.segment_bytes)) {
    return AppendToNewSegment(entries, end);
  }
  const std::uint64_t sector = writer_.end_sector();
  if (Status written = writer_.WriteGroup(entries, end_.last.index); !written.ok()) {
    return written.error().WithContext(SegmentName(writer_.header().first_index));
  }
  if (!Planted(Bug::kAcksBeforeSync)) {
    if (Status synced = SyncWriter(writer_); !synced.ok()) {
      return synced;
    }
  }
  Commit(entries, end, sector);
  return {};
}

// The file gets its name only when its header and first group are synced, so a named segment is
// never half made.
Status SegmentedJournal::AppendToNewSegment(const std::vector<Entry>& entries,
                                            const ChainEnd& end) {
  auto blank = TakeBlankSegment();
  if (!blank.ok()) {
    return blank.error();
  }
  SegmentHeader header;
  header.log_id = identity_.log_id;
  header.first_index = entries.front().index;
  header.previous_hash = end_.last.hash;
  header.previous_epoch = end_.last.epoch;
  header.previous_time = end_.time;
  header.synced_index = end.last.index;
  blank->Start(header);
  const std::string name = SegmentName(header.first_index);
  Status done = blank->WriteGroup(entries, end_.last.index);
  if (done.ok() && !Planted(Bug::kAcksBeforeSync)) {
    if (Status synced = SyncWriter(*blank); !synced.ok()) {
      return synced;
    }
  }
  if (done.ok()) {
    done = files_.Rename(blank->path(), PathIn(directory_, name));
  }
  if (!done.ok()) {
    // If this fails as well, the next start removes the file.
    [[maybe_unused]] const Status removed = files_.Remove(blank->path());
    return done.error().WithContext(name);
  }
  if (Status synced = files_.SyncDirectory(directory_); !synced.ok()) {
    return SyncFailed(synced.error());
  }
  writer_ = std::move(*blank);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (segments_.back().name == name) {  // it had no entries, and its first append failed
      segments_.pop_back();
    }
    segments_.push_back(Segment{name, writer_.header(), writer_.file(), 1, {}});
  }
  Commit(entries, end, 1);
  return {};
}

// Without a prepared one: an empty file, which grows with every append. That costs a metadata
// commit per sync, but no append waits for a whole segment of zeros.
Result<SegmentWriter> SegmentedJournal::TakeBlankSegment() {
  std::uint64_t number = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (prepared_.has_value()) {
      SegmentWriter taken = std::move(*prepared_);
      prepared_.reset();
      return taken;
    }
    number = ++blanks_made_;
  }
  return SegmentWriter::Create(files_, BlankSegmentPath(directory_, number), 0);
}

Status SegmentedJournal::PrepareSegment() {
  if (Status failed = FailedBefore(); !failed.ok()) {
    return failed;
  }
  std::uint64_t number = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (prepared_.has_value() || preparing_) {
      return {};
    }
    preparing_ = true;
    number = ++blanks_made_;
  }
  auto blank =
      SegmentWriter::Create(files_, BlankSegmentPath(directory_, number), options_.segment_bytes);
  const std::lock_guard<std::mutex> lock(mutex_);
  preparing_ = false;
  if (!blank.ok()) {
    return blank.error();
  }
  prepared_ = std::move(*blank);
  return {};
}

void SegmentedJournal::Commit(const std::vector<Entry>& entries, const ChainEnd& end,
                              std::uint64_t sector) {
  appends_.fetch_add(1, std::memory_order_relaxed);
  bytes_appended_.fetch_add(GroupBytes(entries), std::memory_order_relaxed);
  const std::lock_guard<std::mutex> lock(mutex_);
  end_ = end;
  Segment& segment = segments_.back();
  segment.end_sector = writer_.end_sector();
  if (segment.marks.empty() || sector - segment.marks.back().sector >= kSectorsBetweenMarks) {
    segment.marks.push_back(IndexMark{entries.front().index, sector});
  }
}

Status SegmentedJournal::SyncWriter(SegmentWriter& writer) {
  const auto begin = std::chrono::steady_clock::now();
  Status synced = writer.Sync();
  if (!synced.ok()) {
    return SyncFailed(synced.error().WithContext(SegmentName(writer.header().first_index)));
  }
  const auto taken = std::chrono::steady_clock::now() - begin;
  syncs_.fetch_add(1, std::memory_order_relaxed);
  sync_seconds_.Record(std::chrono::duration_cast<Duration>(taken));
  return synced;
}

// After a failed sync the kernel may show as clean what never reached the disk, and a second sync
// may say yes. Only a new process, which rewrites what it reads, knows anything.
Error SegmentedJournal::SyncFailed(const Error& error) {
  if (options_.on_sync_failure == nullptr) {
    log::Error("the journal could not be synced, ending the process error=\"{}\"", error.message);
    HF_CHECK(false, "the journal could not be synced");
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    sync_failure_ = error;
  }
  options_.on_sync_failure(error);
  return error;
}

Status SegmentedJournal::FailedBefore() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return sync_failure_.has_value() ? Status(*sync_failure_) : Status();
}

Result<std::vector<Entry>> SegmentedJournal::Read(std::uint64_t index,
                                                  std::size_t bytes_max) const {
  Segment segment;  // a copy of what is needed, so that I/O runs without the mutex
  std::uint64_t first_sector = 1;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::uint64_t first = segments_.front().header.first_index;
    if (index < first) {
      return Error{ErrorCode::kNotFound,
                   fmt::format("entry {} is trimmed, the log begins at {}", index, first),
                   {},
                   {}};
    }
    if (index > end_.last.index) {
      return std::vector<Entry>();
    }
    const auto next = std::upper_bound(
        segments_.begin(), segments_.end(), index,
        [](std::uint64_t wanted, const Segment& s) { return wanted < s.header.first_index; });
    const Segment& found = *std::prev(next);
    const auto mark =
        std::upper_bound(found.marks.begin(), found.marks.end(), index,
                         [](std::uint64_t wanted, const IndexMark& m) { return wanted < m.index; });
    first_sector = std::prev(mark)->sector;
    segment.name = found.name;
    segment.header = found.header;
    segment.file = found.file;
    segment.end_sector = found.end_sector;
  }
  SegmentReader reader(*segment.file, segment.header, first_sector, segment.end_sector);
  std::vector<Entry> entries;
  std::vector<StoredEntry> group;
  std::size_t bytes = 0;
  while (reader.sector() < segment.end_sector && (entries.empty() || bytes < bytes_max)) {
    const auto step = reader.Next(group);
    if (!step.ok()) {
      return step.error();
    }
    if (*step != SegmentReader::Step::kGroup) {
      const bool damaged = *step == SegmentReader::Step::kDamaged;
      return DamageError(
          directory_,
          Damage{segment.name, damaged ? reader.fault().offset : reader.sector() * kSectorBytes,
                 damaged ? reader.fault().reason : "entries that were synced are not there"});
    }
    for (StoredEntry& stored : group) {
      if (stored.entry.index >= index && (entries.empty() || bytes < bytes_max)) {
        bytes += stored.entry.payload.size();
        entries.push_back(std::move(stored.entry));
      }
    }
  }
  return entries;
}

// The directory is synced after each removal, so that a power cut cannot bring back an old segment
// without those behind it.
Status SegmentedJournal::Trim(std::uint64_t index) {
  while (true) {
    std::string name;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (sync_failure_.has_value()) {
        return *sync_failure_;
      }
      if (segments_.size() < 2 || segments_[1].header.first_index > index) {
        return {};
      }
      name = segments_.front().name;
    }
    if (Status removed = files_.Remove(PathIn(directory_, name)); !removed.ok()) {
      return removed;
    }
    Segment trimmed;  // closed without the mutex: that is when the file system frees it
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      trimmed = std::move(segments_.front());
      segments_.erase(segments_.begin());
    }
    if (Status synced = files_.SyncDirectory(directory_); !synced.ok()) {
      return SyncFailed(synced.error());
    }
  }
}

Status SegmentedJournal::ClearRecovery() {
  DirectoryIdentity cleared = identity_;
  cleared.state = DirectoryState::kReady;
  Status stored = StoreIdentity(files_, directory_, cleared);
  if (stored.ok()) {
    identity_.state = DirectoryState::kReady;
  }
  return stored;
}

}  // namespace

Result<std::unique_ptr<FileJournal>> FileJournal::Open(storage::FileSystem& files,
                                                       const std::string& directory,
                                                       const SnapshotHeader& snapshot,
                                                       const FileJournalOptions& options) {
  constexpr std::uint64_t kSegmentBytesMin = std::uint64_t{64} << 10U;
  constexpr std::uint64_t kSegmentBytesMax = std::uint64_t{1} << 30U;
  if (options.segment_bytes < kSegmentBytesMin || options.segment_bytes > kSegmentBytesMax) {
    return InvalidArgument("segment_bytes", "65536 to 1073741824 bytes",
                           "the journal's segment size is out of range");
  }
  auto opened = OpenLog(files, directory, snapshot, options);
  if (!opened.ok()) {
    return opened.error();
  }
  return std::unique_ptr<FileJournal>(
      std::make_unique<SegmentedJournal>(files, directory, options, std::move(*opened)));
}

}  // namespace holdfast::journal
