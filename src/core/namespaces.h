// Namespaces, their policies, and the usage of their tenants. A tenant is a principal within a
// namespace; every limit is counted there.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "base/bytes.h"
#include "core/context.h"
#include "core/outcome.h"
#include "core/policy.h"
#include "core/saver.h"
#include "core/slab.h"
#include "core/view.h"

namespace holdfast::core {

using NamespaceId = std::uint32_t;  // never reused within a log; 0: none

struct Namespace {
  std::string name;
  Policy policy;
  bool deleted = false;  // unreachable by name; goes when the last thing of it is forgotten
  std::uint64_t holds = 0;
  std::uint64_t waiters = 0;
  std::uint64_t sessions = 0;
  std::uint64_t leftovers = 0;  // resources, remembered requests, clients, ended sessions
};

struct Tenant {
  std::string principal;
  NamespaceId name_space = 0;
  std::uint64_t holds = 0;
  std::uint64_t waiters = 0;
  std::uint64_t sessions = 0;
  std::uint64_t request_bytes = 0;
  std::uint64_t references = 0;  // of everything that names this tenant
};

class Namespaces {
 public:
  // "default" exists from the start.
  Namespaces();

  // 0 if there is none of that name.
  NamespaceId Find(std::string_view name) const;
  bool Exists(NamespaceId id) const { return table_.contains(id); }
  Namespace& At(NamespaceId id) { return *Entry(id); }
  const Namespace& At(NamespaceId id) const { return *Entry(id); }
  NamespaceChanged Change(const ChangeNamespace& command);
  NamespaceView View(std::string_view name) const;
  NamespacesView ViewAll() const;

  // Leftovers of a deleted namespace keep its entry alive.
  void Keep(NamespaceId id) { ++At(id).leftovers; }
  void Drop(NamespaceId id);

  // The longest ttl, of the policies or in use, together with the longest lock-delay.
  Duration LongestPromise(Duration longest_ttl_in_use) const;

  // Finds or makes; kNoSlot when the table of tenants is full.
  Slot TenantOf(NamespaceId id, std::string_view principal);
  Tenant& TenantAt(Slot slot) { return tenants_[slot]; }
  const Tenant& TenantAt(Slot slot) const { return tenants_[slot]; }
  // Everything that names a tenant holds one reference; a tenant without any is forgotten.
  void Reference(Slot tenant) { ++tenants_[tenant].references; }
  void Unreference(Slot tenant);
  void ForgetIfIdle(Slot tenant);

  void Save(Saver& saver) const;
  // Tenants and counts are rebuilt by the parts that refer to them.
  void Load(ArchiveReader& reader);

 private:
  using TenantKey = std::pair<NamespaceId, std::string>;

  NamespaceChanged Create(const ChangeNamespace& command);
  NamespaceChanged Delete(NamespaceId id);
  void Erase(NamespaceId id);
  Namespace* Entry(NamespaceId id) const {
    if (id != recent_.id) {
      recent_ = Recent{id, table_.find(id)->second.get()};
    }
    return recent_.entry;
  }

  absl::btree_map<NamespaceId, std::unique_ptr<Namespace>> table_;
  // The entry that was asked for last: almost always the next one too.
  struct Recent {
    NamespaceId id = 0;
    Namespace* entry = nullptr;
  };
  mutable Recent recent_;
  absl::btree_map<std::string, NamespaceId, std::less<>> by_name_;
  NamespaceId last_id_ = 0;
  Slab<Tenant> tenants_;
  absl::flat_hash_map<TenantKey, Slot> tenant_by_key_;
  // The tenant that was asked for last: most batches come from few.
  NamespaceId recent_namespace_ = 0;
  Slot recent_tenant_ = kNoSlot;
};

}  // namespace holdfast::core
