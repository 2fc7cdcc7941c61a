#include "tests/model/generate.h"

#include <array>

namespace holdfast::model {
namespace {

constexpr std::array<const char*, 2> kNamespaces = {"default", "f"};
constexpr std::array<const char*, 3> kResources = {"a", "b", "c"};
constexpr std::array<const char*, 2> kPrincipals = {"p", "q"};
constexpr std::array<const char*, 3> kOwners = {"A", "B", "C"};

// How often each verb is drawn.
enum class Verb {
  kAcquire,
  kAcquireAgain,
  kRenew,
  kRelease,
  kCancel,
  kDetach,
  kBreak,
  kProclaim,
  kOpen,
  kKeep,
  kClose,
  kChange,
  kEpoch,
  kRecover,
  kTick,
  kSnapshot
};
constexpr std::array<Verb, 44> kVerbs = {
    Verb::kAcquire,      Verb::kAcquire,      Verb::kAcquire,      Verb::kAcquire,
    Verb::kAcquire,      Verb::kAcquire,      Verb::kAcquire,      Verb::kAcquire,
    Verb::kAcquire,      Verb::kAcquire,      Verb::kAcquireAgain, Verb::kAcquireAgain,
    Verb::kAcquireAgain, Verb::kAcquireAgain, Verb::kRenew,        Verb::kRenew,
    Verb::kRenew,        Verb::kRenew,        Verb::kRenew,        Verb::kRelease,
    Verb::kRelease,      Verb::kRelease,      Verb::kRelease,      Verb::kCancel,
    Verb::kCancel,       Verb::kDetach,       Verb::kDetach,       Verb::kBreak,
    Verb::kProclaim,     Verb::kOpen,         Verb::kOpen,         Verb::kKeep,
    Verb::kKeep,         Verb::kKeep,         Verb::kClose,        Verb::kChange,
    Verb::kChange,       Verb::kEpoch,        Verb::kRecover,      Verb::kTick,
    Verb::kTick,         Verb::kTick,         Verb::kTick,         Verb::kSnapshot};

constexpr std::array<std::int64_t, 8> kPausesMs = {0, 0, 1, 100, 200, 500, 1000, 1000};

template <typename Array>
auto Pick(const Array& array, int number) {
  return array[static_cast<std::size_t>(number) % array.size()];
}

Verb VerbOf(const Step& step) {
  return Pick(kVerbs, step.verb);
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Step& step) {
  return out << "{" << step.verb << ", " << step.who << ", " << step.what << ", " << step.which
             << ", " << step.choice << ", " << step.pause << "}";
}

rc::Gen<std::vector<Step>> AnySteps() {
  const auto number = [](int limit) {
    return rc::gen::resize(rc::kNominalSize, rc::gen::inRange(0, limit));
  };
  const auto step = rc::gen::build<Step>(
      rc::gen::set(&Step::verb, number(static_cast<int>(kVerbs.size()))),
      rc::gen::set(&Step::who, number(12)), rc::gen::set(&Step::what, number(6)),
      rc::gen::set(&Step::which, number(64)), rc::gen::set(&Step::choice, number(256)),
      rc::gen::set(&Step::pause, number(12)));
  return rc::gen::scale(3.0, rc::gen::container<std::vector<Step>>(step));
}

World::World() = default;

std::vector<std::pair<std::string, std::string>> World::Resources() {
  std::vector<std::pair<std::string, std::string>> all;
  for (const char* name_space : kNamespaces) {
    for (const char* resource : kResources) {
      all.emplace_back(name_space, resource);
    }
  }
  return all;
}

core::Batch World::FirstBatch() {
  core::PolicyPatch patch;
  patch.protection = core::Guarantee::kFenced;
  patch.request_memory = Seconds(5);
  patch.ttl_min = Millis(100);
  Push(core::Command{"", "", core::EpochStart{1, Seconds(3)}});
  Push(core::Command{"", "", core::ChangeNamespace{core::NamespaceVerb::kCreate, "f", patch}});
  patch = core::PolicyPatch{};
  patch.lock_delay = Seconds(2);
  patch.ttl_min = Millis(100);
  patch.detach_grace = Seconds(2);
  Push(core::Command{"", "", core::ChangeNamespace{core::NamespaceVerb::kSet, "default", patch}});
  return Seal();
}

bool World::Add(const Step& step) {
  const Verb verb = VerbOf(step);
  wants_snapshot_ = verb == Verb::kSnapshot;
  if (verb == Verb::kEpoch && !commands_.empty()) {
    return true;  // an epoch begins with a batch; this step only ends the one under way
  }
  if (verb != Verb::kTick && verb != Verb::kSnapshot) {
    const bool of_the_engine = verb == Verb::kEpoch || verb == Verb::kRecover ||
                               verb == Verb::kDetach || verb == Verb::kChange;
    core::Command command{of_the_engine ? "" : Pick(kPrincipals, step.who),
                          of_the_engine ? "" : Pick(kNamespaces, step.what), BodyOf(step)};
    if (verb == Verb::kRenew || verb == Verb::kRelease || verb == Verb::kProclaim) {
      command.name_space = LeaseOf(step).name_space;
    }
    if (verb == Verb::kKeep || verb == Verb::kClose) {
      command.name_space = SessionOf(step).first;
    }
    if (verb == Verb::kAcquireAgain && !asked_.empty()) {
      command =
          asked_[asked_.size() - 1 -
                 static_cast<std::size_t>(step.which) % std::min<std::size_t>(asked_.size(), 8)];
      if (auto* again = std::get_if<core::Acquire>(&command.body); again != nullptr) {
        again->lease_id = FreshId();
        again->wait = step.choice % 16 == 0 ? again->wait + Seconds(1) : again->wait;
      } else {
        std::get<core::OpenSession>(command.body).session_id = FreshId();
      }
    }
    Push(std::move(command));
  }
  now_ += Millis(Pick(kPausesMs, step.pause));
  return step.pause != 0;
}

core::Batch World::Seal() {
  core::Batch batch;
  batch.index = ++index_;
  batch.epoch = epoch_;
  batch.time = now_;
  batch.wall = WallTime(now_.time_since_epoch());
  batch.commands = std::move(commands_);
  commands_.clear();
  return batch;
}

core::CommandBody World::AcquireOf(const Step& step) {
  core::Acquire acquire;
  acquire.resource = Pick(kResources, step.what / 2);
  acquire.request_id = "r" + std::to_string(++request_number_);
  acquire.owner = Pick(kOwners, step.who / 2);
  acquire.lease_id = FreshId();
  acquire.wait = step.choice % 4 == 0 ? Duration{} : Seconds(1 + step.choice % 7);
  if (step.choice % 3 == 0 && !sessions_.empty()) {
    acquire.session = SessionOf(step).second;
  } else {
    acquire.ttl = Millis(500 * (1 + step.choice % 12));
  }
  acquire.campaign = step.choice % 5 == 0;
  acquire.value = acquire.campaign ? "v" + std::to_string(step.which) : "";
  acquire.client = ClientOf(step);
  return acquire;
}

// Usually in order, now and then one sequence late; the watermark follows at a distance.
core::ClientContext World::ClientOf(const Step& step) {
  if (step.choice % 2 == 0) {
    return {};
  }
  const std::string client = "c" + std::to_string(step.who % 2);
  std::uint64_t& sequence = sequences_[client];
  sequence += step.which % 8 == 0 ? 2 : 1;
  const std::uint64_t mine = step.which % 8 == 1 && sequence > 1 ? sequence - 1 : sequence;
  const auto behind = static_cast<std::uint64_t>(step.which % 6);
  return core::ClientContext{client, mine, sequence > behind ? sequence - behind : 0};
}

const World::Known& World::LeaseOf(const Step& step) {
  static const Known kNone{"default", "a", {}};
  if (leases_.empty()) {
    return kNone;
  }
  // The newest most of the time, some old one now and then.
  const std::size_t back = step.choice % 8 == 0 ? static_cast<std::size_t>(step.which)
                                                : static_cast<std::size_t>(step.which % 4);
  return leases_[leases_.size() - 1 - back % leases_.size()];
}

// Namespace and id of one of the last sessions; of none if there is none.
std::pair<std::string, Id128> World::SessionOf(const Step& step) {
  if (sessions_.empty()) {
    return {"default", FreshId()};
  }
  const std::size_t back = static_cast<std::size_t>(step.which % 4);
  return sessions_[sessions_.size() - 1 - back % sessions_.size()];
}

core::CommandBody World::BodyOf(const Step& step) {
  const Known& lease = LeaseOf(step);
  // Sometimes the lease of another resource.
  const std::string at = step.choice % 16 == 1 ? Pick(kResources, step.what) : lease.resource;
  switch (VerbOf(step)) {
    case Verb::kAcquire:
    case Verb::kAcquireAgain:
      return AcquireOf(step);
    case Verb::kRenew:
      return core::Renew{at, lease.lease};
    case Verb::kRelease:
      return core::Release{at, lease.lease};
    case Verb::kCancel: {
      const std::uint64_t back = static_cast<std::uint64_t>(step.which % 6);
      const std::string id =
          "r" + std::to_string(request_number_ + 1 > back ? request_number_ + 1 - back : 1);
      for (const core::Command& command : asked_) {
        const auto* acquire = std::get_if<core::Acquire>(&command.body);
        if (acquire != nullptr && acquire->request_id == id && step.choice % 8 != 0) {
          return core::Cancel{acquire->resource, id, acquire->owner, ClientOf(step)};
        }
      }
      return core::Cancel{Pick(kResources, step.what / 2), id, Pick(kOwners, step.who / 2),
                          ClientOf(step)};
    }
    case Verb::kDetach: {
      const Waiting waiting =
          waiting_.empty() ? Waiting{}
                           : waiting_[waiting_.size() - 1 -
                                      static_cast<std::size_t>(step.which) % waiting_.size()];
      return core::Detach{waiting.waiter, waiting.attachment - (step.choice % 8 == 0 ? 1 : 0)};
    }
    case Verb::kBreak:
      return core::Break{Pick(kResources, step.what / 2), "reason", step.choice % 4 == 0,
                         step.choice % 2 == 0, step.choice % 3 == 0};
    case Verb::kProclaim:
      return core::Proclaim{at, lease.lease, "w" + std::to_string(step.which)};
    case Verb::kOpen:
      return core::OpenSession{"s" + std::to_string(++request_number_), Pick(kOwners, step.who / 2),
                               Millis(500 * (1 + step.choice % 12)), ClientOf(step), FreshId()};
    case Verb::kKeep:
      return core::KeepAlive{SessionOf(step).second};
    case Verb::kClose:
      return core::CloseSession{SessionOf(step).second};
    case Verb::kChange:
      return ChangeOf(step);
    case Verb::kEpoch:
      return core::EpochStart{++epoch_, Millis(500 * (step.choice % 10))};
    case Verb::kRecover:
      return core::RecoverState{static_cast<core::Token>(step.which) * 10,
                                Millis(step.choice % 2 * 700)};
    case Verb::kTick:
    case Verb::kSnapshot:
      break;
  }
  return core::Detach{};
}

core::ChangeNamespace World::ChangeOf(const Step& step) {
  core::ChangeNamespace change{core::NamespaceVerb::kSet, Pick(kNamespaces, step.what), {}};
  core::PolicyPatch& patch = change.patch;
  const auto amount = static_cast<std::uint32_t>(step.choice % 4);
  switch (step.which % 10) {
    case 0:
      patch.hold_max = Seconds(amount);
      break;
    case 1:
      patch.lock_delay = Millis(700 * amount);
      break;
    case 2:
      patch.holds_per_tenant = amount == 0 ? 100 : amount;
      break;
    case 3:
      patch.waiters_per_resource = amount == 1 ? 100 : amount;
      break;
    case 4:
      patch.waiters_per_tenant = amount == 1 ? 100 : amount;
      break;
    case 5:
      patch.sessions_per_tenant = amount == 1 ? 100 : amount;
      break;
    case 6:
      patch.detach_grace = Millis(600 * amount);
      break;
    case 7:
      patch.protection = amount % 2 == 0 ? core::Guarantee::kAdvisory : core::Guarantee::kFenced;
      break;
    case 8:
      patch.strict = amount == 3;
      break;
    default:  // back to generous
      patch.hold_max = Duration{};
      patch.holds_per_tenant = 100;
      patch.waiters_per_resource = 100;
      patch.waiters_per_tenant = 100;
      patch.sessions_per_tenant = 100;
      patch.strict = false;
      break;
  }
  return change;
}

void World::Observe(const core::Batch& batch, const core::Applied& applied) {
  for (std::size_t i = 0; i < batch.commands.size(); ++i) {
    const core::Command& command = batch.commands[i];
    if (const auto* acquire = std::get_if<core::Acquire>(&command.body); acquire != nullptr) {
      asked_.push_back(command);
      if (const auto* granted = std::get_if<core::Granted>(&applied.outcomes[i]);
          granted != nullptr) {
        leases_.push_back(Known{command.name_space, acquire->resource, granted->lease_id});
      } else if (const auto* queued = std::get_if<core::Queued>(&applied.outcomes[i]);
                 queued != nullptr) {
        waiting_.push_back(Waiting{queued->waiter, queued->attachment});
        waiter_at_[queued->waiter] = {command.name_space, acquire->resource};
      }
    } else if (const auto* opened = std::get_if<core::SessionOpened>(&applied.outcomes[i]);
               opened != nullptr) {
      asked_.push_back(command);
      sessions_.emplace_back(command.name_space, opened->session_id);
    }
  }
  for (const core::Resolution& resolution : applied.resolutions) {
    if (const auto* granted = std::get_if<core::Granted>(&resolution.outcome); granted != nullptr) {
      const auto& [name_space, resource] = waiter_at_[resolution.waiter];
      leases_.push_back(Known{name_space, resource, granted->lease_id});
    }
  }
}

Id128 World::FreshId() {
  ++ids_;
  Id128 id{};
  for (std::size_t i = 0; i < 8; ++i) {
    id[i] = static_cast<std::uint8_t>(ids_ >> (8 * i));
  }
  return id;
}

}  // namespace holdfast::model
