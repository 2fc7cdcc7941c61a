// A disk in memory that fails the way disks do, after SQLite's crash simulator (test6.c): it keeps
// a list of every write that was not yet synced and, when the power goes, decides for each one by
// itself whether it reached the platter, did not, reached it in part, or left garbage.
//
// Each file has two contents: what the page cache shows (all writes) and what is on the platter
// (synced writes). A process that dies leaves the page cache; a power cut leaves the platter and
// whatever became of the unsynced rest. The names in a directory have two states in the same way.
//
// Deterministic: no clock, no threads, no randomness but the seeds that it is given. A file system
// with equal calls gives equal answers. Not thread-safe. Files must not outlive it. It has no
// nested directories: List shows files only. Directories themselves are durable at once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "storage/file_system.h"

namespace holdfast::storage {

// What becomes of something unsynced when the power goes.
enum class Fate {
  kKept,
  kDropped,
  kTorn,  // some sectors are kept, or all bytes up to some byte; a directory operation is dropped
  kGarbled,  // written, but some sectors as random bytes; a directory operation is dropped
};

// One thing that was not synced: a write to a file, or a directory operation.
struct Unsynced {
  std::string path;  // of the file (a name that it has in the page cache) or of the directory
  bool directory_operation = false;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

// Relative frequencies.
struct FateOdds {
  unsigned kept = 1;
  unsigned dropped = 1;
  unsigned torn = 1;
  unsigned garbled = 0;
};

class SimulatedFileSystem final : public FileSystem {
 public:
  SimulatedFileSystem() = default;
  ~SimulatedFileSystem() override = default;
  // The same disk in the same state, with nothing open and nothing locked.
  SimulatedFileSystem(const SimulatedFileSystem& other);
  SimulatedFileSystem& operator=(const SimulatedFileSystem&) = delete;

  Status CreateDirectory(const std::string& path) override;
  Result<std::unique_ptr<DirectoryLock>> LockDirectory(const std::string& path) override;
  Result<std::vector<std::string>> List(const std::string& path) override;
  bool Exists(const std::string& path) override;
  Result<std::unique_ptr<File>> Create(const std::string& path) override;
  Result<std::unique_ptr<File>> Open(const std::string& path, bool read_only) override;
  Status Rename(const std::string& from, const std::string& to) override;
  Status Remove(const std::string& path) override;
  Status SyncDirectory(const std::string& path) override;
  Result<FileIdentity> Identity(const std::string& path) override;
  Result<std::uint64_t> FreeSpace(const std::string& path) override;

  // The process dies: open files and locks become void, the page cache stays.
  void CrashProcess();
  // The power goes: CrashProcess, and the page cache is lost. Everything unsynced gets the fate
  // that `decide` gives it, in the order in which it was issued; `seed` picks sectors and garbage.
  void CrashPower(std::uint64_t seed, const std::function<Fate(const Unsynced&)>& decide);
  void CrashPower(std::uint64_t seed, const FateOdds& odds);

  // Counts the syncs, of files and directories, that were asked for since construction. With
  // PowerOffAtSyncPoint(k), the k-th (from 0) and everything after it fails and changes nothing,
  // until one of the crashes above.
  std::uint64_t SyncPoints() const { return sync_points_; }
  void PowerOffAtSyncPoint(std::uint64_t sync_point) { power_off_at_ = sync_point; }
  bool PowerIsOff() const { return power_off_; }

  // The next sync of a file fails as on Linux: it reports the error once, its unsynced writes never
  // reach the platter, and the page cache goes on showing them as clean.
  void FailNextSync() { fail_next_sync_ = true; }
  // So many more bytes can be written, overwriting included (as on a copy-on-write file system); a
  // write that exceeds it is done in part. Removing a file gives its bytes back. Nothing: no limit.
  void SetBytesLeft(std::optional<std::uint64_t> bytes) { bytes_left_ = bytes; }
  void SetReadOnly(bool read_only) { read_only_ = read_only; }

  // Damage, in cache and platter alike. The file must exist and be long enough.
  void FlipBit(const std::string& path, std::uint64_t offset, unsigned bit);
  void Overwrite(const std::string& path, std::uint64_t offset, std::string_view bytes);
  void Truncate(const std::string& path, std::uint64_t size);
  // As `cp -r` or a restored backup does: new files with equal content, all durable. Files in the
  // way are replaced.
  void CopyDirectory(const std::string& from, const std::string& to);

 private:
  friend class SimulatedFile;
  friend class SimulatedLock;

  struct Write {
    std::uint64_t offset = 0;
    std::string bytes;
    std::uint64_t order = 0;
  };
  struct Inode {
    std::string cache;
    std::string platter;
    std::vector<Write> unsynced;
    std::int64_t birth_time_ns = 0;
  };
  using Names = std::map<std::string, std::uint64_t>;  // name -> inode number
  // One atomic change of a directory: takes `removed` away, then sets `added` (if inode is not 0).
  struct NameChange {
    std::string removed;
    std::string added;
    std::uint64_t inode = 0;
    std::uint64_t order = 0;
  };
  struct Directory {
    Names cache;
    Names platter;
    std::vector<NameChange> unsynced;
    std::uint64_t inode = 0;
    std::int64_t birth_time_ns = 0;
  };

  Status CheckUsable(const std::string& path, bool for_writing) const;
  // Counts a sync point; false when the power goes here.
  bool PassSyncPoint();
  Directory* FindDirectory(const std::string& path);
  // The inode that `path` names in the page cache; 0 if there is none.
  std::uint64_t Find(const std::string& path);
  Inode& Existing(const std::string& path);
  static void Apply(const NameChange& change, Names& names);
  void Change(const std::string& directory, NameChange change);
  std::uint64_t NewInode();
  std::string PathOf(std::uint64_t inode) const;
  void ForgetUnnamed();

  Status WriteTo(std::uint64_t inode, std::uint64_t offset, std::string_view bytes);
  Status SyncInode(std::uint64_t inode, const std::string& path);

  std::map<std::uint64_t, Inode> inodes_;
  std::map<std::string, Directory> directories_;
  std::map<std::string, bool> locked_;
  std::uint64_t next_inode_ = 1;
  std::uint64_t next_order_ = 0;  // of unsynced things, over all files and directories
  std::uint64_t generation_ = 0;  // of processes; files opened by an earlier one are void
  std::uint64_t sync_points_ = 0;
  std::optional<std::uint64_t> power_off_at_;
  bool power_off_ = false;
  bool fail_next_sync_ = false;
  bool read_only_ = false;
  std::optional<std::uint64_t> bytes_left_;
};

}  // namespace holdfast::storage
