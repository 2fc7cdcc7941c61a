#include "check/checked_machine.h"

namespace holdfast::check {

void CheckedMachine::Fail(const std::string& what) {
  if (violation_.empty()) {
    violation_ = what;
  }
}

const core::Applied& CheckedMachine::Apply(const core::Batch& batch) {
  machine_->Apply(batch, applied_);
  replica_.Apply(batch, replica_applied_);
  if (machine_->trace() != replica_.trace()) {
    Fail("I10: a replica answers batch " + std::to_string(batch.index) + " otherwise");
  }
  if (std::string wrong = machine_->FindInconsistency(); !wrong.empty()) {
    Fail("state: " + wrong + " (batch " + std::to_string(batch.index) + ")");
  }
  if (std::string wrong = history_.Observe(batch, applied_, machine_->HasBacklog());
      !wrong.empty()) {
    Fail(wrong);
  }
  return applied_;
}

void CheckedMachine::ReplaceBySnapshot() {
  std::string bytes;
  machine_->Save([&](std::string_view piece) { bytes.append(piece); });
  Result<std::unique_ptr<core::Machine>> copy = core::Machine::Load(bytes);
  if (!copy.ok()) {
    return Fail("I10: the snapshot does not load: " + copy.error().message);
  }
  if ((*copy)->Digest() != machine_->Digest()) {
    Fail("I10: the copy from a snapshot has another digest");
  }
  if (std::string wrong = (*copy)->FindInconsistency(); !wrong.empty()) {
    Fail("I10: the copy from a snapshot is inconsistent: " + wrong);
  }
  machine_ = std::move(*copy);
}

void CheckedMachine::CompareDigests() {
  if (machine_->Digest() != replica_.Digest()) {
    Fail("I10: a replica has another digest");
  }
}

}  // namespace holdfast::check
