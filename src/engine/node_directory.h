// The data directory of a replicated node: the snapshots that it made or was sent, and the name of
// the log that they are of. The log itself is in etcd.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/id.h"
#include "core/machine.h"
#include "holdfast/result.h"
#include "journal/snapshot_store.h"
#include "storage/file_system.h"

namespace holdfast::engine {

class NodeDirectory {
 public:
  // Creates and locks it. kBusy if another server has it, kInvalidArgument if it holds the journal
  // of an embedded server.
  static Result<std::unique_ptr<NodeDirectory>> Open(storage::FileSystem& files,
                                                     const std::string& directory);

  // Zero: this directory belongs to no log yet.
  const Id128& log_id() const { return log_id_; }
  Status SetLogId(const Id128& log_id);

  struct State {
    std::unique_ptr<core::Machine> machine;
    journal::SnapshotHeader header;
  };
  // The newest snapshot that loads; the empty state without any.
  Result<State> Load();
  // Durable when it returns. The two newest are kept. `pause`, if there is one, runs after every
  // megabyte, which is synced by itself: whoever shares the disk gets his turn.
  Status Save(const journal::SnapshotHeader& header, const std::vector<std::string_view>& pieces,
              const std::function<void()>& pause = {});

 private:
  NodeDirectory(storage::FileSystem& files, std::string directory);

  storage::FileSystem& files_;
  const std::string directory_;
  std::unique_ptr<storage::DirectoryLock> lock_;
  Id128 log_id_{};
};

}  // namespace holdfast::engine
