#include "journal/log_walk.h"

#include <memory>
#include <utility>

#include <fmt/core.h>

#include "journal/layout.h"
#include "journal/segment_reader.h"

namespace holdfast::journal {
namespace {

struct OpenSegment {
  std::uint64_t first_index = 0;
  std::unique_ptr<storage::File> file;
};

// Opens all segments before any is read, so that a trim that runs meanwhile takes none away.
Result<std::vector<OpenSegment>> OpenSegments(storage::FileSystem& files,
                                              const std::string& directory) {
  constexpr int kTries = 10;
  for (int tried = 1;; ++tried) {
    const auto content = ReadDirectory(files, directory);
    if (!content.ok()) {
      return content.error();
    }
    std::vector<OpenSegment> segments;
    std::optional<Error> failed;
    for (const std::uint64_t first_index : content->segments) {
      auto file = files.Open(PathIn(directory, SegmentName(first_index)), true);
      if (!file.ok()) {
        failed = file.error();
        break;
      }
      segments.push_back(OpenSegment{first_index, std::move(*file)});
    }
    if (!failed.has_value()) {
      return segments;
    }
    if (failed->code != ErrorCode::kNotFound || tried == kTries) {
      return *failed;
    }
  }
}

class Walker {
 public:
  Walker(const std::optional<Id128>& log_id, const EntryVisitor& visit)
      : log_id_(log_id), visit_(visit) {}

  Status Walk(const OpenSegment& segment, bool last) {
    current_ = WalkedSegment{};
    current_.name = SegmentName(segment.first_index);
    current_.last_index = segment.first_index - 1;
    const auto size = segment.file->Size();
    if (!size.ok()) {
      return size.error();
    }
    current_.file_bytes = *size;
    const auto header = ReadSegmentHeader(*segment.file, current_.name);
    if (!header.ok() && header.error().code != ErrorCode::kCorrupt) {
      return header.error();
    }
    if (header.ok() && HeaderFits(*header, segment.first_index)) {
      current_.header = *header;
      EnterSegment();
    } else {
      if (!header.ok()) {
        Report(0, "the segment header is damaged");
      }
      lost_ = true;
      if (!log_id_.has_value()) {
        return {};
      }
      current_.header.log_id = *log_id_;
      current_.header.first_index = segment.first_index;
    }
    if (Status walked = WalkGroups(*segment.file, last); !walked.ok()) {
      return walked;
    }
    result_.segments.push_back(std::move(current_));
    return {};
  }

  LogWalk Finish() {
    result_.end = end_;
    return std::move(result_);
  }

 private:
  bool HeaderFits(const SegmentHeader& header, std::uint64_t first_index) {
    if (header.first_index != first_index) {
      Report(0,
             fmt::format("the header says that the file begins with entry {}", header.first_index));
      return false;
    }
    if (log_id_.has_value() && header.log_id != *log_id_) {
      Report(0, "the file belongs to another log");
      return false;
    }
    return true;
  }

  // Compares the header with what came before, then goes by the header.
  void EnterSegment() {
    const SegmentHeader& header = current_.header;
    const bool begins = result_.segments.empty() && !lost_;
    if (!begins && !lost_) {
      if (header.first_index > end_.last.index + 1 && torn_before_.has_value()) {
        result_.damage.push_back(*torn_before_);
      } else if (header.first_index > end_.last.index + 1) {
        result_.damage.push_back(
            Damage{SegmentName(end_.last.index + 1), 0,
                   fmt::format("missing: {} ends with entry {}, and the next file begins with {}",
                               result_.segments.back().name, end_.last.index, header.first_index)});
      } else if (header.first_index <= end_.last.index) {
        Report(0, fmt::format("begins with entry {}, but {} has entries up to {}",
                              header.first_index, result_.segments.back().name, end_.last.index));
      } else if (header.previous_hash != end_.last.hash ||
                 header.previous_epoch != end_.last.epoch || header.previous_time != end_.time) {
        Report(0, fmt::format("does not continue {}", result_.segments.back().name));
      }
    }
    torn_before_.reset();
    log_id_ = header.log_id;
    end_.last = Position{header.first_index - 1, header.previous_epoch, header.previous_hash};
    end_.time = header.previous_time;
    lost_ = false;
  }

  Status WalkGroups(const storage::File& file, bool last) {
    SegmentReader reader(file, current_.header, 1);
    std::vector<StoredEntry> entries;
    while (true) {
      const std::uint64_t begin = reader.sector();
      auto step = reader.Next(entries);
      // In the last segment a server may have been in the middle of an append: look again.
      if (last && step.ok() && *step != SegmentReader::Step::kGroup) {
        step = reader.Next(entries);
      }
      if (!step.ok()) {
        return step.error();
      }
      switch (*step) {
        case SegmentReader::Step::kGroup:
          TakeGroup(entries, begin);
          current_.end_sector = reader.sector();
          break;
        case SegmentReader::Step::kEnd:
        case SegmentReader::Step::kTorn:
          EndSegment(*step == SegmentReader::Step::kTorn, last);
          return {};
        case SegmentReader::Step::kDamaged: {
          Report(reader.fault().offset, reader.fault().reason);
          lost_ = true;
          const auto skipped = reader.SkipDamage();
          if (!skipped.ok()) {
            return skipped.error();
          }
          if (!*skipped) {
            return {};
          }
          break;
        }
      }
    }
  }

