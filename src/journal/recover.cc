#include "journal/recover.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include "base/log.h"
#include "journal/identity.h"
#include "journal/layout.h"
#include "journal/log_walk.h"
#include "journal/segment_builder.h"
#include "journal/segment_reader.h"
#include "journal/snapshot_store.h"
#include "journal/startup.h"

namespace holdfast::journal {
namespace {

// The whole part of a damaged log as one segment, complete as soon as it has this name. While it
// exists, every segment in the directory is an old one, still to be put aside.
constexpr std::string_view kSalvagedName = "salvaged";
constexpr std::string_view kDamagedSuffix = ".damaged";

// The unbroken run of entries that begins right behind the snapshot.
class UnbrokenRun {
 public:
  explicit UnbrokenRun(const SnapshotHeader& snapshot) : end_(ChainEndOf(snapshot)) {}
  // True if the entry is the next one of the run.
  bool Take(const Entry& entry) {
    if (entry.index <= end_.last.index) {
      return false;
    }
    if (!WhyNotNext(end_, entry).empty()) {
      ++dropped_;
      return false;
    }
    Advance(end_, entry);
    return true;
  }
  const ChainEnd& end() const { return end_; }
  std::uint64_t dropped() const { return dropped_; }

 private:
  ChainEnd end_;
  std::uint64_t dropped_ = 0;
};

class Recovery {
 public:
  Recovery(storage::FileSystem& files, std::string directory, RecoverOptions options)
      : files_(files), directory_(std::move(directory)), options_(options) {}

  Result<RecoverReport> Perform();

 private:
  Status LoadWhatThereIs();
  Status BlockDirectory();
  Status RenewTail();
  Status Salvage();
  Status PutSegmentsAside();
  Status AdoptSalvaged();
  std::string PathOf(std::string_view name) const { return PathIn(directory_, name); }

