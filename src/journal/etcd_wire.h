// What Holdfast says to etcd and hears from it, as plain data: the logic of the replicated journal
// speaks in these, the gRPC shell (src/etcd) and the fake of the tests carry them out.
//
// Everything but the watch is one transaction: guards, and what to do if they hold or not. Only
// equality is compared. Facts of etcd's API: rpc.proto of etcd 3.4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "holdfast/result.h"

namespace holdfast::journal::etcd {

using Revision = std::int64_t;  // of the whole store; rises with each transaction that writes

struct KeyValue {
  std::string key;
  std::string value;
  Revision create_revision = 0;
  Revision mod_revision = 0;
};

// True if the key has exactly this revision; 0: the key does not exist.
struct Guard {
  enum class Of : std::uint8_t { kCreated, kModified };
  std::string key;
  Of of = Of::kModified;
  Revision revision = 0;
};

struct Put {
  std::string key;
  std::string value;
};
// The keys in [key, end), in order; only `key` with an empty `end`.
struct Get {
  std::string key;
  std::string end;
  std::int64_t limit = 0;  // 0: all
  bool keys_only = false;
};
struct Delete {
  std::string key;
  std::string end;
};
using Operation = std::variant<Put, Get, Delete>;

// Atomic and linearizable. At most 128 guards and operations on either side.
struct Txn {
  std::vector<Guard> guards;
  std::vector<Operation> then;
  std::vector<Operation> otherwise;
};

struct TxnResult {
  std::uint64_t cluster_id = 0;
  Revision revision = 0;  // of the store when it was done
  bool succeeded = false;
  std::vector<std::vector<KeyValue>> gets;  // one for each operation of the branch; of a Get filled
};

// The first pair that operation `number` of the branch found; null if none.
inline const KeyValue* FirstOf(const TxnResult& result, std::size_t number) {
  return number < result.gets.size() && !result.gets[number].empty() ? &result.gets[number].front()
                                                                     : nullptr;
}

// How much is known of a transaction without a result.
enum class Certainty : std::uint8_t {
  kNothingDone,  // refused before it was proposed
  kUnknown,      // done, not done, or still to be done: only the same bytes may be sent again
  kFatal,        // never going to work: damaged store, refused credentials, refused version
};

struct Failure {
  Certainty certainty = Certainty::kUnknown;
  Error error;
};

using Answer = std::variant<TxnResult, Failure>;

struct Change {
  bool deleted = false;
  KeyValue pair;
};

// Some changes below the watched prefix, in order of their revisions.
struct WatchChanges {
  std::uint64_t cluster_id = 0;
  Revision revision = 0;
  std::vector<Change> changes;
};

// Nothing more comes from this watch; what was missed has to be read again.
struct WatchEnd {
  Error error;
};

using WatchNews = std::variant<WatchChanges, WatchEnd>;

// How an endpoint was when it was asked.
struct EndpointHealth {
  std::string endpoint;
  bool answers = false;
  std::string version;
  std::uint64_t db_bytes = 0;  // of its file: what the space quota is about
  std::uint64_t db_bytes_in_use = 0;
  bool leads = false;
  bool no_space = false;             // its alarm stands: it refuses every write
  std::vector<std::string> reports;  // what it says of itself: alarms, no leader
  std::string problem;               // why it does not answer, or must not be used
  std::string advice;                // about its version
};

// The end of the range of all keys that begin with `prefix`, which does not end in 0xff.
inline std::string PrefixEnd(std::string prefix) {
  prefix.back() = static_cast<char>(static_cast<unsigned char>(prefix.back()) + 1);
  return prefix;
}

}  // namespace holdfast::journal::etcd
