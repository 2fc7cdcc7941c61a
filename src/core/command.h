// Commands: everything that changes the state. They are data; codec/ writes them into batches,
// machine.h applies them. What each does: docs/SEMANTICS.md. Check a command with Validate
// (validate.h) before it is journaled; what was journaled applies without failing.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/id.h"
#include "base/time.h"
#include "core/policy.h"

namespace holdfast::core {

using Token = std::uint64_t;
using WaiterId = std::uint64_t;  // unique over the log

// Frees remembered request ids early. No client id: they stay for the namespace's request memory.
struct ClientContext {
  std::string client_id;
  std::uint64_t sequence = 0;
  std::uint64_t answered_below = 0;
};

struct MetadataEntry {
  std::string key;
  std::string value;
  bool operator==(const MetadataEntry&) const = default;
};

// An acquire, or a campaign if `campaign`: then `value` is what the leader proclaims.
struct Acquire {
  std::string resource;
  std::string request_id;  // never empty here: fronts make one if the caller did not
  std::string owner;
  Duration ttl{};                       // 0: the namespace's default
  Id128 session{};                      // zero: none
  Duration wait{};                      // 0: try once
  std::vector<MetadataEntry> metadata;  // sorted by key
  bool campaign = false;
  std::string value;
  ClientContext client;
  Id128 lease_id{};  // stamped by the engine; becomes the lease's id if this is granted
};

struct Renew {
  std::string resource;
  Id128 lease_id{};
};

struct Release {
  std::string resource;
  Id128 lease_id{};
};

struct Cancel {
  std::string resource;
  std::string request_id;
  std::string owner;
  ClientContext client;
};

// A waiter's connection is gone. Ignored unless it is still at this attachment.
struct Detach {
  WaiterId waiter = 0;
  std::uint64_t attachment = 0;
};

struct Break {
  std::string resource;
  std::string reason;
  bool dry_run = false;
  bool now = false;
  bool unsafe = false;
};

struct Proclaim {
  std::string resource;
  Id128 lease_id{};
  std::string value;
};

struct OpenSession {
  std::string request_id;
  std::string owner;
  Duration ttl{};  // 0: the namespace's default
  ClientContext client;
  Id128 session_id{};  // stamped by the engine
};

struct KeepAlive {
  Id128 session_id{};
};

struct CloseSession {
  Id128 session_id{};
};

enum class NamespaceVerb : std::uint8_t { kCreate = 1, kSet = 2, kDelete = 3 };
constexpr bool EnumInRange(NamespaceVerb verb) {
  return verb >= NamespaceVerb::kCreate && verb <= NamespaceVerb::kDelete;
}

struct ChangeNamespace {
  NamespaceVerb verb = NamespaceVerb::kSet;
  std::string name;
  PolicyPatch patch;
};

// First command of the first batch of a leader or of a process start.
struct EpochStart {
  std::uint64_t epoch = 0;
  Duration grace{};  // the failover grace that leases and sessions get at most, 0 .. 1 min
};

struct SetFeatureLevel {
  std::uint32_t level = 0;
};

// After a recovery with lost state: tokens go on above the floor, and nothing is granted for
// `block`.
struct RecoverState {
  Token token_floor = 0;
  Duration block{};
};

using CommandBody =
    std::variant<Acquire, Renew, Release, Cancel, Detach, Break, Proclaim, OpenSession, KeepAlive,
                 CloseSession, ChangeNamespace, EpochStart, SetFeatureLevel, RecoverState>;

struct Command {
  std::string principal;   // the authenticated caller; empty for the engine's own commands
  std::string name_space;  // empty where it has no meaning
  CommandBody body;
};

// One sealed batch: what the log holds.
struct Batch {
  std::uint64_t index = 0;  // of its last entry in the log
  std::uint64_t epoch = 0;
  Timestamp time{};  // never falls, never rises by more than kTimeStepMax
  WallTime wall{};   // never falls; display only
  std::vector<Command> commands;
};

}  // namespace holdfast::core
