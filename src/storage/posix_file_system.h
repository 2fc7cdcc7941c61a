// The real disk. Directories are made with mode 0700 and files with 0600; every file is
// close-on-exec. Errors name the path: kDiskFull for ENOSPC and EDQUOT, kPermissionDenied for
// EACCES, EPERM and EROFS, kNotFound, kAlreadyExists, else kIo.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "storage/file_system.h"

namespace holdfast::storage {

// Without state, so thread-safe.
class PosixFileSystem final : public FileSystem {
 public:
  Status CreateDirectory(const std::string& path) override;
  // An flock on the file LOCK in the directory, which also carries the process id for the message.
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
};

}  // namespace holdfast::storage
