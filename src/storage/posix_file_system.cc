#include "storage/posix_file_system.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace holdfast::storage {
namespace {

ErrorCode CodeOf(int number) {
  switch (number) {
    case ENOSPC:
    case EDQUOT:
      return ErrorCode::kDiskFull;
    case EACCES:
    case EPERM:
    case EROFS:
      return ErrorCode::kPermissionDenied;
    case ENOENT:
      return ErrorCode::kNotFound;
    case EEXIST:
      return ErrorCode::kAlreadyExists;
    default:
      return ErrorCode::kIo;
  }
}

Error ErrnoError(int number, const char* doing, const std::string& path) {
  return Error{CodeOf(number),
               fmt::format("{} {}: {}", doing, path, std::generic_category().message(number)),
               {},
               {}};
}

// Repeats a system call that a signal interrupted.
template <typename Call>
auto Retrying(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) {
    result = call();
  }
  return result;
}

// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) {
      close(number_);
    }
  }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor& operator=(Descriptor&&) = delete;

  int number() const { return number_; }
  bool ok() const { return number_ >= 0; }

 private:
  int number_;
};

Descriptor OpenDescriptor(const std::string& path, int flags) {
  constexpr mode_t kOwnerOnly = 0600;
  return Descriptor(Retrying([&] { return open(path.c_str(), flags | O_CLOEXEC, kOwnerOnly); }));
}

// Frees the blocks of a removed file step by step. In one step the file system may hold up every
// fdatasync beside it for as long as that takes: 40 ms for 150 MB on ext4.
void FreeInSteps(int number) {
  constexpr off_t kStepBytes = off_t{2} << 20U;
  struct stat info {};
  if (fstat(number, &info) != 0 || info.st_nlink > 0 || info.st_size <= kStepBytes) {
    return;
  }
  // Whoever else has it open still holds its shared lock, and frees the file later.
  if (flock(number, LOCK_EX | LOCK_NB) != 0) {
    return;
  }
  const Descriptor writable = OpenDescriptor(fmt::format("/proc/self/fd/{}", number), O_WRONLY);
  for (off_t left = info.st_size - kStepBytes; writable.ok() && left > 0; left -= kStepBytes) {
    if (ftruncate(writable.number(), left) != 0) {
      return;
    }
  }
}

class PosixFile final : public File {
 public:
  PosixFile(Descriptor descriptor, std::string path)
      : descriptor_(std::move(descriptor)), path_(std::move(path)) {
    [[maybe_unused]] const int locked = flock(descriptor_.number(), LOCK_SH);  // for FreeInSteps
  }
  ~PosixFile() override { FreeInSteps(descriptor_.number()); }
  PosixFile(const PosixFile&) = delete;
  PosixFile& operator=(const PosixFile&) = delete;

  Status WriteAt(std::uint64_t offset, std::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = Retrying([&] {
        return pwrite(descriptor_.number(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
      });
      if (written < 0) {
        return ErrnoError(errno, "writing", path_);
      }
      bytes.remove_prefix(static_cast<std::size_t>(written));
      offset += static_cast<std::uint64_t>(written);
    }
    return {};
  }

  Result<std::string> ReadAt(std::uint64_t offset, std::size_t size) const override {
    std::string bytes(size, '\0');
    std::size_t got = 0;
    while (got < size) {
      const ssize_t count = Retrying([&] {
        return pread(descriptor_.number(), bytes.data() + got, size - got,
                     static_cast<off_t>(offset + got));
      });
      if (count < 0) {
        return ErrnoError(errno, "reading", path_);
      }
      if (count == 0) {
        break;
      }
      got += static_cast<std::size_t>(count);
    }
    bytes.resize(got);
    return bytes;
  }

  Status Sync() override {
    if (Retrying([&] { return fdatasync(descriptor_.number()); }) != 0) {
      return ErrnoError(errno, "syncing", path_);
    }
    return {};
  }

  Result<std::uint64_t> Size() const override {
    struct stat info {};
    if (fstat(descriptor_.number(), &info) != 0) {
      return ErrnoError(errno, "looking at", path_);
    }
    return static_cast<std::uint64_t>(info.st_size);
  }

 private:
  Descriptor descriptor_;
  std::string path_;
};

class PosixDirectoryLock final : public DirectoryLock {
 public:
  explicit PosixDirectoryLock(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}

 private:
  Descriptor descriptor_;  // closing it releases the lock
};

Status SyncDirectoryOf(const std::string& path) {
  const Descriptor directory = OpenDescriptor(path, O_RDONLY | O_DIRECTORY);
  if (!directory.ok()) {
    return ErrnoError(errno, "opening directory", path);
  }
  if (Retrying([&] { return fsync(directory.number()); }) != 0) {
    return ErrnoError(errno, "syncing directory", path);
  }
  return {};
}

std::string ParentOf(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) {
    return ".";
  }
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status CreateOneDirectory(const std::string& path) {
  constexpr mode_t kOwnerOnly = 0700;
  if (mkdir(path.c_str(), kOwnerOnly) == 0) {
    return SyncDirectoryOf(ParentOf(path));
  }
  const int number = errno;
  struct stat info {};
  if (stat(path.c_str(), &info) == 0) {
    return S_ISDIR(info.st_mode) ? Status()
                                 : Status(ErrnoError(ENOTDIR, "creating directory", path));
  }
  return ErrnoError(number, "creating directory", path);
}

}  // namespace

