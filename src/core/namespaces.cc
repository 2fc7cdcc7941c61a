#include "core/namespaces.h"

#include <algorithm>

#include "core/limits.h"
#include "core/validate.h"

namespace holdfast::core {

Namespaces::Namespaces() {
  ChangeNamespace command;
  command.name = "default";
  Create(command);
}

NamespaceId Namespaces::Find(std::string_view name) const {
  if (recent_.entry != nullptr && !recent_.entry->deleted && recent_.entry->name == name) {
    return recent_.id;
  }
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? 0 : found->second;
}

NamespaceChanged Namespaces::Change(const ChangeNamespace& command) {
  const NamespaceId id = Find(command.name);
  switch (command.verb) {
    case NamespaceVerb::kCreate:
      return id != 0 ? NamespaceChanged{NamespaceResult::kExists, At(id).policy} : Create(command);
    case NamespaceVerb::kSet: {
      if (id == 0) {
        return NamespaceChanged{NamespaceResult::kNotFound, {}};
      }
      Namespace& entry = At(id);
      const Policy patched = Patched(entry.policy, command.patch);
      if (!ValidatePolicy(patched).ok()) {
        return NamespaceChanged{NamespaceResult::kLimit,
                                entry.policy};  // another change came in between
      }
      entry.policy = patched;
      return NamespaceChanged{NamespaceResult::kOk, entry.policy};
    }
    case NamespaceVerb::kDelete:
      return id == 0 ? NamespaceChanged{NamespaceResult::kNotFound, {}} : Delete(id);
  }
  return {};
}

NamespaceChanged Namespaces::Create(const ChangeNamespace& command) {
  if (table_.size() >= kNamespacesMax) {
    return NamespaceChanged{NamespaceResult::kLimit, {}};
  }
  Namespace entry;
  entry.name = command.name;
  entry.policy = Patched(Policy{}, command.patch);
  if (!ValidatePolicy(entry.policy).ok()) {
    return NamespaceChanged{NamespaceResult::kLimit, {}};
  }
  const NamespaceId id = ++last_id_;
  by_name_.emplace(command.name, id);
  const Policy policy = entry.policy;
  table_.emplace(id, std::make_unique<Namespace>(std::move(entry)));
  return NamespaceChanged{NamespaceResult::kOk, policy};
}

NamespaceChanged Namespaces::Delete(NamespaceId id) {
  Namespace& entry = At(id);
  if (entry.holds > 0 || entry.waiters > 0 || entry.sessions > 0 || entry.name == "default") {
    return NamespaceChanged{NamespaceResult::kNotEmpty, entry.policy};
  }
  const Policy policy = entry.policy;
  by_name_.erase(entry.name);
  entry.deleted = true;
  if (entry.leftovers == 0) {
    Erase(id);
  }
  return NamespaceChanged{NamespaceResult::kOk, policy};
}

void Namespaces::Erase(NamespaceId id) {
  recent_ = Recent{};
  table_.erase(id);
}

void Namespaces::Drop(NamespaceId id) {
  Namespace& entry = At(id);
  --entry.leftovers;
  if (entry.deleted && entry.leftovers == 0) {
    Erase(id);
  }
}

NamespaceView Namespaces::View(std::string_view name) const {
  const NamespaceId id = Find(name);
  if (id == 0) {
    return NamespaceView{NamespaceResult::kNotFound, std::string(name), {}};
  }
  return NamespaceView{NamespaceResult::kOk, std::string(name), At(id).policy};
}

NamespacesView Namespaces::ViewAll() const {
  NamespacesView view;
  for (const auto& [name, id] : by_name_) {
    view.namespaces.push_back(NamespaceView{NamespaceResult::kOk, name, At(id).policy});
  }
  return view;
}

Duration Namespaces::LongestPromise(Duration longest_ttl_in_use) const {
  Duration longest_ttl = longest_ttl_in_use;
  Duration longest_delay{};
  for (const auto& [id, entry] : table_) {
    longest_ttl = std::max(longest_ttl, entry->policy.ttl_max);
    longest_delay = std::max(longest_delay, entry->policy.lock_delay);
  }
  return longest_ttl + longest_delay;
}

Slot Namespaces::TenantOf(NamespaceId id, std::string_view principal) {
  if (recent_tenant_ != kNoSlot && recent_namespace_ == id &&
      tenants_[recent_tenant_].principal == principal) {
    return recent_tenant_;
  }
  TenantKey key{id, std::string(principal)};
  Slot slot = kNoSlot;
  if (const auto found = tenant_by_key_.find(key); found != tenant_by_key_.end()) {
    slot = found->second;
  } else {
    if (tenant_by_key_.size() >= kTenantsMax) {
      return kNoSlot;
    }
    slot = tenants_.Add();
    tenants_[slot].principal = std::string(principal);
    tenants_[slot].name_space = id;
    tenant_by_key_.emplace(std::move(key), slot);
  }
  recent_namespace_ = id;
  recent_tenant_ = slot;
  return slot;
}

void Namespaces::Unreference(Slot tenant) {
  --tenants_[tenant].references;
  ForgetIfIdle(tenant);
}

void Namespaces::ForgetIfIdle(Slot tenant) {
  if (tenants_[tenant].references > 0) {
    return;
  }
  tenant_by_key_.erase(TenantKey{tenants_[tenant].name_space, tenants_[tenant].principal});
  tenants_.Free(tenant);
  if (recent_tenant_ == tenant) {
    recent_tenant_ = kNoSlot;
  }
}

void Namespaces::Save(Saver& saver) const {
  saver(last_id_, static_cast<std::uint64_t>(table_.size()));
  for (const auto& [id, entry] : table_) {
    saver(id, entry->name, entry->deleted, entry->policy);
  }
}

void Namespaces::Load(ArchiveReader& reader) {
  recent_ = Recent{};
  table_.clear();
  by_name_.clear();
  std::uint64_t count = 0;
  reader(last_id_, count);
  for (std::uint64_t i = 0; i < count && reader.ok(); ++i) {
    NamespaceId id = 0;
    Namespace entry;
    reader(id, entry.name, entry.deleted, entry.policy);
    if (!ValidatePolicy(entry.policy).ok()) {
      reader.Fail();
      return;
    }
    if (!entry.deleted) {
      by_name_.emplace(entry.name, id);
    }
    table_.emplace(id, std::make_unique<Namespace>(std::move(entry)));
  }
}

}  // namespace holdfast::core
