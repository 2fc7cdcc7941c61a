// The memory of request ids: one effect for each (I6). A record is kept for its namespace's request
// memory after it was decided, or until its client says that it has seen the answer (the
// watermark). The budget of a tenant is in bytes; when it is full new requests are refused and
// nothing is evicted.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "base/id.h"
#include "core/context.h"
#include "core/hash.h"
#include "core/namespaces.h"
#include "core/slot_index.h"

namespace holdfast::core {

enum class RecordKind : std::uint8_t {
  kWaiting = 1,    // `waiter` has the request
  kGranted = 2,    // `capability` is the lease id, `token` its token
  kRefused = 3,    // `code`
  kCancelled = 4,  // withdrawn, perhaps before it arrived
  kSession = 5,    // `capability` is the session id
};
constexpr bool EnumInRange(RecordKind kind) {
  return kind >= RecordKind::kWaiting && kind <= RecordKind::kSession;
}

struct Record {
  std::string request_id;
  std::uint64_t hash = 0;  // of tenant and request id, for the index
  std::uint64_t fingerprint =
      0;  // of the request's parameters; 0 for a request that was cancelled before it arrived
  RecordKind kind = RecordKind::kRefused;
  RefusalCode code = RefusalCode::kNone;
  Token token = 0;
  Id128 capability{};
  WaiterId waiter = 0;
  Slot tenant = kNoSlot;
  Slot client = kNoSlot;
  std::uint64_t sequence = 0;
  std::uint64_t canceller = 0;  // hash of what a cancel must name: resource and owner
  Timestamp expires_at{};
  SlotLink by_age;     // within the namespace, oldest decision first
  SlotLink by_client;  // within the client, in order of arrival
};

class Requests {
 public:
  // What a tenant's budget is charged for one record, beside its request id.
  static constexpr std::uint64_t kRecordBytes = 192;
  static constexpr std::uint64_t kClientBytes = 192;

  explicit Requests(Namespaces& namespaces) : namespaces_(namespaces) {}

  // kNoSlot: not remembered.
  Slot Find(Slot tenant, std::string_view request_id) const;
  Record& At(Slot slot) { return records_[slot]; }
  const Record& At(Slot slot) const { return records_[slot]; }

  // Notes what the client says it has seen, and frees those records. Done once for each command
  // with a client context.
  void NoteClient(Context& context, Slot tenant, const ClientContext& client);
  // True if the client has said that it saw the answer to this sequence: a late duplicate.
  bool IsBelowWatermark(Slot tenant, const ClientContext& client) const;

  // Whether one more record fits into the tenant's budget.
  bool HasRoom(Slot tenant, std::string_view request_id) const;
  // Remembers an undecided request; the caller decides it next, or sets kWaiting.
  Slot Add(Context& context, Slot tenant, std::string_view request_id, const ClientContext& client);
  // The retention begins anew: call it when a waiting request has been decided.
  void Touch(Context& context, Slot slot);

  // Timers of kinds kForgetRequests and kForgetClients: forgets what is due, within the context's
  // budget.
  void OnForgetRequests(Context& context, NamespaceId id);
  void OnForgetClients(Context& context, NamespaceId id);

  std::size_t size() const { return records_.size(); }

  void Save(Saver& saver) const;
  // After namespaces. `timers` gets the forget timers.
  void Load(ArchiveReader& reader, Timers& timers);
  // Recounts everything; the first thing that is wrong, or empty.
  std::string FindInconsistency(const Timers& timers) const;

 private:
  struct Client {
    std::string client_id;
    Slot tenant = kNoSlot;
    std::uint64_t watermark = 0;  // every sequence below was answered
    Timestamp expires_at{};
    SlotList records;  // Record::by_client
    SlotLink by_age;
  };
  // Ordered by expiry: expiry times only rise within a list, also when the policy is shortened.
  struct Ages {
    SlotList records;
    Timestamp newest_record{};
    bool record_timer = false;  // a kForgetRequests timer is set, at `record_timer_at`
    Timestamp record_timer_at{};
    SlotList clients;
    Timestamp newest_client{};
    bool client_timer = false;
    Timestamp client_timer_at{};
  };
  static std::uint64_t HashOf(Slot tenant, std::string_view request_id) {
    return Hash64(request_id, tenant);
  }
  Ages& AgesOf(NamespaceId id);
  Slot FindClient(Slot tenant, const std::string& client_id) const;
  Slot ClientOf(Context& context, Slot tenant, const std::string& client_id);
  void TouchClient(Context& context, Slot slot);
  void ForgetClient(Slot slot);
  void PushRecord(Slot slot);
  void PushClient(Slot slot);
  void ArmRecords(Context& context, NamespaceId id);
  void ArmClients(Context& context, NamespaceId id);
  void DropIfUnused(NamespaceId id);
  void Remove(Slot slot);
  NamespaceId NamespaceOf(Slot tenant) const { return namespaces_.TenantAt(tenant).name_space; }
  Slot LoadRecord(ArchiveReader& reader, NamespaceId id);
  void LoadClient(ArchiveReader& reader, NamespaceId id, const std::vector<Slot>& slots);
  static std::uint64_t CostOf(const Record& record) {
    return kRecordBytes + record.request_id.size();
  }

  using ClientKey = std::pair<Slot, std::string>;
  using ClientKeyView = std::pair<Slot, std::string_view>;
  struct HashClient {
    using is_transparent = void;
    std::size_t operator()(const ClientKeyView& key) const { return Hash64(key.second, key.first); }
    std::size_t operator()(const ClientKey& key) const { return (*this)(ClientKeyView(key)); }
  };
  struct EqualClient {
    using is_transparent = void;
    bool operator()(const ClientKeyView& a, const ClientKeyView& b) const { return a == b; }
  };

  Namespaces& namespaces_;
  Slab<Record> records_;
  SlotIndex<Record> index_{records_};
  Slab<Client> clients_;
  absl::flat_hash_map<ClientKey, Slot, HashClient, EqualClient> client_by_key_;
  absl::btree_map<NamespaceId, std::unique_ptr<Ages>> ages_;
  // What was asked for last: the steps of one command ask for the same again.
  mutable Slot recent_client_ = kNoSlot;
  NamespaceId recent_ages_id_ = 0;
  Ages* recent_ages_ = nullptr;
};

// Fingerprint of the parameters of a request, owner included; never 0.
std::uint64_t FingerprintOf(const Acquire& command);
std::uint64_t FingerprintOf(const OpenSession& command);

}  // namespace holdfast::core
