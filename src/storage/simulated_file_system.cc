#include "storage/simulated_file_system.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"

namespace holdfast::storage {
namespace {

// SplitMix64: small, and the same everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t value = state_;
    value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
    value = (value ^ (value >> 27U)) * 0x94d049bb133111ebU;
    return value ^ (value >> 31U);
  }
  std::uint64_t Below(std::uint64_t limit) { return Next() % limit; }

 private:
  std::uint64_t state_;
};

void Put(std::string& content, std::uint64_t offset, std::string_view bytes) {
  const auto begin = static_cast<std::size_t>(offset);
  if (content.size() < begin + bytes.size()) {
    content.resize(begin + bytes.size(), '\0');
  }
  content.replace(begin, bytes.size(), bytes);
}

// Calls `visit(offset in bytes, piece)` for each sector's share of a write.
template <typename Visit>
void ForEachSector(std::uint64_t offset, std::string_view bytes, Visit visit) {
  std::size_t begin = 0;
  while (begin < bytes.size()) {
    const std::size_t in_sector = static_cast<std::size_t>((offset + begin) % kSectorBytes);
    const std::size_t size = std::min(kSectorBytes - in_sector, bytes.size() - begin);
    visit(begin, bytes.substr(begin, size));
    begin += size;
  }
}

void PutTorn(std::string& platter, std::uint64_t offset, std::string_view bytes, Random& random) {
  if (random.Below(3) == 0) {
    Put(platter, offset, bytes.substr(0, random.Below(bytes.size())));
    return;
  }
  ForEachSector(offset, bytes, [&](std::size_t begin, std::string_view piece) {
    if (random.Below(2) == 0) {
      Put(platter, offset + begin, piece);
    }
  });
}

void PutGarbled(std::string& platter, std::uint64_t offset, std::string_view bytes,
                Random& random) {
  Put(platter, offset, bytes);
  const std::size_t sure = random.Below((bytes.size() + kSectorBytes - 1) / kSectorBytes);
  std::size_t number = 0;
  ForEachSector(offset, bytes, [&](std::size_t begin, std::string_view piece) {
    if (number++ == sure || random.Below(4) == 0) {
      std::string garbage(piece.size(), '\0');
      for (char& byte : garbage) {
        byte = static_cast<char>(random.Next());
      }
      Put(platter, offset + begin, garbage);
    }
  });
}

void PutWithFate(std::string& platter, std::uint64_t offset, std::string_view bytes, Fate fate,
                 Random& random) {
  switch (fate) {
    case Fate::kKept:
      return Put(platter, offset, bytes);
    case Fate::kTorn:
      return PutTorn(platter, offset, bytes, random);
    case Fate::kGarbled:
      return PutGarbled(platter, offset, bytes, random);
    case Fate::kDropped:
      return;
  }
}

struct SplitPath {
  std::string directory;
  std::string name;
};

SplitPath Split(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) {
    return {".", path};
  }
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

Error MakeError(ErrorCode code, const std::string& path, const char* text) {
  return Error{code, fmt::format("{}: {}", path, text), {}, {}};
}

}  // namespace

class SimulatedFile final : public File {
 public:
  SimulatedFile(SimulatedFileSystem& files, std::uint64_t inode, std::string path, bool read_only)
      : files_(files),
        inode_(inode),
        generation_(files.generation_),
        path_(std::move(path)),
        read_only_(read_only) {}

  Status WriteAt(std::uint64_t offset, std::string_view bytes) override {
    if (Status usable = Check(true); !usable.ok()) {
      return usable;
    }
    if (read_only_) {
      return MakeError(ErrorCode::kIo, path_, "opened for reading only");
    }
    return files_.WriteTo(inode_, offset, bytes);
  }
  Result<std::string> ReadAt(std::uint64_t offset, std::size_t size) const override {
    if (Status usable = Check(false); !usable.ok()) {
      return usable.error();
    }
    const std::string& content = files_.inodes_.at(inode_).cache;
    return offset >= content.size() ? std::string()
                                    : content.substr(static_cast<std::size_t>(offset), size);
  }
  Status Sync() override {
    if (Status usable = Check(true); !usable.ok()) {
      return usable;
    }
    return files_.SyncInode(inode_, path_);
  }
  Result<std::uint64_t> Size() const override {
    if (Status usable = Check(false); !usable.ok()) {
      return usable.error();
    }
    return std::uint64_t{files_.inodes_.at(inode_).cache.size()};
  }

 private:
  Status Check(bool for_writing) const {
    if (generation_ != files_.generation_) {
      return MakeError(ErrorCode::kIo, path_, "opened by a process that is gone");
    }
    return files_.CheckUsable(path_, for_writing);
  }

