// State time: how far the log's clock moves with each batch.
//
//   t(k) = t(k-1) + min(1 s, mono(k) - mono(k-1))
//
// What exceeds a second is lost for ever, and the first batch of an epoch or of a process adds
// nothing. So state time never runs faster than real time: a stalled leader, a lost quorum or a
// restart makes leases longer, never shorter (I7).
#pragma once

#include <optional>

#include "base/time.h"

namespace holdfast::engine {

// Pure; not thread-safe.
class StateTimer {
 public:
  // `last` is the time of the last batch in the log.
  explicit StateTimer(Timestamp last) : last_(last) {}

  // The stamp of a batch that was sealed before `mono` was read. Commit() makes it the last one; a
  // batch that was not committed loses its time.
  Timestamp Stamp(BootTime mono);
  void Commit(Timestamp stamped) { last_ = stamped; }

  // What the stamp would be now: the present for reads.
  Timestamp Present(BootTime mono) const;

  // A new epoch begins: whatever time has passed since the last batch is unknown.
  void StartEpoch(Timestamp last);

 private:
  Duration Step(BootTime mono) const;

  Timestamp last_;
  std::optional<BootTime> anchor_;
  Duration debt_{};  // only of a planted bug
};

}  // namespace holdfast::engine
