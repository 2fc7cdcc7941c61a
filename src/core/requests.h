// The memory of request ids: one effect for each (I6). A record is kept for its namespace's request memory after it was
// decided, or until its client says that it has seen the answer (the watermark). The budget of a tenant is in bytes; when
// it is full new requests are refused and nothing is evicted.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/id.h"
#include "core/context.h"
#include "core/namespaces.h"

namespace holdfast::core {

enum class RecordKind : std::uint8_t {
  kWaiting = 1,    // `waiter` has the request
  kGranted = 2,    // `capability` is the lease id, `token` its token
  kRefused = 3,    // `code`
  kCancelled = 4,  // withdrawn, perhaps before it arrived
  kSession = 5,    // `capability` is the session id
};
constexpr bool EnumInRange(RecordKind kind) { return kind >= RecordKind::kWaiting && kind <= RecordKind::kSession; }

struct Record {
  std::string request_id;
  std::uint64_t hash = 0;         // of tenant and request id, for the index
  std::uint64_t fingerprint = 0;  // of the request's parameters; 0 for a request that was cancelled before it arrived
  RecordKind kind = RecordKind::kRefused;
  RefusalCode code = RefusalCode::kNone;
  Token token = 0;
  Id128 capability{};
  WaiterId waiter = 0;
  Slot tenant = kNoSlot;
  Slot client = kNoSlot;
  std::uint64_t sequence = 0;
  std::uint64_t canceller = 0;    // hash of what a cancel must name: resource and owner
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

  // Notes what the client says it has seen, and frees those records. Done once for each command with a client context.
  void NoteClient(Context& context, Slot tenant, const ClientContext& client);
  // True if the client has said that it saw the answer to this sequence: a late duplicate.
  bool IsBelowWatermark(Slot tenant, const ClientContext& client) const;

  // Whether one more record fits into the tenant's budget.
  bool HasRoom(Slot tenant, std::string_view request_id) const;
  // Remembers an undecided request; the caller decides it next, or sets kWaiting.
  Slot Add(Context& context, Slot tenant, std::string_view request_id, const ClientContext& client);
  // The retention begins anew: call it when a waiting request has been decided.
  void Touch(Context& context, Slot slot);

  // Timers of kinds kForgetRequests and kForgetClients: forgets what is due, within the context's budget.
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
    SlotList records;             // Record::by_client
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
  struct RecordKey {
    std::uint64_t hash = 0;
    Slot tenant = kNoSlot;
    std::string_view request_id;
  };
  struct HashRecord {
    using is_transparent = void;
    const Slab<Record>* records;
    std::size_t operator()(Slot slot) const { return (*records)[slot].hash; }
    std::size_t operator()(const RecordKey& key) const { return key.hash; }
  };
  struct EqualRecord {
    using is_transparent = void;
    const Slab<Record>* records;
    bool operator()(Slot a, Slot b) const { return a == b; }
    bool operator()(Slot a, const RecordKey& key) const {
      const Record& record = (*records)[a];
      return record.tenant == key.tenant && record.request_id == key.request_id;
    }
    bool operator()(const RecordKey& key, Slot a) const { return (*this)(a, key); }
  };
  using Index = absl::flat_hash_set<Slot, HashRecord, EqualRecord>;
  // Many small tables instead of one: growing one of them is short.
  static constexpr std::size_t kShards = 64;

  RecordKey KeyOf(Slot tenant, std::string_view request_id) const;
  Index& ShardOf(std::uint64_t hash) { return shards_[hash >> 58U]; }
  const Index& ShardOf(std::uint64_t hash) const { return shards_[hash >> 58U]; }
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
  static std::uint64_t CostOf(const Record& record) { return kRecordBytes + record.request_id.size(); }

  using ClientKey = std::pair<Slot, std::string>;

  Namespaces& namespaces_;
  Slab<Record> records_;
  std::array<Index, kShards> shards_ = MakeShards();
  Slab<Client> clients_;
  absl::flat_hash_map<ClientKey, Slot> client_by_key_;
  absl::btree_map<NamespaceId, Ages> ages_;

  std::array<Index, kShards> MakeShards();
};

// Fingerprint of the parameters of a request, owner included; never 0.
std::uint64_t FingerprintOf(const Acquire& command);
std::uint64_t FingerprintOf(const OpenSession& command);

}  // namespace holdfast::core