  SimulatedFileSystem& files_;
  std::uint64_t inode_;
  std::uint64_t generation_;
  std::string path_;
  bool read_only_;
};

class SimulatedLock final : public DirectoryLock {
 public:
  SimulatedLock(SimulatedFileSystem& files, std::string path)
      : files_(files), path_(std::move(path)), generation_(files.generation_) {}
  ~SimulatedLock() override {
    if (generation_ == files_.generation_) {
      files_.locked_.erase(path_);
    }
  }
  SimulatedLock(const SimulatedLock&) = delete;
  SimulatedLock& operator=(const SimulatedLock&) = delete;

 private:
  SimulatedFileSystem& files_;
  std::string path_;
  std::uint64_t generation_;
};

SimulatedFileSystem::SimulatedFileSystem(const SimulatedFileSystem& other)
    : inodes_(other.inodes_),
      directories_(other.directories_),
      next_inode_(other.next_inode_),
      next_order_(other.next_order_),
      sync_points_(other.sync_points_),
      power_off_at_(other.power_off_at_),
      power_off_(other.power_off_),
      fail_next_sync_(other.fail_next_sync_),
      read_only_(other.read_only_),
      bytes_left_(other.bytes_left_) {}

Status SimulatedFileSystem::CheckUsable(const std::string& path, bool for_writing) const {
  if (power_off_) {
    return MakeError(ErrorCode::kIo, path, "the power is off");
  }
  if (for_writing && read_only_) {
    return MakeError(ErrorCode::kPermissionDenied, path, "read-only file system");
  }
  return {};
}

bool SimulatedFileSystem::PassSyncPoint() {
  const std::uint64_t point = sync_points_++;
  if (power_off_at_.has_value() && point >= *power_off_at_) {
    power_off_ = true;
  }
  return !power_off_;
}

SimulatedFileSystem::Directory* SimulatedFileSystem::FindDirectory(const std::string& path) {
  const auto found = directories_.find(path);
  return found == directories_.end() ? nullptr : &found->second;
}

std::uint64_t SimulatedFileSystem::Find(const std::string& path) {
  const SplitPath split = Split(path);
  const Directory* directory = FindDirectory(split.directory);
  if (directory == nullptr) {
    return 0;
  }
  const auto found = directory->cache.find(split.name);
  return found == directory->cache.end() ? 0 : found->second;
}

SimulatedFileSystem::Inode& SimulatedFileSystem::Existing(const std::string& path) {
  const std::uint64_t inode = Find(path);
  HF_CHECK(inode != 0, "the file to be damaged does not exist");
  return inodes_.at(inode);
}

std::uint64_t SimulatedFileSystem::NewInode() {
  const std::uint64_t inode = next_inode_++;
  inodes_[inode].birth_time_ns = static_cast<std::int64_t>(inode) * 1000;
  return inode;
}

void SimulatedFileSystem::Apply(const NameChange& change, Names& names) {
  names.erase(change.removed);
  if (change.inode != 0) {
    names[change.added] = change.inode;
  }
}

void SimulatedFileSystem::Change(const std::string& directory, NameChange change) {
  Directory& found = directories_.at(directory);
  change.order = next_order_++;
  Apply(change, found.cache);
  found.unsynced.push_back(std::move(change));
}

Status SimulatedFileSystem::CreateDirectory(const std::string& path) {
  if (Status usable = CheckUsable(path, FindDirectory(path) == nullptr); !usable.ok()) {
    return usable;
  }
  if (FindDirectory(path) == nullptr) {
    Directory& made = directories_[path];
    made.inode = next_inode_++;
    made.birth_time_ns = static_cast<std::int64_t>(made.inode) * 1000;
  }
  return {};
}

Result<std::unique_ptr<DirectoryLock>> SimulatedFileSystem::LockDirectory(const std::string& path) {
  if (Status usable = CheckUsable(path, true); !usable.ok()) {
    return usable.error();
  }
  if (FindDirectory(path) == nullptr) {
    return MakeError(ErrorCode::kNotFound, path, "no such directory");
  }
  if (locked_.count(path) != 0) {
    return MakeError(ErrorCode::kBusy, path, "in use by another process");
  }
  locked_[path] = true;
  return std::unique_ptr<DirectoryLock>(std::make_unique<SimulatedLock>(*this, path));
}

Result<std::vector<std::string>> SimulatedFileSystem::List(const std::string& path) {
  if (Status usable = CheckUsable(path, false); !usable.ok()) {
    return usable.error();
  }
  const Directory* directory = FindDirectory(path);
  if (directory == nullptr) {
    return MakeError(ErrorCode::kNotFound, path, "no such directory");
  }
  std::vector<std::string> names;
  for (const auto& [name, inode] : directory->cache) {
    names.push_back(name);
  }
  return names;
}

