#include "storage/simulated_file_system.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

namespace holdfast::storage {
namespace {

constexpr FateOdds kAllDropped{.kept = 0, .dropped = 1, .torn = 0, .garbled = 0};
constexpr FateOdds kAllTorn{.kept = 0, .dropped = 0, .torn = 1, .garbled = 0};
constexpr FateOdds kAllGarbled{.kept = 0, .dropped = 0, .torn = 0, .garbled = 1};

// A directory "d" with a durable file "d/f" that holds `content`.
class SimulatedFileSystemTest : public ::testing::Test {
 protected:
  SimulatedFileSystemTest() {
    EXPECT_TRUE(files_.CreateDirectory("d").ok());
    file_ = files_.Create("d/f").value();
    EXPECT_TRUE(file_->WriteAt(0, "synced").ok());
    EXPECT_TRUE(file_->Sync().ok());
    EXPECT_TRUE(files_.SyncDirectory("d").ok());
  }
  std::string Content(const std::string& path) {
    auto file = files_.Open(path, true);
    return file.ok() ? (*file)->ReadAt(0, 1U << 20U).value() : file.error().message;
  }

  SimulatedFileSystem files_;
  std::unique_ptr<File> file_;
};

TEST_F(SimulatedFileSystemTest, SyncedWritesSurviveAPowerCutAndOthersMayNot) {
  ASSERT_TRUE(file_->WriteAt(6, " not").ok());
  EXPECT_EQ(Content("d/f"), "synced not");
  files_.CrashPower(1, kAllDropped);
  EXPECT_EQ(Content("d/f"), "synced");
}

TEST_F(SimulatedFileSystemTest, ADeadProcessLeavesThePageCacheWhichAPowerCutMayStillLose) {
  ASSERT_TRUE(file_->WriteAt(6, " not").ok());
  files_.CrashProcess();
  EXPECT_EQ(file_->WriteAt(0, "x").error().code, ErrorCode::kIo);
  EXPECT_EQ(Content("d/f"), "synced not");
  files_.CrashPower(1, kAllDropped);
  EXPECT_EQ(Content("d/f"), "synced");
}

TEST_F(SimulatedFileSystemTest, TheNextProcessCanSyncWhatADeadOneWrote) {
  ASSERT_TRUE(file_->WriteAt(6, " now").ok());
  files_.CrashProcess();
  ASSERT_TRUE(files_.Open("d/f", false).value()->Sync().ok());
  files_.CrashPower(1, kAllDropped);
  EXPECT_EQ(Content("d/f"), "synced now");
}

TEST_F(SimulatedFileSystemTest, AFailedSyncLeavesCleanPagesThatNeverReachThePlatter) {
  ASSERT_TRUE(file_->WriteAt(6, " not").ok());
  files_.FailNextSync();
  EXPECT_EQ(file_->Sync().error().code, ErrorCode::kIo);
  EXPECT_TRUE(file_->Sync().ok());  // fsyncgate: the second one says yes
  EXPECT_EQ(Content("d/f"), "synced not");
  files_.CrashPower(1, kAllDropped);
  EXPECT_EQ(Content("d/f"), "synced");
}

TEST_F(SimulatedFileSystemTest, NamesAreDurableOnlyAfterTheirDirectoryIsSynced) {
  ASSERT_TRUE(files_.Create("d/new").value()->Sync().ok());
  ASSERT_TRUE(files_.Rename("d/f", "d/g").ok());
  SimulatedFileSystem other(files_);
  files_.CrashPower(1, kAllDropped);
  EXPECT_EQ(files_.List("d").value(), std::vector<std::string>{"f"});

  ASSERT_TRUE(other.SyncDirectory("d").ok());
  other.CrashPower(1, kAllDropped);
  EXPECT_EQ(other.List("d").value(), (std::vector<std::string>{"g", "new"}));
}

TEST_F(SimulatedFileSystemTest, EachUnsyncedThingHasItsOwnFate) {
  ASSERT_TRUE(file_->WriteAt(0, "A").ok());
  ASSERT_TRUE(file_->WriteAt(1, "B").ok());
  ASSERT_TRUE(file_->WriteAt(2, "C").ok());
  int calls = 0;
  files_.CrashPower(1, [&](const Unsynced& what) {
    EXPECT_EQ(what.path, "d/f");
    return what.offset == 1 ? Fate::kDropped : (++calls, Fate::kKept);
  });
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(Content("d/f"), "AyCced");
}

TEST_F(SimulatedFileSystemTest, ATornWriteKeepsSomeSectorsOrAPrefix) {
  std::set<std::string> sector_patterns;
  int prefixes = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SimulatedFileSystem disk;
    ASSERT_TRUE(disk.CreateDirectory("d").ok());
    auto file = disk.Create("d/f").value();
    ASSERT_TRUE(file->WriteAt(0, std::string(4 * kSectorBytes, '\0')).ok());
    ASSERT_TRUE(file->Sync().ok());
    ASSERT_TRUE(disk.SyncDirectory("d").ok());
    ASSERT_TRUE(file->WriteAt(0, std::string(4 * kSectorBytes, 'x')).ok());
    disk.CrashPower(seed, kAllTorn);
    const std::string content = disk.Open("d/f", true).value()->ReadAt(0, 4096).value();
    std::string pattern;
    for (std::size_t sector = 0; sector < 4; ++sector) {
      const std::string part = content.substr(sector * kSectorBytes, kSectorBytes);
      const bool whole = part.find('\0') == std::string::npos;
      prefixes += !whole && part.find('x') == 0 ? 1 : 0;
      pattern += whole ? 'x' : '0';
    }
    sector_patterns.insert(pattern);
  }
  EXPECT_EQ(sector_patterns.size(), 16U);
  EXPECT_GT(prefixes, 10);
}

TEST_F(SimulatedFileSystemTest, AGarbledWriteDiffersFromOldAndNew) {
  ASSERT_TRUE(file_->WriteAt(0, std::string(kSectorBytes, 'x')).ok());
  files_.CrashPower(7, kAllGarbled);
  EXPECT_EQ(Content("d/f").size(), kSectorBytes);
  EXPECT_NE(Content("d/f"), std::string(kSectorBytes, 'x'));
}

TEST_F(SimulatedFileSystemTest, TheSameSeedGivesTheSameDisk) {
  ASSERT_TRUE(file_->WriteAt(0, std::string(20 * kSectorBytes, 'x')).ok());
  const FateOdds odds{.kept = 0, .dropped = 0, .torn = 1, .garbled = 1};
  SimulatedFileSystem same(files_);
  SimulatedFileSystem other(files_);
  files_.CrashPower(3, odds);
  same.CrashPower(3, odds);
  other.CrashPower(4, odds);
  const auto read = [](SimulatedFileSystem& disk) {
    return disk.Open("d/f", true).value()->ReadAt(0, 1U << 20U).value();
  };
  EXPECT_EQ(read(files_), read(same));
  EXPECT_NE(read(files_), read(other));
}

TEST_F(SimulatedFileSystemTest, PowerGoesAtTheSyncPointThatWasAskedFor) {
  EXPECT_EQ(files_.SyncPoints(), 2U);
  files_.PowerOffAtSyncPoint(3);
  ASSERT_TRUE(file_->WriteAt(0, "S").ok());
  EXPECT_TRUE(file_->Sync().ok());
  ASSERT_TRUE(file_->WriteAt(0, "T").ok());
  EXPECT_FALSE(file_->Sync().ok());
  EXPECT_TRUE(files_.PowerIsOff());
  EXPECT_FALSE(file_->WriteAt(0, "U").ok());
  EXPECT_FALSE(file_->ReadAt(0, 1).ok());
  EXPECT_FALSE(files_.List("d").ok());
  files_.CrashPower(1, kAllDropped);
  EXPECT_EQ(Content("d/f"), "Synced");
}

TEST_F(SimulatedFileSystemTest, AFullDiskTakesAPartOfTheWrite) {
  files_.SetBytesLeft(4);
  EXPECT_EQ(file_->WriteAt(6, "1234567").error().code, ErrorCode::kDiskFull);
  EXPECT_EQ(Content("d/f"), "synced1234");
  EXPECT_EQ(files_.FreeSpace("d").value(), 0U);
  ASSERT_TRUE(files_.Remove("d/f").ok());
  EXPECT_EQ(files_.FreeSpace("d").value(), 10U);
  files_.SetBytesLeft(std::nullopt);
  EXPECT_TRUE(file_->WriteAt(6, "1234567").ok());
}

TEST_F(SimulatedFileSystemTest, AReadOnlyDiskReadsAndRefusesEveryChange) {
  files_.SetReadOnly(true);
  EXPECT_EQ(file_->WriteAt(0, "x").error().code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(files_.Create("d/new").error().code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(files_.Remove("d/f").error().code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(files_.LockDirectory("d").error().code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(Content("d/f"), "synced");
}

TEST_F(SimulatedFileSystemTest, ALockIsHeldUntilItsObjectOrItsProcessEnds) {
  auto lock = files_.LockDirectory("d");
  ASSERT_TRUE(lock.ok());
  EXPECT_EQ(files_.LockDirectory("d").error().code, ErrorCode::kBusy);
  files_.CrashProcess();
  auto second = files_.LockDirectory("d");
  ASSERT_TRUE(second.ok());
  lock->reset();  // of the dead process: does not touch the second lock
  EXPECT_EQ(files_.LockDirectory("d").error().code, ErrorCode::kBusy);
  second->reset();
  EXPECT_TRUE(files_.LockDirectory("d").ok());
}

TEST_F(SimulatedFileSystemTest, ACopyHasTheContentButNotTheIdentity) {
  files_.CopyDirectory("d", "e");
  EXPECT_EQ(Content("e/f"), "synced");
  EXPECT_NE(files_.Identity("e/f").value().inode, files_.Identity("d/f").value().inode);
  EXPECT_NE(files_.Identity("e").value().inode, files_.Identity("d").value().inode);
}

TEST_F(SimulatedFileSystemTest, DamageIsInCacheAndPlatter) {
  files_.FlipBit("d/f", 0, 0);
  EXPECT_EQ(Content("d/f"), "rynced");
  files_.CrashPower(1, kAllDropped);
  EXPECT_EQ(Content("d/f"), "rynced");
  files_.Truncate("d/f", 2);
  EXPECT_EQ(Content("d/f"), "ry");
}

}  // namespace
}  // namespace holdfast::storage
