// The snapshot section of Requests, and its self-check.
#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "base/planted.h"
#include "core/requests.h"

namespace holdfast::core {

// Namespaces in order of their ids; in each, records oldest first, then clients most idle first. A
// client names its records by their position in the namespace's list, since the order of a client's
// list is its own.
void Requests::Save(Saver& saver) const {
  const std::uint64_t sections = Planted(Bug::kSnapshotForgetsRequests) ? 0 : ages_.size();
  saver(sections);
  if (sections == 0) {
    return;
  }
  for (const auto& [id, entry] : ages_) {
    const Ages& ages = *entry;
    saver(id, ages.newest_record, ages.record_timer, ages.record_timer_at, ages.newest_client,
          ages.client_timer, ages.client_timer_at, static_cast<std::uint64_t>(ages.records.size));
    absl::flat_hash_map<Slot, std::uint64_t> position;
    std::uint64_t count = 0;
    for (Slot slot = ages.records.first; slot != kNoSlot; slot = records_[slot].by_age.next) {
      const Record& record = records_[slot];
      saver(namespaces_.TenantAt(record.tenant).principal, record.request_id, record.fingerprint,
            record.kind, record.code, record.token, record.capability, record.waiter,
            record.sequence, record.canceller, record.expires_at);
      if (record.client != kNoSlot) {
        position[slot] = count;
      }
      ++count;
    }
    saver(static_cast<std::uint64_t>(ages.clients.size));
    for (Slot slot = ages.clients.first; slot != kNoSlot; slot = clients_[slot].by_age.next) {
      const Client& client = clients_[slot];
      saver(namespaces_.TenantAt(client.tenant).principal, client.client_id, client.watermark,
            client.expires_at, static_cast<std::uint64_t>(client.records.size));
      for (Slot record = client.records.first; record != kNoSlot;
           record = records_[record].by_client.next) {
        saver(position[record]);
      }
    }
  }
}

void Requests::Load(ArchiveReader& reader, Timers& timers) {
  std::uint64_t sections = 0;
  reader(sections);
  for (std::uint64_t section = 0; section < sections && reader.ok(); ++section) {
    NamespaceId id = 0;
    Ages loaded;
    std::uint64_t record_count = 0;
    reader(id, loaded.newest_record, loaded.record_timer, loaded.record_timer_at,
           loaded.newest_client, loaded.client_timer, loaded.client_timer_at, record_count);
    if (!namespaces_.Exists(id) && record_count > 0) {
      reader.Fail();
      return;
    }
    AgesOf(id) = loaded;
    if (loaded.record_timer) {
      timers.Set(Timer{loaded.record_timer_at, TimerKind::kForgetRequests, id, kNoSlot});
    }
    if (loaded.client_timer) {
      timers.Set(Timer{loaded.client_timer_at, TimerKind::kForgetClients, id, kNoSlot});
    }
    std::vector<Slot> slots;
    for (std::uint64_t i = 0; i < record_count && reader.ok(); ++i) {
      slots.push_back(LoadRecord(reader, id));
    }
    std::uint64_t client_count = 0;
    reader(client_count);
    for (std::uint64_t i = 0; i < client_count && reader.ok(); ++i) {
      LoadClient(reader, id, slots);
    }
    AgesOf(id).newest_record = loaded.newest_record;
    AgesOf(id).newest_client = loaded.newest_client;
  }
}

Slot Requests::LoadRecord(ArchiveReader& reader, NamespaceId id) {
  std::string principal;
  const Slot slot = records_.Add();
  Record& record = records_[slot];
  reader(principal, record.request_id, record.fingerprint, record.kind, record.code, record.token,
         record.capability, record.waiter, record.sequence, record.canceller, record.expires_at);
  record.tenant = namespaces_.TenantOf(id, principal);
  record.hash = HashOf(record.tenant, record.request_id);
  index_.Insert(record.hash, slot);
  namespaces_.TenantAt(record.tenant).request_bytes += CostOf(record);
  namespaces_.Reference(record.tenant);
  namespaces_.Keep(id);
  PushRecord(slot);
  return slot;
}

void Requests::LoadClient(ArchiveReader& reader, NamespaceId id, const std::vector<Slot>& slots) {
  if (!namespaces_.Exists(id)) {
    reader.Fail();
    return;
  }
  std::string principal;
  std::uint64_t count = 0;
  const Slot slot = clients_.Add();
  Client& client = clients_[slot];
  reader(principal, client.client_id, client.watermark, client.expires_at, count);
  client.tenant = namespaces_.TenantOf(id, principal);
  client_by_key_.emplace(ClientKey{client.tenant, client.client_id}, slot);
  namespaces_.TenantAt(client.tenant).request_bytes += kClientBytes;
  namespaces_.Reference(client.tenant);
  namespaces_.Keep(id);
  PushClient(slot);
  for (std::uint64_t i = 0; i < count && reader.ok(); ++i) {
    std::uint64_t position = 0;
    reader(position);
    if (position >= slots.size() || records_[slots[position]].client != kNoSlot) {
      reader.Fail();
      return;
    }
    records_[slots[position]].client = slot;
    PushBack<Record, &Record::by_client>(records_, client.records, slots[position]);
  }
}

std::string Requests::FindInconsistency(const Timers& timers) const {
  absl::btree_map<Slot, std::uint64_t> bytes;
  std::size_t counted = 0;
  for (const auto& [id, entry] : ages_) {
    const Ages& ages = *entry;
    Timestamp last{};
    for (Slot slot = ages.records.first; slot != kNoSlot; slot = records_[slot].by_age.next) {
      const Record& record = records_[slot];
      if (record.expires_at < last) {
        return "request ids are out of order of expiry";
      }
      last = record.expires_at;
      bytes[record.tenant] += CostOf(record);
      ++counted;
      if (Find(record.tenant, record.request_id) != slot) {
        return "a remembered request id is not in the index";
      }
    }
    if (!ages.records.empty() &&
        (!ages.record_timer || !timers.Has(ages.record_timer_at, TimerKind::kForgetRequests, id))) {
      return "request ids without a timer that forgets them";
    }
    for (Slot slot = ages.clients.first; slot != kNoSlot; slot = clients_[slot].by_age.next) {
      bytes[clients_[slot].tenant] += kClientBytes;
    }
    if (!ages.clients.empty() && !ages.client_timer) {
      return "clients without a timer that forgets them";
    }
  }
  if (counted != records_.size()) {
    return "a remembered request id is in no list";
  }
  for (const auto& [tenant, sum] : bytes) {
    if (namespaces_.TenantAt(tenant).request_bytes != sum) {
      return "request bytes of a tenant are not the sum of its records";
    }
  }
  return {};
}

}  // namespace holdfast::core