bool SimulatedFileSystem::Exists(const std::string& path) {
  return !power_off_ && (Find(path) != 0 || FindDirectory(path) != nullptr);
}

Result<std::unique_ptr<File>> SimulatedFileSystem::Create(const std::string& path) {
  if (Status usable = CheckUsable(path, true); !usable.ok()) {
    return usable.error();
  }
  const SplitPath split = Split(path);
  if (FindDirectory(split.directory) == nullptr) {
    return MakeError(ErrorCode::kNotFound, path, "no such directory");
  }
  if (Find(path) != 0) {
    return MakeError(ErrorCode::kAlreadyExists, path, "exists");
  }
  const std::uint64_t inode = NewInode();
  Change(split.directory, NameChange{"", split.name, inode, 0});
  return std::unique_ptr<File>(std::make_unique<SimulatedFile>(*this, inode, path, false));
}

Result<std::unique_ptr<File>> SimulatedFileSystem::Open(const std::string& path, bool read_only) {
  if (Status usable = CheckUsable(path, !read_only); !usable.ok()) {
    return usable.error();
  }
  const std::uint64_t inode = Find(path);
  if (inode == 0) {
    return MakeError(ErrorCode::kNotFound, path, "no such file");
  }
  return std::unique_ptr<File>(std::make_unique<SimulatedFile>(*this, inode, path, read_only));
}

Status SimulatedFileSystem::Rename(const std::string& from, const std::string& to) {
  if (Status usable = CheckUsable(from, true); !usable.ok()) {
    return usable;
  }
  const std::uint64_t inode = Find(from);
  if (inode == 0) {
    return MakeError(ErrorCode::kNotFound, from, "no such file");
  }
  HF_CHECK(Split(from).directory == Split(to).directory, "only within one directory");
  Change(Split(from).directory, NameChange{Split(from).name, Split(to).name, inode, 0});
  return {};
}

Status SimulatedFileSystem::Remove(const std::string& path) {
  if (Status usable = CheckUsable(path, true); !usable.ok()) {
    return usable;
  }
  const std::uint64_t inode = Find(path);
  if (inode == 0) {
    return MakeError(ErrorCode::kNotFound, path, "no such file");
  }
  if (bytes_left_.has_value()) {
    *bytes_left_ += inodes_.at(inode).cache.size();
  }
  Change(Split(path).directory, NameChange{Split(path).name, "", 0, 0});
  return {};
}

Status SimulatedFileSystem::SyncDirectory(const std::string& path) {
  if (Status usable = CheckUsable(path, true); !usable.ok()) {
    return usable;
  }
  Directory* directory = FindDirectory(path);
  if (directory == nullptr) {
    return MakeError(ErrorCode::kNotFound, path, "no such directory");
  }
  if (!PassSyncPoint()) {
    return CheckUsable(path, true);
  }
  directory->platter = directory->cache;
  directory->unsynced.clear();
  return {};
}

Result<FileIdentity> SimulatedFileSystem::Identity(const std::string& path) {
  if (Status usable = CheckUsable(path, false); !usable.ok()) {
    return usable.error();
  }
  if (const Directory* directory = FindDirectory(path); directory != nullptr) {
    return FileIdentity{directory->inode, directory->birth_time_ns};
  }
  const std::uint64_t inode = Find(path);
  if (inode == 0) {
    return MakeError(ErrorCode::kNotFound, path, "no such file");
  }
  return FileIdentity{inode, inodes_.at(inode).birth_time_ns};
}

Result<std::uint64_t> SimulatedFileSystem::FreeSpace(const std::string& path) {
  if (Status usable = CheckUsable(path, false); !usable.ok()) {
    return usable.error();
  }
  return bytes_left_.value_or(std::uint64_t{1} << 40U);
}

Status SimulatedFileSystem::WriteTo(std::uint64_t inode, std::uint64_t offset,
                                    std::string_view bytes) {
  const std::size_t size =
      bytes_left_.has_value() ? std::min<std::uint64_t>(bytes.size(), *bytes_left_) : bytes.size();
  if (size > 0) {
    Inode& file = inodes_.at(inode);
    Put(file.cache, offset, bytes.substr(0, size));
    file.unsynced.push_back(Write{offset, std::string(bytes.substr(0, size)), next_order_++});
  }
  if (bytes_left_.has_value()) {
    *bytes_left_ -= size;
  }
  if (size < bytes.size()) {
    return MakeError(ErrorCode::kDiskFull, PathOf(inode), "no space left");
  }
  return {};
}

Status SimulatedFileSystem::SyncInode(std::uint64_t inode, const std::string& path) {
  if (!PassSyncPoint()) {
    return CheckUsable(path, true);
  }
  Inode& file = inodes_.at(inode);
  if (std::exchange(fail_next_sync_, false)) {
    file.unsynced.clear();
    return MakeError(ErrorCode::kIo, path, "the disk failed to sync");
  }
  for (const Write& write : file.unsynced) {
    Put(file.platter, write.offset, write.bytes);
  }
  file.unsynced.clear();
  return {};
}

