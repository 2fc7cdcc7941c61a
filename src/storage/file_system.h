// The disk seam: just what the journal needs from a file system, so that tests and the simulator
// can put a disk below it that loses, tears and refuses writes. Implementations: PosixFileSystem
// (posix_file_system.h), SimulatedFileSystem (simulated_file_system.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/result.h"

namespace holdfast::storage {

// What a disk writes as a whole or not at all. Disks with larger sectors rewrite the neighbours
// with what they already held.
inline constexpr std::size_t kSectorBytes = 512;

// What tells a directory from a copy of it.
struct FileIdentity {
  std::uint64_t inode = 0;
  std::int64_t birth_time_ns = 0;  // 0 where the file system does not know
};

// An open file. Not thread-safe, except that ReadAt may run beside the writer for bytes below what
// was written. Closed by the destructor; closing does not sync.
class File {
 public:
  virtual ~File() = default;
  // Writes all of `bytes` at `offset`. kDiskFull when there is no space (some bytes may have been
  // written), else kIo.
  virtual Status WriteAt(std::uint64_t offset, std::string_view bytes) = 0;
  // Reads up to `size` bytes; fewer only at the end of the file.
  virtual Result<std::string> ReadAt(std::uint64_t offset, std::size_t size) const = 0;
  // fdatasync. After a failure the file's unsynced content is undefined: the caller must crash
  // (fsyncgate, 2018).
  virtual Status Sync() = 0;
  virtual Result<std::uint64_t> Size() const = 0;
};

// An exclusive lock held until destruction (or the process ends).
class DirectoryLock {
 public:
  virtual ~DirectoryLock() = default;
};

// Paths are absolute or relative to the process; '/' separates. Thread-safe.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  // Creates with mode 0700 if it does not exist (parents too), and syncs the parent.
  virtual Status CreateDirectory(const std::string& path) = 0;
  // kBusy when another process (or another object in this one) holds it.
  virtual Result<std::unique_ptr<DirectoryLock>> LockDirectory(const std::string& path) = 0;
  // Names in the directory, sorted.
  virtual Result<std::vector<std::string>> List(const std::string& path) = 0;
  virtual bool Exists(const std::string& path) = 0;
  // Read and write; the file must not exist (kAlreadyExists).
  virtual Result<std::unique_ptr<File>> Create(const std::string& path) = 0;
  // The file must exist (kNotFound). A read-only file refuses WriteAt.
  virtual Result<std::unique_ptr<File>> Open(const std::string& path, bool read_only) = 0;
  // Atomic; replaces the target. Durable only after SyncDirectory of the parent.
  virtual Status Rename(const std::string& from, const std::string& to) = 0;
  virtual Status Remove(const std::string& path) = 0;
  virtual Status SyncDirectory(const std::string& path) = 0;
  virtual Result<FileIdentity> Identity(const std::string& path) = 0;
  // Bytes that may still be written below `path`.
  virtual Result<std::uint64_t> FreeSpace(const std::string& path) = 0;
};

}  // namespace holdfast::storage
