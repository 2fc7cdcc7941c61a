#include "journal/inspect.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "journal/layout.h"
#include "journal/snapshot_store.h"

namespace holdfast::journal {
namespace {

void InspectIdentity(storage::FileSystem& files, const std::string& directory,
                     DirectoryReport& report) {
  auto identity = LoadIdentity(files, directory);
  if (!identity.ok()) {
    report.identity_error = identity.error();
    return;
  }
  if (Status usable = CheckUsable(files, directory, *identity); !usable.ok()) {
    report.identity_error = usable.error();
  }
  report.identity = *identity;
}

Status InspectSnapshots(storage::FileSystem& files, const std::string& directory,
                        DirectoryReport& report, SnapshotHeader& newest) {
  SnapshotStore store(files, directory);
  const auto indexes = store.List();
  if (!indexes.ok()) {
    return indexes.error();
  }
  for (const std::uint64_t index : *indexes) {
    auto snapshot = store.Load(index);
    SnapshotReport found;
    found.file = SnapshotName(index);
    found.index = index;
    if (snapshot.ok()) {
      found.payload_bytes = snapshot->header.payload_bytes;
      newest = snapshot->header;
    } else if (snapshot.error().code == ErrorCode::kNotFound) {
      continue;  // a running server has removed it meanwhile
    } else {
      found.error = snapshot.error();
    }
    report.snapshots.push_back(std::move(found));
  }
  return {};
}

Result<DirectoryReport> InspectOnce(storage::FileSystem& files, const std::string& directory,
                                    const EntryVisitor& visit) {
  DirectoryReport report;
  InspectIdentity(files, directory, report);
  SnapshotHeader snapshot;
  if (Status listed = InspectSnapshots(files, directory, report, snapshot); !listed.ok()) {
    return listed.error();
  }
  std::optional<Id128> log_id;
  if (report.identity.has_value()) {
    log_id = report.identity->log_id;
  }
  SnapshotFit fit(snapshot);
  auto log = WalkLog(files, directory, log_id, [&](const WalkedEntry& walked) {
    fit.Visit(walked.entry);
    report.first_index = report.entries++ == 0 ? walked.entry.index : report.first_index;
    report.last_index = walked.entry.index;
    if (visit) {
      visit(walked);
    }
  });
  if (!log.ok()) {
    return log.error();
  }
  report.log = std::move(*log);
  if (report.log.damage.empty()) {
    if (Status fits = fit.Check(directory, report.log); !fits.ok()) {
      report.gap = fits.error().message;
    }
  }
  return report;
}

}  // namespace

bool DirectoryReport::Sound() const {
  const bool snapshots_load =
      std::none_of(snapshots.begin(), snapshots.end(),
                   [](const SnapshotReport& snapshot) { return snapshot.error.has_value(); });
  return !identity_error.has_value() && log.damage.empty() && gap.empty() && snapshots_load;
}

Result<DirectoryReport> InspectDirectory(storage::FileSystem& files, const std::string& directory,
                                         const EntryVisitor& visit) {
  auto report = InspectOnce(files, directory, visit);
  if (report.ok() && !report->gap.empty()) {
    // A server may have written a newer snapshot and trimmed up to it since we looked at snapshots.
    report = InspectOnce(files, directory, {});
  }
  return report;
}

}  // namespace holdfast::journal