std::string SimulatedFileSystem::PathOf(std::uint64_t inode) const {
  for (const auto& [path, directory] : directories_) {
    for (const auto& [name, number] : directory.cache) {
      if (number == inode) {
        return path + "/" + name;
      }
    }
  }
  return "(removed)";
}

void SimulatedFileSystem::CrashProcess() {
  ++generation_;
  locked_.clear();
  power_off_ = false;
  power_off_at_.reset();
}

void SimulatedFileSystem::CrashPower(std::uint64_t seed,
                                     const std::function<Fate(const Unsynced&)>& decide) {
  CrashProcess();
  fail_next_sync_ = false;
  Random random(seed);
  std::map<std::uint64_t, std::function<void()>> by_order;
  for (auto& [inode, file] : inodes_) {
    for (const Write& write : file.unsynced) {
      by_order[write.order] = [&decide, &random, path = PathOf(inode), &platter = file.platter,
                               &write] {
        const Unsynced what{path, false, write.offset, write.bytes.size()};
        PutWithFate(platter, write.offset, write.bytes, decide(what), random);
      };
    }
  }
  for (auto& [path, directory] : directories_) {
    for (const NameChange& change : directory.unsynced) {
      by_order[change.order] = [&decide, &path = path, &names = directory.platter, &change] {
        if (decide(Unsynced{path, true, 0, 0}) == Fate::kKept) {
          Apply(change, names);
        }
      };
    }
  }
  for (const auto& [order, settle] : by_order) {
    settle();
  }
  for (auto& [inode, file] : inodes_) {
    file.unsynced.clear();
    file.cache = file.platter;
  }
  for (auto& [path, directory] : directories_) {
    directory.unsynced.clear();
    directory.cache = directory.platter;
  }
  ForgetUnnamed();
}

void SimulatedFileSystem::CrashPower(std::uint64_t seed, const FateOdds& odds) {
  Random random(seed ^ 0x5bd1e995U);
  const std::array<unsigned, 4> weights{odds.kept, odds.dropped, odds.torn, odds.garbled};
  const unsigned total = odds.kept + odds.dropped + odds.torn + odds.garbled;
  HF_CHECK(total > 0, "no fate is possible");
  CrashPower(seed, [&](const Unsynced&) {
    std::uint64_t pick = random.Below(total);
    std::size_t fate = 0;
    while (pick >= weights[fate]) {
      pick -= weights[fate++];
    }
    return static_cast<Fate>(fate);
  });
}

void SimulatedFileSystem::ForgetUnnamed() {
  std::map<std::uint64_t, Inode> named;
  for (const auto& [path, directory] : directories_) {
    for (const auto& [name, inode] : directory.cache) {
      if (const auto found = inodes_.find(inode); found != inodes_.end()) {
        named.insert(inodes_.extract(found));
      }
    }
  }
  inodes_ = std::move(named);
}

void SimulatedFileSystem::FlipBit(const std::string& path, std::uint64_t offset, unsigned bit) {
  const std::string& content = Existing(path).cache;
  HF_CHECK(offset < content.size() && bit < 8, "the bit to be flipped does not exist");
  const auto byte = static_cast<unsigned char>(content[static_cast<std::size_t>(offset)]);
  const char flipped = static_cast<char>(byte ^ (1U << bit));
  Overwrite(path, offset, std::string_view(&flipped, 1));
}

void SimulatedFileSystem::Overwrite(const std::string& path, std::uint64_t offset,
                                    std::string_view bytes) {
  Put(Existing(path).cache, offset, bytes);
  Put(Existing(path).platter, offset, bytes);
}

void SimulatedFileSystem::Truncate(const std::string& path, std::uint64_t size) {
  Existing(path).cache.resize(static_cast<std::size_t>(size));
  Existing(path).platter.resize(static_cast<std::size_t>(size));
}

void SimulatedFileSystem::CopyDirectory(const std::string& from, const std::string& to) {
  HF_CHECK(FindDirectory(from) != nullptr, "the directory to be copied does not exist");
  HF_CHECK(CreateDirectory(to).ok(), "the copy cannot be created");
  Directory& target = directories_.at(to);
  for (const auto& [name, inode] : directories_.at(from).cache) {
    const std::string content = inodes_.at(inode).cache;
    const std::uint64_t copy = NewInode();
    inodes_.at(copy).cache = content;
    inodes_.at(copy).platter = content;
    target.cache[name] = copy;
    target.platter[name] = copy;
  }
}

}  // namespace holdfast::storage
