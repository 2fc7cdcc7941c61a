// The three moves against etcd on which the safety of the replicated log rests, each as a small
// state machine without I/O: take over the epoch, append to a numbered slot, follow the log. The
// owner sends txn() as often as it is told to, always the same bytes, and hands the answers back.
//
// An outcome that is unknown is never given up and never replaced by other bytes: the same
// transaction is sent again until the store shows what became of it. None is thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "holdfast/result.h"
#include "journal/chain.h"
#include "journal/etcd_layout.h"
#include "journal/etcd_wire.h"
#include "journal/journal.h"

namespace holdfast::journal::etcd {

// Raises the epoch by compare-and-swap. From the moment it is won no append of an older leader can
// succeed: the tail of the log is frozen for whoever reads it after that.
class Takeover {
 public:
  enum class Verdict : std::uint8_t {
    kWon,     // epoch_revision() is ours
    kAgain,   // not known: send txn() again
    kLost,    // somebody else changed the epoch: current() says who
    kBroken,  // error() says why; no node can go on with this store
  };

  // `expected` is the revision of the epoch record that is to be replaced.
  Takeover(const Layout& layout, const EpochRecord& mine, Revision expected);

  const Txn& txn() const { return txn_; }
  Verdict OnAnswer(const Answer& answer);

  Revision epoch_revision() const { return epoch_revision_; }
  const std::optional<EpochRecord>& current() const { return current_; }
  const Error& error() const { return error_; }

 private:
  Verdict Broken(Error error);

  const EpochRecord mine_;
  Txn txn_;
  Revision epoch_revision_ = 0;
  std::optional<EpochRecord> current_;
  Error error_;
};

// Writes entries into their slots, one at a time, guarded by the epoch, by the slot being empty and
// by the slot before being the one that this leader knows.
class Appender {
 public:
  enum class Verdict : std::uint8_t {
    kCommitted,
    kAgain,
    kDeposed,  // another epoch has begun; whether the entry is in the log is for its reader to see
    kBroken,
  };

  // `last_index` and `last_revision` are of the newest slot; 0 when the log is empty.
  Appender(const Layout& layout, Revision epoch_revision, std::uint64_t last_index,
           Revision last_revision);

  // The entry must be the one after the last. Until it is committed no other may begin.
  void Begin(const Entry& entry);
  bool busy() const { return !txn_.then.empty(); }
  const Txn& txn() const { return txn_; }
  Verdict OnAnswer(const Answer& answer);

  Revision last_revision() const { return last_revision_; }
  // The guard of everything else that the leader writes.
  Guard guard() const;
  const Error& error() const { return error_; }

 private:
  Verdict Committed(Revision revision);
  Verdict Broken(Error error);

  const Layout layout_;
  const Revision epoch_revision_;
  std::uint64_t last_index_;
  Revision last_revision_;
  Txn txn_;
  std::string value_;
  Error error_;
};

// Takes the slots in order, from a list or a watch, and checks by itself that nothing is missing,
// doubled or changed: no guarantee of a watch is relied upon.
class Follower {
 public:
  enum class Verdict : std::uint8_t {
    kNext,   // `entry` is the next one
    kKnown,  // it was there already
    kGap,    // entries are missing: list again
    kBroken,
  };

  Follower(const Layout& layout, const ChainEnd& end) : layout_(layout), end_(end) {}

  Verdict Take(const KeyValue& pair, Entry& entry);
  // `pair` must be the entry that this node ends with; false if the log has another one there.
  bool Confirm(const KeyValue& pair);
  // An entry that this node has appended itself.
  void Appended(const Entry& entry);

  const Position& last() const { return end_.last; }
  Timestamp time() const { return end_.time; }  // of the last entry
  Revision last_revision() const { return last_revision_; }
  const Error& error() const { return error_; }

 private:
  Layout layout_;
  ChainEnd end_;
  Revision last_revision_ = 0;
  Error error_;
};

}  // namespace holdfast::journal::etcd
