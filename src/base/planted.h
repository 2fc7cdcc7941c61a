// Planted bugs: switches that break one rule each, so that a test can show that its checker goes
// red. They exist only where HOLDFAST_PLANTED_BUGS is defined (test presets); in a release build
// Planted() is constant false.
#pragma once

namespace holdfast {

enum class Bug {
  kNone,
  kStateTimeCatchesUp,     // a stall is added to state time afterwards
  kStateTimeKeepsAnchor,   // the first batch of an epoch counts the time since the previous epoch's
                           // last batch
  kStateTimeTruncates,     // time below a millisecond is lost in each batch
  kStateTimeBeforeSeal,    // the stamp is taken before the batch is sealed
  kDeadlineFromReceipt,    // client deadline counted from the reply
  kDeadlineFromFirstSend,  // client deadline counted from the first send of a retried request
  kOldLeaseReleases,       // a release does not compare the lease id
  kTokenPerResource,       // tokens rise per resource only
  kExpiredRenews,          // a renewal revives a lease that is over
  kWakesDetached,          // a detached waiter is granted
  kForgetsRefusals,        // refusals are not remembered under their request id
  kGraceUnbounded,         // every epoch start adds the whole grace again
  kLateCancelEndsLease,    // a cancel ends a confirmed lease
  kSnapshotForgetsRequests,  // request ids are missing from the snapshot
  kAcksBeforeSync,           // the journal answers before fdatasync
  kTrustsPageCache,          // recovery does not rewrite the tail
  kAppendWithoutEpochGuard,  // a deposed leader can still append
  kRetriesWithNewBytes,      // an append whose outcome is unknown is sealed anew
  kForgetsFragments,         // a deposed leader keeps the position within an unfinished batch
};

#ifdef HOLDFAST_PLANTED_BUGS
Bug& PlantedBugInThread();
inline bool Planted(Bug bug) {
  return PlantedBugInThread() == bug;
}

// Plants one bug in the calling thread for the life of this object.
class PlantBug {
 public:
  explicit PlantBug(Bug bug) : previous_(PlantedBugInThread()) { PlantedBugInThread() = bug; }
  ~PlantBug() { PlantedBugInThread() = previous_; }
  PlantBug(const PlantBug&) = delete;
  PlantBug& operator=(const PlantBug&) = delete;

 private:
  Bug previous_;
};
#else
constexpr bool Planted(Bug) {
  return false;
}
#endif

}  // namespace holdfast
