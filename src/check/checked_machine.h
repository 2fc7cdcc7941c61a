// A Machine under watch: every batch is also applied to a second Machine (I10), the state is
// recounted, and the history is judged (history_checker.h). For scenarios, model tests and the
// simulator. Not thread-safe.
#pragma once

#include <memory>
#include <string>

#include "check/history_checker.h"
#include "core/machine.h"

namespace holdfast::check {

class CheckedMachine {
 public:
  // Applies the batch. The answer is valid until the next call.
  const core::Applied& Apply(const core::Batch& batch);
  // Goes on with a copy that went through the snapshot's bytes.
  void ReplaceBySnapshot();
  // Compares the digests of both machines. Slow.
  void CompareDigests();

  // The first rule that was broken, or empty.
  const std::string& violation() const { return violation_; }
  const core::Machine& machine() const { return *machine_; }

 private:
  void Fail(const std::string& what);

  std::unique_ptr<core::Machine> machine_ = std::make_unique<core::Machine>();
  core::Machine replica_;
  core::Applied applied_;
  core::Applied replica_applied_;
  HistoryChecker history_;
  std::string violation_;
};

}  // namespace holdfast::check
