// The planted bugs that simulated lives must be seen to catch, by name. Some of base/planted.h show
// only in other tests: what they break cannot happen here, or is not visible from outside.
#pragma once

#include <vector>

#include "base/planted.h"

namespace holdfast::sim {

struct PlantedBug {
  const char* name;
  Bug bug;
};

inline const std::vector<PlantedBug>& PlantedBugs() {
  static const std::vector<PlantedBug> bugs = {
      {"append-without-guard", Bug::kAppendWithoutEpochGuard},
      {"retry-with-new-bytes", Bug::kRetriesWithNewBytes},
      {"fragments-forgotten", Bug::kForgetsFragments},
      {"deadline-from-receipt", Bug::kDeadlineFromReceipt},
      {"state-time-catches-up", Bug::kStateTimeCatchesUp},
      {"state-time-before-seal", Bug::kStateTimeBeforeSeal},
      {"grace-without-bound", Bug::kGraceUnbounded},
      {"late-cancel-ends-lease", Bug::kLateCancelEndsLease},
      {"refusals-forgotten", Bug::kForgetsRefusals},
      {"snapshot-forgets-requests", Bug::kSnapshotForgetsRequests},
      {"old-lease-releases", Bug::kOldLeaseReleases},
      {"token-per-resource", Bug::kTokenPerResource},
      {"wakes-detached", Bug::kWakesDetached},
      {"acks-before-sync", Bug::kAcksBeforeSync},
      {"trusts-page-cache", Bug::kTrustsPageCache},
  };
  return bugs;
}

}  // namespace holdfast::sim
