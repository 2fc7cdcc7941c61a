#include "check/request_checker.h"

#include <algorithm>

#include "check/text.h"

namespace holdfast::check {
namespace {

std::string ParametersOf(const core::Acquire& c) {
  std::string text = c.resource + "\n" + c.owner + "\n" + std::to_string(c.ttl.count()) + "\n" +
                     std::to_string(c.wait.count()) + "\n" + ToHex(c.session) + "\n";
  for (const core::MetadataEntry& entry : c.metadata) {
    text += std::to_string(entry.key.size()) + ":" + entry.key +
            std::to_string(entry.value.size()) + ":" + entry.value;
  }
  return text + (c.campaign ? "\ncampaign " + c.value : "\n");
}

std::string ParametersOf(const core::OpenSession& c) {
  return "session\n" + c.owner + "\n" + std::to_string(c.ttl.count());
}

// Refusals that the service does not promise to remember: there was no memory for them, or their
// client had said that it does not need them.
bool IsUnremembered(const core::Refused& refused) {
  const bool no_memory = refused.code == core::RefusalCode::kTenantLimit &&
                         refused.limit.rfind("request_bytes", 0) == 0;
  const bool no_tenant =
      refused.code == core::RefusalCode::kStateFull && refused.limit.rfind("tenants", 0) == 0;
  return no_memory || no_tenant || refused.code == core::RefusalCode::kEnded;
}

}  // namespace

RequestChecker::Key RequestChecker::KeyOf(const core::Command& command,
                                          const std::string& request_id) {
  return Key{command.name_space, command.principal, request_id};
}

void RequestChecker::NoteClient(const core::Command& command, const core::ClientContext& said,
                                Duration memory) {
  if (said.client_id.empty()) {
    return;
  }
  Client& client = clients_[KeyOf(command, said.client_id)];
  if (client.remembered_until < now_) {
    client.watermark = 0;  // forgotten with its watermark
  }
  client.remembered_until = now_ + memory;
  client.watermark = std::max(client.watermark, said.answered_below);
  for (auto& [key, request] : requests_) {
    const bool same_tenant =
        std::get<0>(key) == command.name_space && std::get<1>(key) == command.principal;
    if (same_tenant && request.client == said.client_id && request.sequence < client.watermark) {
      request.acknowledged = true;
    }
  }
}

bool RequestChecker::IsBelowWatermark(const core::Command& command,
                                      const core::ClientContext& said) const {
  const auto found = clients_.find(KeyOf(command, said.client_id));
  return !said.client_id.empty() && found != clients_.end() &&
         said.sequence < found->second.watermark;
}

void RequestChecker::BeginBatch(const std::vector<core::Resolution>& resolutions, Timestamp now) {
  now_ = now;
  for (const core::Resolution& resolution : resolutions) {
    pending_[resolution.waiter] = &resolution;
  }
}

void RequestChecker::TakeResolution(core::WaiterId waiter) {
  const auto found = pending_.find(waiter);
  const auto waiting = waiters_.find(waiter);
  if (found == pending_.end() || waiting == waiters_.end()) {
    return;
  }
  Request& request = requests_[waiting->second];
  request.remembered_until = now_ + request.memory;
  if (const auto* granted = std::get_if<core::Granted>(&found->second->outcome);
      granted != nullptr) {
    request.decision = Decision::kGranted;
    request.id = granted->lease_id;
  } else if (const auto* refused = std::get_if<core::Refused>(&found->second->outcome);
             refused != nullptr) {
    request.decision = Decision::kRefused;
    request.code = refused->code;
  }
  waiters_.erase(waiting);
  pending_.erase(found);
}

void RequestChecker::OnNamespaceDeleted(const std::string& name) {
  std::erase_if(requests_, [&](const auto& entry) { return std::get<0>(entry.first) == name; });
  std::erase_if(clients_, [&](const auto& entry) { return std::get<0>(entry.first) == name; });
}

std::string RequestChecker::EndBatch() {
  while (!pending_.empty()) {
    const core::WaiterId waiter = pending_.begin()->first;
    if (!waiters_.contains(waiter)) {
      return "I6: waiter " + std::to_string(waiter) + " is answered, but does not wait";
    }
    TakeResolution(waiter);
  }
  return {};
}

std::string RequestChecker::OnAcquire(const core::Command& command, const core::Outcome& outcome,
                                      Duration memory, const LeaseLookup& lookup) {
  const auto& acquire = std::get<core::Acquire>(command.body);
  NoteClient(command, acquire.client, memory);
  const Key key = KeyOf(command, acquire.request_id);
  const std::string parameters = ParametersOf(acquire);
  auto found = requests_.find(key);
  const auto* granted = std::get_if<core::Granted>(&outcome);
  const auto* answered = std::get_if<core::Refused>(&outcome);
  const bool reused =  // which says nothing about a request that waits
      answered != nullptr && answered->code == core::RefusalCode::kRequestIdReused;
  if (found != requests_.end() && found->second.decision == Decision::kWaiting &&
      !std::holds_alternative<core::Queued>(outcome) && !reused) {
    TakeResolution(found->second.waiter);  // decided earlier in this batch
  }
  const bool new_grant = granted != nullptr && lookup(granted->lease_id).is_new &&
                         granted->lease_id == acquire.lease_id;
  const bool remembered =
      found != requests_.end() && !found->second.acknowledged &&
      (found->second.decision == Decision::kWaiting || now_ <= found->second.remembered_until);
  if (remembered) {
    Request& request = found->second;
    if (!request.parameters.empty() && reused != (request.parameters != parameters)) {
      return "I6: request " + acquire.request_id +
             (reused ? " is called reused, but is the same as before"
                     : " has other parameters than before, and is not refused");
    }
    return reused ? std::string() : SameAnswer(acquire.request_id, request, outcome, lookup);
  }
  if (new_grant && IsBelowWatermark(command, acquire.client)) {
    return "I6: request " + acquire.request_id +
           " is granted, though its client had seen its answer";
  }
  if (found != requests_.end() && !new_grant && !std::holds_alternative<core::Queued>(outcome)) {
    return {};  // forgotten or not, both is allowed now: only an effect would begin a new request
  }
  Request request;
  request.parameters = parameters;
  request.memory = memory;
  request.client = acquire.client.client_id;
  request.sequence = acquire.client.sequence;
  requests_[key] = request;
  return FirstAnswer(command, requests_[key], outcome, new_grant);
}

std::string RequestChecker::FirstAnswer(const core::Command& command, Request& request,
                                        const core::Outcome& outcome, bool new_grant) {
  const auto& acquire = std::get<core::Acquire>(command.body);
  request.remembered_until = now_ + request.memory;
  if (const auto* granted = std::get_if<core::Granted>(&outcome); granted != nullptr) {
    request.decision = Decision::kGranted;
    request.id = granted->lease_id;
    if (!new_grant) {
      return "I6: request " + acquire.request_id + " is answered with a lease of another request";
    }
  } else if (const auto* queued = std::get_if<core::Queued>(&outcome); queued != nullptr) {
    request.decision = Decision::kWaiting;
    request.waiter = queued->waiter;
    request.attachment = queued->attachment;
    waiters_[queued->waiter] = KeyOf(command, acquire.request_id);
  } else if (const auto* refused = std::get_if<core::Refused>(&outcome); refused != nullptr) {
    request.decision = Decision::kRefused;
    request.code = refused->code;
    if (IsUnremembered(*refused) || refused->code == core::RefusalCode::kRequestIdReused) {
      requests_.erase(KeyOf(command, acquire.request_id));
    }
  } else {
    requests_.erase(KeyOf(command, acquire.request_id));  // there is no such namespace
  }
  return {};
}

std::string RequestChecker::SameAnswer(const std::string& id, Request& request,
                                       const core::Outcome& outcome, const LeaseLookup& lookup) {
  const auto* granted = std::get_if<core::Granted>(&outcome);
  const auto* refused = std::get_if<core::Refused>(&outcome);
  const auto* queued = std::get_if<core::Queued>(&outcome);
  Names names;
  switch (request.decision) {
    case Decision::kGranted:
      if (granted != nullptr) {
        const bool same = granted->lease_id == request.id && !lookup(request.id).over;
        return same ? std::string()
                    : "I6: request " + id + " is granted a second lease, or one that is over";
      }
      if (lookup(request.id).current) {
        return "I6: request " + id + " holds, but is not told so when it asks again";
      }
      return refused != nullptr && refused->code == core::RefusalCode::kEnded
                 ? std::string()
                 : "I6: request " + id + " had a lease, and is not told that it ended, but " +
                       Text(outcome, names);
    case Decision::kWaiting:
      if (queued == nullptr || queued->waiter != request.waiter ||
          queued->attachment != request.attachment + 1) {
        return "I6: request " + id + " waits, and is not attached again when it asks again";
      }
      request.attachment = queued->attachment;
      return {};
    case Decision::kRefused:
      return refused != nullptr && refused->code == request.code
                 ? std::string()
                 : "I6: request " + id + " was refused with " + core::RefusalName(request.code) +
                       ", and is answered otherwise when it asks again";
    case Decision::kSession:
    case Decision::kUndecided:
      break;
  }
  return "I6: request " + id + " opened a session, and is taken for a lock";
}

std::string RequestChecker::OnOpenSession(const core::Command& command,
                                          const core::Outcome& outcome, Duration memory) {
  const auto& open = std::get<core::OpenSession>(command.body);
  NoteClient(command, open.client, memory);
  const Key key = KeyOf(command, open.request_id);
  const auto* opened = std::get_if<core::SessionOpened>(&outcome);
  const auto found = requests_.find(key);
  if (found != requests_.end() && !found->second.acknowledged &&
      now_ <= found->second.remembered_until) {
    const Request& request = found->second;
    const bool same = request.decision == Decision::kSession && opened != nullptr &&
                      opened->session_id == request.id;
    if (opened != nullptr && (!same || request.parameters != ParametersOf(open))) {
      return "I6: request " + open.request_id + " opened a session that it must not open";
    }
    return {};
  }
  if (opened != nullptr) {
    Request request;
    request.parameters = ParametersOf(open);
    request.decision = Decision::kSession;
    request.id = opened->session_id;
    request.remembered_until = now_ + memory;
    request.client = open.client.client_id;
    request.sequence = open.client.sequence;
    requests_[key] = request;
  }
  return {};
}

void RequestChecker::OnCancel(const core::Command& command, const core::Outcome& outcome,
                              Duration memory) {
  const auto& cancel = std::get<core::Cancel>(command.body);
  NoteClient(command, cancel.client, memory);
  const auto* cancelled = std::get_if<core::Cancelled>(&outcome);
  if (cancelled == nullptr || cancelled->result != core::CancelResult::kBeforeArrival) {
    return;  // a waiter that was removed is seen by its resolution
  }
  Request request;
  request.decision = Decision::kRefused;
  request.code = core::RefusalCode::kCancelled;
  request.remembered_until = now_ + memory;
  request.client = cancel.client.client_id;
  request.sequence = cancel.client.sequence;
  requests_[KeyOf(command, cancel.request_id)] = request;
}

}  // namespace holdfast::check
