#include "storage/posix_file_system.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace holdfast::storage {
namespace {

class PosixFileSystemTest : public ::testing::Test {
 protected:
  PosixFileSystemTest() {
    std::string pattern = ::testing::TempDir() + "holdfast-posix-XXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  ~PosixFileSystemTest() override { std::filesystem::remove_all(root_); }

  static unsigned Mode(const std::string& path) {
    struct stat info {};
    EXPECT_EQ(stat(path.c_str(), &info), 0);
    return info.st_mode & 07777U;
  }
  // Runs `body` in a child process without root's rights; its return value is the exit code.
  template <typename Body>
  static int InUnprivilegedChild(Body body) {
    const pid_t child = fork();
    if (child == 0) {
      constexpr uid_t kNobody = 65534;
      if (geteuid() == 0 && setuid(kNobody) != 0) {
        _exit(99);
      }
      _exit(body());
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  std::string root_;
  PosixFileSystem files_;
};

TEST_F(PosixFileSystemTest, CreatesPrivateDirectoriesAndFiles) {
  ASSERT_TRUE(files_.CreateDirectory(root_ + "/a/b").ok());
  EXPECT_TRUE(files_.CreateDirectory(root_ + "/a/b").ok());
  EXPECT_EQ(Mode(root_ + "/a"), 0700U);
  EXPECT_EQ(Mode(root_ + "/a/b"), 0700U);
  ASSERT_TRUE(files_.Create(root_ + "/a/b/f").ok());
  EXPECT_EQ(Mode(root_ + "/a/b/f"), 0600U);
  EXPECT_EQ(files_.CreateDirectory(root_ + "/a/b/f").error().code, ErrorCode::kIo);
}

TEST_F(PosixFileSystemTest, WritesReadsSyncsAndMeasures) {
  auto file = files_.Create(root_ + "/f").value();
  ASSERT_TRUE(file->WriteAt(3, "hello").ok());
  ASSERT_TRUE(file->Sync().ok());
  EXPECT_EQ(file->Size().value(), 8U);
  EXPECT_EQ(file->ReadAt(0, 100).value(), std::string("\0\0\0hello", 8));
  EXPECT_EQ(file->ReadAt(100, 4).value(), "");
  EXPECT_EQ(files_.Create(root_ + "/f").error().code, ErrorCode::kAlreadyExists);
  const auto missing = files_.Open(root_ + "/g", true);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_NE(missing.error().message.find(root_ + "/g"), std::string::npos);
  EXPECT_FALSE(files_.Open(root_ + "/f", true).value()->WriteAt(0, "x").ok());
}

TEST_F(PosixFileSystemTest, RenamesReplacesRemovesAndLists) {
  ASSERT_TRUE(files_.Create(root_ + "/new").value()->WriteAt(0, "new").ok());
  ASSERT_TRUE(files_.Create(root_ + "/old").value()->WriteAt(0, "old").ok());
  ASSERT_TRUE(files_.Rename(root_ + "/new", root_ + "/old").ok());
  ASSERT_TRUE(files_.SyncDirectory(root_).ok());
  EXPECT_EQ(files_.List(root_).value(), std::vector<std::string>{"old"});
  EXPECT_EQ(files_.Open(root_ + "/old", true).value()->ReadAt(0, 9).value(), "new");
  ASSERT_TRUE(files_.Remove(root_ + "/old").ok());
  EXPECT_FALSE(files_.Exists(root_ + "/old"));
  EXPECT_EQ(files_.Remove(root_ + "/old").error().code, ErrorCode::kNotFound);
}

TEST_F(PosixFileSystemTest, ARemovedFileStaysWholeForThoseWhoHaveItOpen) {
  const std::string bytes(std::size_t{9} << 20U, 'x');
  ASSERT_TRUE(files_.Create(root_ + "/f").value()->WriteAt(0, bytes).ok());
  auto one = files_.Open(root_ + "/f", false).value();
  auto other = files_.Open(root_ + "/f", true).value();
  ASSERT_TRUE(files_.Remove(root_ + "/f").ok());
  one.reset();
  EXPECT_EQ(other->ReadAt(0, bytes.size()).value(), bytes);
}

TEST_F(PosixFileSystemTest, TheIdentityFollowsARenameAndNotACopy) {
  ASSERT_TRUE(files_.Create(root_ + "/f").ok());
  const FileIdentity before = files_.Identity(root_ + "/f").value();
  std::filesystem::copy(root_ + "/f", root_ + "/copy");
  ASSERT_TRUE(files_.Rename(root_ + "/f", root_ + "/g").ok());
  const FileIdentity after = files_.Identity(root_ + "/g").value();
  EXPECT_EQ(before.inode, after.inode);
  EXPECT_EQ(before.birth_time_ns, after.birth_time_ns);
  EXPECT_NE(files_.Identity(root_ + "/copy").value().inode, after.inode);
  EXPECT_GT(files_.FreeSpace(root_).value(), 0U);
}

TEST_F(PosixFileSystemTest, OnlyOneHoldsTheDirectoryLock) {
  auto lock = files_.LockDirectory(root_);
  ASSERT_TRUE(lock.ok()) << lock.error().message;
  const auto second = files_.LockDirectory(root_);
  ASSERT_EQ(second.error().code, ErrorCode::kBusy);
  EXPECT_NE(second.error().message.find("pid " + std::to_string(getpid())), std::string::npos);
  lock->reset();
  EXPECT_TRUE(files_.LockDirectory(root_).ok());
}

TEST_F(PosixFileSystemTest, TheLockOfAKilledProcessIsFree) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto lock = files_.LockDirectory(root_);
    if (write(ready[1], lock.ok() ? "y" : "n", 1) != 1) {
      _exit(1);
    }
    pause();
    _exit(0);
  }
  char answer = 0;
  ASSERT_EQ(read(ready[0], &answer, 1), 1);
  ASSERT_EQ(answer, 'y');
  EXPECT_EQ(files_.LockDirectory(root_).error().code, ErrorCode::kBusy);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(files_.LockDirectory(root_).ok());
  close(ready[0]);
  close(ready[1]);
}

TEST_F(PosixFileSystemTest, ADirectoryThatMayNotBeWrittenIsNamed) {
  ASSERT_EQ(chmod(root_.c_str(), 0555), 0);
  EXPECT_EQ(InUnprivilegedChild([&] {
              const auto lock = files_.LockDirectory(root_);
              const auto file = files_.Create(root_ + "/f");
              return !lock.ok() && lock.error().code == ErrorCode::kPermissionDenied &&
                             lock.error().message.find(root_) != std::string::npos && !file.ok() &&
                             file.error().code == ErrorCode::kPermissionDenied
                         ? 0
                         : 1;
            }),
            0);
  ASSERT_EQ(chmod(root_.c_str(), 0700), 0);
}

// /dev/full answers ENOSPC to every write.
TEST_F(PosixFileSystemTest, NoSpaceIsDiskFull) {
  auto full = files_.Open("/dev/full", false);
  ASSERT_TRUE(full.ok()) << full.error().message;
  const Status written = (*full)->WriteAt(0, "x");
  EXPECT_EQ(written.error().code, ErrorCode::kDiskFull);
  EXPECT_NE(written.error().message.find("/dev/full"), std::string::npos);
}

}  // namespace
}  // namespace holdfast::storage