Status PosixFileSystem::CreateDirectory(const std::string& path) {
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    if (Status made = CreateOneDirectory(path.substr(0, slash)); !made.ok()) {
      return made;
    }
  }
  return CreateOneDirectory(path);
}

Result<std::unique_ptr<DirectoryLock>> PosixFileSystem::LockDirectory(const std::string& path) {
  const std::string file = path + "/LOCK";
  Descriptor descriptor = OpenDescriptor(file, O_RDWR | O_CREAT);
  if (!descriptor.ok()) {
    return ErrnoError(errno, "opening", file);
  }
  if (Retrying([&] { return flock(descriptor.number(), LOCK_EX | LOCK_NB); }) != 0) {
    if (errno != EWOULDBLOCK) {
      return ErrnoError(errno, "locking", file);
    }
    char pid[24] = "unknown";
    const ssize_t size = pread(descriptor.number(), pid, sizeof(pid) - 1, 0);
    pid[std::max<ssize_t>(size, 0)] = '\0';
    return Error{ErrorCode::kBusy,
                 fmt::format("{} is in use by another process (pid {})", path, pid),
                 {},
                 {}};
  }
  // Only for the message above, so a full disk does not matter.
  const std::string pid = std::to_string(getpid());
  if (ftruncate(descriptor.number(), 0) == 0) {
    [[maybe_unused]] const ssize_t ignored = pwrite(descriptor.number(), pid.data(), pid.size(), 0);
  }
  return std::unique_ptr<DirectoryLock>(
      std::make_unique<PosixDirectoryLock>(std::move(descriptor)));
}

Result<std::vector<std::string>> PosixFileSystem::List(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(path.c_str()), closedir);
  if (directory == nullptr) {
    return ErrnoError(errno, "listing", path);
  }
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    // The stream is ours alone, which is all that readdir asks for in glibc.
    const dirent* entry = readdir(directory.get());  // NOLINT(concurrency-mt-unsafe)
    if (entry == nullptr) {
      break;
    }
    const std::string name = entry->d_name;
    if (name != "." && name != "..") {
      names.push_back(name);
    }
  }
  if (errno != 0) {
    return ErrnoError(errno, "listing", path);
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool PosixFileSystem::Exists(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0;
}

Result<std::unique_ptr<File>> PosixFileSystem::Create(const std::string& path) {
  Descriptor descriptor = OpenDescriptor(path, O_RDWR | O_CREAT | O_EXCL);
  if (!descriptor.ok()) {
    return ErrnoError(errno, "creating", path);
  }
  return std::unique_ptr<File>(std::make_unique<PosixFile>(std::move(descriptor), path));
}

Result<std::unique_ptr<File>> PosixFileSystem::Open(const std::string& path, bool read_only) {
  Descriptor descriptor = OpenDescriptor(path, read_only ? O_RDONLY : O_RDWR);
  if (!descriptor.ok()) {
    return ErrnoError(errno, "opening", path);
  }
  return std::unique_ptr<File>(std::make_unique<PosixFile>(std::move(descriptor), path));
}

Status PosixFileSystem::Rename(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) {
    return ErrnoError(errno, "renaming", from + " to " + to);
  }
  return {};
}

Status PosixFileSystem::Remove(const std::string& path) {
  // Keeps the file's blocks until it is closed, below.
  const PosixFile removed(OpenDescriptor(path, O_RDONLY), path);
  if (unlink(path.c_str()) != 0) {
    return ErrnoError(errno, "removing", path);
  }
  return {};
}

Status PosixFileSystem::SyncDirectory(const std::string& path) {
  return SyncDirectoryOf(path);
}

Result<FileIdentity> PosixFileSystem::Identity(const std::string& path) {
  struct statx info {};
  if (statx(AT_FDCWD, path.c_str(), 0, STATX_INO | STATX_BTIME, &info) != 0) {
    return ErrnoError(errno, "looking at", path);
  }
  FileIdentity identity;
  identity.inode = info.stx_ino;
  if ((info.stx_mask & STATX_BTIME) != 0) {
    identity.birth_time_ns = info.stx_btime.tv_sec * 1'000'000'000 + info.stx_btime.tv_nsec;
  }
  return identity;
}

Result<std::uint64_t> PosixFileSystem::FreeSpace(const std::string& path) {
  struct statvfs info {};
  if (statvfs(path.c_str(), &info) != 0) {
    return ErrnoError(errno, "looking at the space of", path);
  }
  return static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
}

}  // namespace holdfast::storage
