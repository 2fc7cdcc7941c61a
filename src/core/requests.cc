#include "core/requests.h"

#include <algorithm>

#include "base/planted.h"
#include "core/hash.h"

namespace holdfast::core {

Slot Requests::Find(Slot tenant, std::string_view request_id) const {
  return index_.Find(HashOf(tenant, request_id), [&](const Record& record) {
    return record.tenant == tenant && record.request_id == request_id;
  });
}

bool Requests::HasRoom(Slot tenant, std::string_view request_id) const {
  const Tenant& usage = namespaces_.TenantAt(tenant);
  const Policy& policy = namespaces_.At(usage.name_space).policy;
  return usage.request_bytes + kRecordBytes + request_id.size() <= policy.request_bytes_per_tenant;
}

Slot Requests::Add(Context& context, Slot tenant, std::string_view request_id,
                   const ClientContext& client) {
  const Slot slot = records_.Add();
  Record& record = records_[slot];
  record.request_id = std::string(request_id);
  record.hash = HashOf(tenant, request_id);
  record.tenant = tenant;
  index_.Insert(record.hash, slot);
  if (!client.client_id.empty()) {
    record.client = ClientOf(context, tenant, client.client_id);
    record.sequence = client.sequence;
    if (record.client != kNoSlot) {
      PushBack<Record, &Record::by_client>(records_, clients_[record.client].records, slot);
    }
  }
  namespaces_.TenantAt(tenant).request_bytes += CostOf(record);
  namespaces_.Reference(tenant);
  namespaces_.Keep(NamespaceOf(tenant));
  const NamespaceId id = NamespaceOf(tenant);
  record.expires_at =
      std::max(AgesOf(id).newest_record, context.now + namespaces_.At(id).policy.request_memory);
  PushRecord(slot);
  ArmRecords(context, id);
  return slot;
}

void Requests::PushRecord(Slot slot) {
  Ages& ages = AgesOf(NamespaceOf(records_[slot].tenant));
  ages.newest_record = records_[slot].expires_at;
  PushBack<Record, &Record::by_age>(records_, ages.records, slot);
}

void Requests::Touch(Context& context, Slot slot) {
  Record& record = records_[slot];
  const NamespaceId id = NamespaceOf(record.tenant);
  Ages& ages = AgesOf(id);
  // The forget timer may now be early; it then finds nothing due and is set again.
  Unlink<Record, &Record::by_age>(records_, ages.records, slot);
  record.expires_at =
      std::max(ages.newest_record, context.now + namespaces_.At(id).policy.request_memory);
  PushRecord(slot);
}

void Requests::Remove(Slot slot) {
  Record& record = records_[slot];
  const Slot tenant = record.tenant;
  const NamespaceId id = NamespaceOf(tenant);
  index_.Erase(record.hash, slot);
  if (record.client != kNoSlot) {
    Unlink<Record, &Record::by_client>(records_, clients_[record.client].records, slot);
  }
  Unlink<Record, &Record::by_age>(records_, AgesOf(id).records, slot);
  namespaces_.TenantAt(tenant).request_bytes -= CostOf(record);
  records_.Free(slot);
  namespaces_.Unreference(tenant);
  namespaces_.Drop(id);
}

void Requests::ArmRecords(Context& context, NamespaceId id) {
  Ages& ages = AgesOf(id);
  if (!ages.record_timer && !ages.records.empty()) {
    ages.record_timer = true;
    ages.record_timer_at = records_[ages.records.first].expires_at;
    context.timers.Set(Timer{ages.record_timer_at, TimerKind::kForgetRequests, id, kNoSlot});
  }
}

void Requests::ArmClients(Context& context, NamespaceId id) {
  Ages& ages = AgesOf(id);
  if (!ages.client_timer && !ages.clients.empty()) {
    ages.client_timer = true;
    ages.client_timer_at = clients_[ages.clients.first].expires_at;
    context.timers.Set(Timer{ages.client_timer_at, TimerKind::kForgetClients, id, kNoSlot});
  }
}

void Requests::DropIfUnused(NamespaceId id) {
  const Ages& ages = AgesOf(id);
  if (ages.records.empty() && ages.clients.empty() && !ages.record_timer && !ages.client_timer) {
    ages_.erase(id);
    recent_ages_ = nullptr;
  }
}

void Requests::OnForgetRequests(Context& context, NamespaceId id) {
  Ages& ages = AgesOf(id);
  ages.record_timer = false;
  while (!ages.records.empty()) {
    const Slot slot = ages.records.first;
    if (records_[slot].expires_at >= context.now || context.due_left == 0) {
      ArmRecords(context, id);
      return;
    }
    --context.due_left;
    if (records_[slot].kind == RecordKind::kWaiting) {
      Touch(context, slot);  // a request in the queue is not decided yet
    } else {
      Remove(slot);
    }
  }
  DropIfUnused(id);
}

Requests::Ages& Requests::AgesOf(NamespaceId id) {
  if (recent_ages_ == nullptr || recent_ages_id_ != id) {
    std::unique_ptr<Ages>& ages = ages_[id];
    if (ages == nullptr) {
      ages = std::make_unique<Ages>();
    }
    recent_ages_ = ages.get();
    recent_ages_id_ = id;
  }
  return *recent_ages_;
}

Slot Requests::FindClient(Slot tenant, const std::string& client_id) const {
  if (recent_client_ != kNoSlot && clients_[recent_client_].tenant == tenant &&
      clients_[recent_client_].client_id == client_id) {
    return recent_client_;
  }
  const auto found = client_by_key_.find(ClientKeyView(tenant, client_id));
  if (found == client_by_key_.end()) {
    return kNoSlot;
  }
  recent_client_ = found->second;
  return recent_client_;
}

Slot Requests::ClientOf(Context& context, Slot tenant, const std::string& client_id) {
  if (const Slot known = FindClient(tenant, client_id); known != kNoSlot) {
    return known;
  }
  Tenant& usage = namespaces_.TenantAt(tenant);
  const NamespaceId id = usage.name_space;
  const Policy& policy = namespaces_.At(id).policy;
  if (usage.request_bytes + kClientBytes > policy.request_bytes_per_tenant) {
    return kNoSlot;
  }
  const Slot slot = clients_.Add();
  clients_[slot].client_id = client_id;
  clients_[slot].tenant = tenant;
  client_by_key_.emplace(ClientKey(tenant, client_id), slot);
  usage.request_bytes += kClientBytes;
  namespaces_.Reference(tenant);
  namespaces_.Keep(id);
  Ages& ages = AgesOf(id);
  clients_[slot].expires_at = std::max(ages.newest_client, context.now + policy.request_memory);
  PushClient(slot);
  ArmClients(context, id);
  return slot;
}

void Requests::PushClient(Slot slot) {
  Ages& ages = AgesOf(NamespaceOf(clients_[slot].tenant));
  ages.newest_client = clients_[slot].expires_at;
  PushBack<Client, &Client::by_age>(clients_, ages.clients, slot);
}

void Requests::TouchClient(Context& context, Slot slot) {
  Client& client = clients_[slot];
  const NamespaceId id = NamespaceOf(client.tenant);
  Ages& ages = AgesOf(id);
  Unlink<Client, &Client::by_age>(clients_, ages.clients, slot);
  client.expires_at =
      std::max(ages.newest_client, context.now + namespaces_.At(id).policy.request_memory);
  PushClient(slot);
}

void Requests::NoteClient(Context& context, Slot tenant, const ClientContext& said) {
  if (said.client_id.empty()) {
    return;
  }
  const Slot slot = ClientOf(context, tenant, said.client_id);
  if (slot == kNoSlot) {
    return;  // no room: its records stay for the whole retention
  }
  TouchClient(context, slot);
  Client& client = clients_[slot];
  client.watermark = std::max(client.watermark, said.answered_below);
  while (!client.records.empty()) {
    const Slot oldest = client.records.first;
    Record& record = records_[oldest];
    if (record.sequence >= client.watermark) {
      return;
    }
    if (record.kind == RecordKind::kWaiting) {
      // Still in the queue, whatever the client says: it is decided later and kept for the
      // retention.
      Unlink<Record, &Record::by_client>(records_, client.records, oldest);
      record.client = kNoSlot;
    } else {
      Remove(oldest);
    }
  }
}

bool Requests::IsBelowWatermark(Slot tenant, const ClientContext& said) const {
  if (said.client_id.empty()) {
    return false;
  }
  const Slot client = FindClient(tenant, said.client_id);
  return client != kNoSlot && said.sequence < clients_[client].watermark;
}

void Requests::ForgetClient(Slot slot) {
  Client& client = clients_[slot];
  while (!client.records.empty()) {
    const Slot record = client.records.first;
    Unlink<Record, &Record::by_client>(records_, client.records, record);
    records_[record].client = kNoSlot;
  }
  const Slot tenant = client.tenant;
  const NamespaceId id = NamespaceOf(tenant);
  client_by_key_.erase(client_by_key_.find(ClientKeyView(tenant, client.client_id)));
  recent_client_ = kNoSlot;
  Unlink<Client, &Client::by_age>(clients_, AgesOf(id).clients, slot);
  namespaces_.TenantAt(tenant).request_bytes -= kClientBytes;
  clients_.Free(slot);
  namespaces_.Unreference(tenant);
  namespaces_.Drop(id);
}

void Requests::OnForgetClients(Context& context, NamespaceId id) {
  Ages& ages = AgesOf(id);
  ages.client_timer = false;
  while (!ages.clients.empty()) {
    const Slot slot = ages.clients.first;
    if (clients_[slot].expires_at >= context.now || context.due_left == 0) {
      ArmClients(context, id);
      return;
    }
    --context.due_left;
    ForgetClient(slot);
  }
  DropIfUnused(id);
}

std::uint64_t FingerprintOf(const Acquire& command) {
  std::uint64_t hash = Hash64(command.resource, 1);
  hash = Hash64(command.owner, hash);
  hash = Mix64(hash ^ static_cast<std::uint64_t>(command.ttl.count()));
  hash = Mix64(hash ^ static_cast<std::uint64_t>(command.wait.count()));
  hash = Hash64(std::string_view(reinterpret_cast<const char*>(command.session.data()),
                                 command.session.size()),
                hash);
  for (const MetadataEntry& entry : command.metadata) {
    hash = Hash64(entry.value, Hash64(entry.key, hash));
  }
  if (command.campaign) {
    hash = Hash64(command.value, hash ^ 2);
  }
  return hash | 1U;
}

std::uint64_t FingerprintOf(const OpenSession& command) {
  return Mix64(Hash64(command.owner, 3) ^ static_cast<std::uint64_t>(command.ttl.count())) | 1U;
}

}  // namespace holdfast::core
