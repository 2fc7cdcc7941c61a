// Random histories: small steps that a world turns into batches. Steps are plain numbers, so that
// RapidCheck can shrink a failing history; what they mean depends on what the batches before have
// answered.
#pragma once

#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <rapidcheck.h>

#include "core/command.h"
#include "core/event.h"

namespace holdfast::model {

struct Step {
  int verb = 0;
  int who = 0;     // principal, owner, client
  int what = 0;    // resource and namespace
  int which = 0;   // request, lease or session
  int choice = 0;  // flags and lengths
  int pause = 0;   // the batch ends after this step unless it is 0; else how state time moves
};
std::ostream& operator<<(std::ostream& out, const Step& step);
rc::Gen<std::vector<Step>> AnySteps();

class World {
 public:
  World();

  // The first batches: an epoch and a second namespace.
  core::Batch FirstBatch();
  // Adds the command of this step to the batch under way. True: the batch is complete.
  bool Add(const Step& step);
  core::Batch Seal();
  // Learns ids from the answers to a batch.
  void Observe(const core::Batch& batch, const core::Applied& applied);
  // "a" and "b" of the namespaces "default" and "f".
  static std::vector<std::pair<std::string, std::string>> Resources();
  const std::vector<std::pair<std::string, Id128>>& sessions() const { return sessions_; }
  bool wants_snapshot() const { return wants_snapshot_; }

 private:
  struct Known {
    std::string name_space;
    std::string resource;
    Id128 lease{};
  };
  struct Waiting {
    core::WaiterId waiter = 0;
    std::uint64_t attachment = 0;
  };

  core::CommandBody AcquireOf(const Step& step);
  core::CommandBody BodyOf(const Step& step);
  core::ChangeNamespace ChangeOf(const Step& step);
  core::ClientContext ClientOf(const Step& step);
  const Known& LeaseOf(const Step& step);
  std::pair<std::string, Id128> SessionOf(const Step& step);
  Id128 FreshId();
  void Push(core::Command command) { commands_.push_back(std::move(command)); }

  std::vector<core::Command> commands_;
  std::vector<core::Command> asked_;  // acquires, to ask again
  std::vector<Known> leases_;
  std::vector<std::pair<std::string, Id128>> sessions_;
  std::map<core::WaiterId, std::pair<std::string, std::string>> waiter_at_;
  std::vector<Waiting> waiting_;
  std::map<std::string, std::uint64_t> sequences_;  // by client
  std::uint64_t ids_ = 0;
  std::uint64_t request_number_ = 0;
  std::uint64_t index_ = 0;
  std::uint64_t epoch_ = 1;
  Timestamp now_{};
  bool wants_snapshot_ = false;
};

}  // namespace holdfast::model
