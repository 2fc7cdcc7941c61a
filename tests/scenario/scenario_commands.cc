// From words to commands and queries.
#include <stdexcept>

#include "tests/scenario/scenario.h"

namespace holdfast::scenario {
namespace {

template <typename T>
void Take(const Line& line, const char* key, std::optional<T>& field) {
  if (!line.Has(key)) {
    return;
  }
  if constexpr (std::is_same_v<T, Duration>) {
    field = line.Time(key);
  } else {
    field = static_cast<T>(line.Number(key));
  }
}

core::ChangeNamespace ParseNamespace(const Line& line) {
  core::ChangeNamespace change;
  const std::string& verb = line.word(1);
  change.verb = verb == "create"   ? core::NamespaceVerb::kCreate
                : verb == "delete" ? core::NamespaceVerb::kDelete
                                   : core::NamespaceVerb::kSet;
  change.name = line.Text("name", "default");
  core::PolicyPatch& patch = change.patch;
  if (line.Has("protection")) {
    patch.protection =
        line.Text("protection") == "fenced" ? core::Guarantee::kFenced : core::Guarantee::kAdvisory;
  }
  Take(line, "strict", patch.strict);
  Take(line, "ttl_default", patch.ttl_default);
  Take(line, "ttl_min", patch.ttl_min);
  Take(line, "ttl_max", patch.ttl_max);
  Take(line, "hold_max", patch.hold_max);
  Take(line, "wait_max", patch.wait_max);
  Take(line, "waiters_per_resource", patch.waiters_per_resource);
  Take(line, "waiters_per_tenant", patch.waiters_per_tenant);
  Take(line, "holds_per_tenant", patch.holds_per_tenant);
  Take(line, "sessions_per_tenant", patch.sessions_per_tenant);
  Take(line, "lock_delay", patch.lock_delay);
  Take(line, "request_memory", patch.request_memory);
  Take(line, "request_bytes_per_tenant", patch.request_bytes_per_tenant);
  Take(line, "detach_grace", patch.detach_grace);
  return change;
}

core::ClientContext ParseClient(const Line& line) {
  return core::ClientContext{line.Text("client"), line.Number("seq"), line.Number("below")};
}

core::Break ParseBreak(const Line& line) {
  return core::Break{line.Text("lock"), line.Text("reason"), line.Has("dry_run"), line.Has("now"),
                     line.Has("unsafe")};
}

}  // namespace

Id128 Scenario::FreshId() {
  Id128 id{};
  ++last_id_;
  for (std::size_t i = 0; i < 8; ++i) {
    id[i] = static_cast<std::uint8_t>(last_id_ >> (8 * i));
  }
  return id;
}

// A name that was never printed is an id that was never given out.
Id128 Scenario::IdOf(const std::string& name) {
  const Id128 id = names_.Find(name);
  return IsZero(id) ? FreshId() : id;
}

core::Acquire Scenario::ParseAcquire(const Line& line) {
  core::Acquire acquire;
  acquire.resource = line.Text("lock");
  acquire.request_id = line.Text("id");
  acquire.owner = line.Text("owner");
  acquire.ttl = line.Time("ttl");
  acquire.session = line.Has("session") ? IdOf(line.Text("session")) : Id128{};
  acquire.wait = line.Time("wait");
  if (line.Has("meta")) {
    acquire.metadata.push_back(core::MetadataEntry{"note", line.Text("meta")});
  }
  acquire.campaign = line.word(0) == "campaign";
  acquire.value = line.Text("value");
  acquire.client = ParseClient(line);
  acquire.lease_id = FreshId();
  return acquire;
}

core::Detach Scenario::ParseDetach(const Line& line) {
  const Waiting& waiting = waiting_[line.Text("id")];
  return core::Detach{waiting.waiter, line.Number("attachment", waiting.attachment)};
}

core::CommandBody Scenario::ParseSession(const Line& line) {
  const std::string& verb = line.word(1);
  if (verb == "open") {
    return core::OpenSession{line.Text("id"), line.Text("owner"), line.Time("ttl"),
                             ParseClient(line), FreshId()};
  }
  if (verb == "keepalive") {
    return core::KeepAlive{IdOf(line.Text("session"))};
  }
  if (verb == "close") {
    return core::CloseSession{IdOf(line.Text("session"))};
  }
  throw std::invalid_argument("unknown verb");
}

core::CommandBody Scenario::ParseBody(const Line& line) {
  const std::string& verb = line.word(0);
  const std::string lock = line.Text("lock");
  if (verb == "acquire" || verb == "campaign") {
    return ParseAcquire(line);
  }
  if (verb == "renew") {
    return core::Renew{lock, IdOf(line.Text("lease"))};
  }
  if (verb == "release") {
    return core::Release{lock, IdOf(line.Text("lease"))};
  }
  if (verb == "cancel") {
    return core::Cancel{lock, line.Text("id"), line.Text("owner"), ParseClient(line)};
  }
  if (verb == "detach") {
    return ParseDetach(line);
  }
  if (verb == "break") {
    return ParseBreak(line);
  }
  if (verb == "proclaim") {
    return core::Proclaim{lock, IdOf(line.Text("lease")), line.Text("value")};
  }
  if (verb == "session") {
    return ParseSession(line);
  }
  if (verb == "namespace") {
    return ParseNamespace(line);
  }
  if (verb == "epoch") {
    return core::EpochStart{++epoch_, line.Has("grace") ? line.Time("grace") : Seconds(10)};
  }
  if (verb == "recover") {
    return core::RecoverState{line.Number("floor"), line.Time("block")};
  }
  if (verb == "feature") {
    return core::SetFeatureLevel{static_cast<std::uint32_t>(line.Number("level"))};
  }
  throw std::invalid_argument("unknown verb");
}

core::Command Scenario::Parse(const Line& line) {
  core::Command command{line.Text("principal", "tester"), line.Text("ns", "default"),
                        ParseBody(line)};
  const bool of_the_engine = std::holds_alternative<core::EpochStart>(command.body) ||
                             std::holds_alternative<core::Detach>(command.body) ||
                             std::holds_alternative<core::RecoverState>(command.body) ||
                             std::holds_alternative<core::SetFeatureLevel>(command.body);
  if (of_the_engine || std::holds_alternative<core::ChangeNamespace>(command.body)) {
    command.name_space.clear();
  }
  return command;
}

bool Scenario::RunQuery(const Line& line) {
  const std::string& verb = line.word(0);
  const std::string name_space = line.Text("ns", "default");
  const std::string lock = line.Text("lock");
  core::Query query;
  if (verb == "describe") {
    query = core::Describe{name_space, lock};
  } else if (verb == "list") {
    query = core::List{name_space, line.Text("prefix"),
                       static_cast<std::uint32_t>(line.Number("page")), line.Text("after")};
  } else if (verb == "check-token") {
    query = core::CheckToken{name_space, lock, line.Number("token")};
  } else if (verb == "leader") {
    query = core::Leader{name_space, lock};
  } else if (verb == "counts") {
    query = core::GetCounts{};
  } else if (verb == "session" && line.word(1) == "describe") {
    query = core::DescribeSession{name_space, IdOf(line.Text("session"))};
  } else if (verb == "namespace" && line.word(1) == "get") {
    query = core::GetNamespace{line.Text("name", "default")};
  } else if (verb == "namespace" && line.word(1) == "list") {
    query = core::ListNamespaces{};
  } else {
    return false;
  }
  Print(check::Text(machine_.machine().Answer(query, now_)));
  return true;
}

}  // namespace holdfast::scenario