  storage::FileSystem& files_;
  const std::string directory_;
  const RecoverOptions options_;
  DirectoryIdentity identity_;
  SnapshotHeader snapshot_;
  LogWalk log_;
  std::optional<Error> damage_;
  bool salvaged_before_ = false;  // by a run that did not finish
  RecoverReport report_;
};

// Every step leaves a directory in which the same command finds its way: blocked first, so that no
// server starts on something half done, and open again last.
Result<RecoverReport> Recovery::Perform() {
  if (Status valid = CheckTokenFloor(options_.token_floor); !valid.ok()) {
    return valid.error();
  }
  const auto lock = files_.LockDirectory(directory_);
  if (!lock.ok()) {
    return lock.error();
  }
  Status done = RemoveTemporaryFiles(files_, directory_);
  salvaged_before_ = files_.Exists(PathOf(kSalvagedName));
  if (done.ok()) {
    done = LoadWhatThereIs();
  }
  if (done.ok() && damage_.has_value() && !options_.accept_damage) {
    Error error = *damage_;
    error.message += "; with --accept-damage, recover goes on with what is before the damage";
    return error;
  }
  if (done.ok()) {
    done = BlockDirectory();
  }
  const bool salvage = salvaged_before_ || damage_.has_value();
  if (done.ok() && salvage && !salvaged_before_) {
    done = Salvage();
  }
  if (done.ok() && salvage) {
    done = PutSegmentsAside();
  }
  if (done.ok()) {
    done = salvage ? AdoptSalvaged() : RenewTail();
  }
  if (done.ok()) {
    identity_.state = DirectoryState::kRecovered;
    identity_.token_floor = std::max(identity_.token_floor, options_.token_floor);
    done = StoreIdentity(files_, directory_, identity_);
  }
  return done.ok() ? Result<RecoverReport>(report_) : done.error();
}

Status Recovery::LoadWhatThereIs() {
  const auto identity = LoadIdentity(files_, directory_);
  if (identity.ok()) {
    identity_ = *identity;
    if (identity_.state == DirectoryState::kRestoring) {
      return CheckUsable(files_, directory_, identity_);
    }
  } else if (identity.error().code == ErrorCode::kUnsupported) {
    return identity.error();
  }
  const auto snapshot = SnapshotStore(files_, directory_).LoadNewest();
  if (!snapshot.ok()) {
    return snapshot.error();
  }
  snapshot_ = snapshot->header;
  report_.snapshot_index = snapshot_.index;
  std::optional<Id128> log_id;
  if (identity.ok()) {
    log_id = identity_.log_id;
  }
  SnapshotFit fit(snapshot_);
  UnbrokenRun run(snapshot_);
  auto log = WalkLog(files_, directory_, log_id, [&](const WalkedEntry& walked) {
    fit.Visit(walked.entry);
    run.Take(walked.entry);
  });
  if (!log.ok()) {
    return log.error();
  }
  log_ = std::move(*log);
  if (!log_.segments.empty()) {
    identity_.log_id = log_.segments.back().header.log_id;
  } else if (IsZero(identity_.log_id)) {
    identity_.log_id = RandomId();
  }
  report_.last_index = run.end().last.index;
  report_.entries_dropped = run.dropped();
  if (!log_.damage.empty()) {
    damage_ = DamageError(directory_, log_.damage.front());
  } else if (Status fits = fit.Check(directory_, log_); !fits.ok()) {
    damage_ = fits.error();
  }
  const bool begins_at_one =
      !log_.segments.empty() && log_.segments.front().header.first_index == 1;
  if (snapshot_.index == 0 && !begins_at_one) {
    return damage_->WithContext(
        "no snapshot can be loaded and the log does not go back to its start");
  }
  return {};
}

Status Recovery::BlockDirectory() {
  identity_.state = DirectoryState::kBlocked;
  return StoreIdentity(files_, directory_, identity_);
}

// The tail becomes a file of this directory; what is torn behind it is cut, as a start would.
Status Recovery::RenewTail() {
  const WalkedSegment& tail = log_.segments.back();
  const auto file = files_.Open(PathOf(tail.name), true);
  if (!file.ok()) {
    return file.error();
  }
  SegmentHeader header = tail.header;
  header.synced_index = log_.end.last.index;
  const auto written = ReplaceSegment(files_, directory_, header, file->get(), tail.end_sector, 0);
  return written.ok() ? Status() : Status(written.error());
}

Status Recovery::Salvage() {
  const std::string temporary = PathOf(std::string(kSalvagedName) + std::string(kTemporarySuffix));
  const SegmentHeader header = HeaderBehind(snapshot_, identity_.log_id, report_.last_index);
  auto segment = SegmentBuilder::Create(files_, temporary, header);
  if (!segment.ok()) {
    return segment.error();
  }
  UnbrokenRun run(snapshot_);
  Status done;
  const auto log = WalkLog(files_, directory_, identity_.log_id, [&](const WalkedEntry& walked) {
    if (done.ok() && run.Take(walked.entry)) {
      done = segment->Add(walked.entry);
    }
  });
  if (!log.ok()) {
    return log.error();
  }
  if (done.ok()) {
    done = segment->Finish();
  }
  if (done.ok()) {
    done = files_.Rename(temporary, PathOf(kSalvagedName));
  }
  return done.ok() ? files_.SyncDirectory(directory_) : done;
}

Status Recovery::PutSegmentsAside() {
  const auto content = ReadDirectory(files_, directory_);
  if (!content.ok()) {
    return content.error();
  }
  for (const std::uint64_t first : content->segments) {
    const std::string name = SegmentName(first);
    std::string aside = name + std::string(kDamagedSuffix);
    for (int number = 2; files_.Exists(PathOf(aside)); ++number) {
      aside = fmt::format("{}{}-{}", name, kDamagedSuffix, number);
    }
    if (Status moved = files_.Rename(PathOf(name), PathOf(aside)); !moved.ok()) {
      return moved;
    }
    log::Warning("put a segment aside file={}", PathOf(aside));
    report_.put_aside.push_back(std::move(aside));
  }
  return files_.SyncDirectory(directory_);
}

Status Recovery::AdoptSalvaged() {
  const auto file = files_.Open(PathOf(kSalvagedName), true);
  if (!file.ok()) {
    return file.error();
  }
  const auto header = ReadSegmentHeader(**file, PathOf(kSalvagedName));
  if (!header.ok()) {
    return header.error();
  }
  identity_.log_id = header->log_id;
  report_.last_index = header->synced_index;
  Status done = files_.Rename(PathOf(kSalvagedName), PathOf(SegmentName(header->first_index)));
  return done.ok() ? files_.SyncDirectory(directory_) : done;
}

}  // namespace

Status CheckTokenFloor(std::uint64_t token_floor) {
  constexpr std::uint64_t kTokenMax = (std::uint64_t{1} << 53U) - 1;
  if (token_floor < 1 || token_floor > kTokenMax) {
    return InvalidArgument("token_floor", "1 to 9007199254740991",
                           "the token floor must be at least the highest token ever seen");
  }
  return {};
}

Result<RecoverReport> Recover(storage::FileSystem& files, const std::string& directory,
                              const RecoverOptions& options) {
  return Recovery(files, directory, options).Perform();
}

}  // namespace holdfast::journal