  void TakeGroup(const std::vector<StoredEntry>& entries, std::uint64_t sector) {
    if (current_.marks.empty() || sector - current_.marks.back().sector >= kSectorsBetweenMarks) {
      current_.marks.push_back(IndexMark{entries.front().entry.index, sector});
    }
    const std::uint64_t synced = entries.front().entry.index - 1;
    for (const StoredEntry& stored : entries) {
      const Entry& entry = stored.entry;
      if (!lost_) {
        std::string why = WhyNotNext(end_, entry);
        if (why.empty() && stored.synced_index != synced) {
          why = fmt::format("entry {} says that the log was synced up to {}", entry.index,
                            stored.synced_index);
        }
        if (!why.empty()) {
          Report(stored.offset, std::move(why));
        }
      }
      lost_ = false;
      Advance(end_, entry);
      current_.last_index = entry.index;
      ++current_.entries;
      if (visit_) {
        visit_(WalkedEntry{current_.name, stored.offset, stored.synced_index, entry});
      }
    }
  }

  void EndSegment(bool torn, bool last) {
    const std::uint64_t offset = current_.end_sector * kSectorBytes;
    if (!lost_ && current_.last_index < current_.header.synced_index) {
      Report(offset, fmt::format("entries {} to {} are missing: they were synced in this file",
                                 current_.last_index + 1, current_.header.synced_index));
      lost_ = true;
    } else if (torn && !last) {
      // Of an append that was refused for lack of space, if the next segment continues this one.
      torn_before_ = Damage{current_.name, offset,
                            "an append is incomplete, but later entries are in the next segment"};
    } else if (torn) {
      result_.torn = TornTail{current_.name, offset};
    }
  }

  void Report(std::uint64_t offset, std::string reason) {
    result_.damage.push_back(Damage{current_.name, offset, std::move(reason)});
  }

  std::optional<Id128> log_id_;
  const EntryVisitor& visit_;
  LogWalk result_;
  WalkedSegment current_;
  ChainEnd end_;
  // Entries were skipped: what comes next is not compared with what came before.
  bool lost_ = false;
  std::optional<Damage>
      torn_before_;  // at the end of the segment before, if entries are missing there
};

}  // namespace

Result<LogWalk> WalkLog(storage::FileSystem& files, const std::string& directory,
                        const std::optional<Id128>& log_id, const EntryVisitor& visit) {
  const auto segments = OpenSegments(files, directory);
  if (!segments.ok()) {
    return segments.error();
  }
  Walker walker(log_id, visit);
  for (const OpenSegment& segment : *segments) {
    const bool last = &segment == &segments->back();
    if (Status walked = walker.Walk(segment, last); !walked.ok()) {
      return walked.error();
    }
  }
  return walker.Finish();
}

ChainEnd ChainEndOf(const SnapshotHeader& snapshot) {
  return ChainEnd{Position{snapshot.index, snapshot.epoch, snapshot.entry_hash}, snapshot.time};
}

void SnapshotFit::Visit(const Entry& entry) {
  if (entry.index == snapshot_.index) {
    hash_in_log_ = EntryHash(entry);
  } else if (entry.index == snapshot_.index + 1) {
    hash_in_log_ = entry.previous_hash;
  }
}

Status SnapshotFit::Check(const std::string& directory, const LogWalk& log) const {
  if (log.segments.empty()) {
    return DamageError(directory, Damage{SegmentName(snapshot_.index + 1), 0,
                                         "missing: the directory has no segment at all"});
  }
  const SegmentHeader& first = log.segments.front().header;
  if (first.first_index > snapshot_.index + 1) {
    return DamageError(
        directory,
        Damage{
            SegmentName(snapshot_.index + 1), 0,
            fmt::format("missing: the log begins with entry {}, and the newest snapshot that can "
                        "be loaded is of entry {}",
                        first.first_index, snapshot_.index)});
  }
  if (log.end.last.index < snapshot_.index) {
    const WalkedSegment& tail = log.segments.back();
    return DamageError(directory, Damage{tail.name, tail.end_sector * kSectorBytes,
                                         fmt::format("entries {} to {} are missing: a snapshot of "
                                                     "them exists",
                                                     log.end.last.index + 1, snapshot_.index)});
  }
  const bool begins_behind = first.first_index == snapshot_.index + 1;
  const Id128 hash = begins_behind ? first.previous_hash : hash_in_log_.value_or(Id128{});
  if (hash != snapshot_.entry_hash) {
    return DamageError(directory, Damage{SnapshotName(snapshot_.index), 0,
                                         fmt::format("not a snapshot of this log: it ends with "
                                                     "another entry {}",
                                                     snapshot_.index)});
  }
  return {};
}

Error DamageError(const std::string& directory, const Damage& damage) {
  return Error{ErrorCode::kCorrupt,
               fmt::format("{} at offset {}: {}", PathIn(directory, damage.file), damage.offset,
                           damage.reason),
               {},
               {}};
}

}  // namespace holdfast::journal
