// The keys of one Holdfast cluster in etcd, and what their values hold. Format:
// docs/formats/etcd.md.
//
//   PREFIX/cluster     what this log is; written once
//   PREFIX/epoch       who leads; its mod revision guards every write of the leader
//   PREFIX/trim        where the log begins
//   PREFIX/floor       no token above it was ever granted
//   PREFIX/log/INDEX   one entry, INDEX in 16 hexadecimal digits
//   PREFIX/node/NAME   what a node says of itself; unguarded, never trusted for safety
//
// No key has an etcd lease: ticks in the log show that the leader lives, the epoch fences it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/archive.h"
#include "base/id.h"
#include "base/time.h"
#include "holdfast/result.h"
#include "journal/etcd_wire.h"
#include "journal/journal.h"

namespace holdfast::journal::etcd {

// Pure.
class Layout {
 public:
  // `prefix` without a slash at the end, such as "/holdfast/main".
  explicit Layout(std::string prefix) : prefix_(std::move(prefix)) {}

  std::string Cluster() const { return prefix_ + "/cluster"; }
  std::string Epoch() const { return prefix_ + "/epoch"; }
  std::string Trim() const { return prefix_ + "/trim"; }
  std::string Floor() const { return prefix_ + "/floor"; }
  std::string Slot(std::uint64_t index) const;
  std::string Slots() const { return prefix_ + "/log/"; }
  std::string Node(const std::string& name) const { return Nodes() + name; }
  std::string Nodes() const { return prefix_ + "/node/"; }
  std::string All() const { return prefix_ + "/"; }

 private:
  std::string prefix_;
};

struct ClusterRecord {
  std::uint32_t format = 1;
  Id128 log_id{};                     // stays the same for the life of the log
  std::uint64_t etcd_cluster_id = 0;  // another one: a restored or foreign etcd
};

struct EpochRecord {
  std::uint64_t epoch = 0;
  std::string node;
  std::string address;  // where the leader's peers reach it
  Id128 attempt{};      // of the takeover that wrote it: tells an unknown outcome
  // The leader has gone in good order: nobody leads, and the next may begin at once.
  bool vacant = false;
};

struct TrimRecord {
  std::uint64_t first_index = 1;  // the oldest entry that has to be there
};

// The leader raises it before it grants tokens above it. So tokens go on rising even when every
// node has lost its disk, and the part of the log that is trimmed with it.
struct FloorRecord {
  std::uint64_t token_floor = 0;
};

struct NodeRecord {
  std::string address;
  std::string zone;
  std::uint64_t applied = 0;
  std::uint64_t snapshot_index = 0;  // synced on its disk
  Id128 snapshot_hash{};             // EntryHash of that entry
  std::uint64_t beat = 0;            // changes with each write: the node is alive
  std::uint64_t incarnation = 0;     // of its process
  std::uint32_t feature_level_max = 0;
  std::string client_address;  // where clients reach it
};

template <typename A>
void Archive(A& a, ClusterRecord& r) {
  a(r.format, r.log_id, r.etcd_cluster_id);
}
template <typename A>
void Archive(A& a, EpochRecord& r) {
  a(r.epoch, r.node, r.address, r.attempt, r.vacant);
}
template <typename A>
void Archive(A& a, TrimRecord& r) {
  a(r.first_index);
}
template <typename A>
void Archive(A& a, FloorRecord& r) {
  a(r.token_floor);
}
template <typename A>
void Archive(A& a, NodeRecord& r) {
  a(r.address, r.zone, r.applied, r.snapshot_index, r.snapshot_hash, r.beat, r.incarnation,
    r.feature_level_max, r.client_address);
}

// Every value ends in a CRC-32C of what is before it.
std::string Seal(std::string bytes);
// The bytes without it; kCorrupt names the key.
Result<std::string_view> Unseal(const KeyValue& pair);

template <typename Record>
std::string EncodeRecord(const Record& record) {
  ByteWriter out;
  ArchiveWriter writer(out);
  writer(record);
  return Seal(out.Take());
}

// What follows the known fields is of a newer build, and ignored.
template <typename Record>
Result<Record> DecodeRecord(const KeyValue& pair) {
  const Result<std::string_view> bytes = Unseal(pair);
  if (!bytes.ok()) {
    return bytes.error();
  }
  ByteReader in(*bytes);
  ArchiveReader reader(in);
  Record record;
  reader(record);
  if (!in.ok()) {
    return Error{ErrorCode::kCorrupt, pair.key + " in etcd does not decode", {}, {}};
  }
  return record;
}

std::string EncodeEntry(const Entry& entry);
// kCorrupt too if the entry is not the one of its key.
Result<Entry> DecodeEntry(const Layout& layout, const KeyValue& pair);

}  // namespace holdfast::journal::etcd
