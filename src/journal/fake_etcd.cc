#include "journal/fake_etcd.h"

#include <algorithm>

namespace holdfast::journal::etcd {

bool FakeEtcd::Holds(const Guard& guard) const {
  const auto found = pairs_.find(guard.key);
  const Revision actual = found == pairs_.end()             ? 0
                          : guard.of == Guard::Of::kCreated ? found->second.create_revision
                                                            : found->second.mod_revision;
  return actual == guard.revision;
}

void FakeEtcd::Do(const Operation& operation, bool& wrote, std::vector<KeyValue>& found) {
  const Revision next = revision_ + 1;
  if (const auto* put = std::get_if<Put>(&operation); put != nullptr) {
    KeyValue& pair = pairs_[put->key];
    pair.key = put->key;
    pair.value = put->value;
    pair.create_revision = pair.create_revision == 0 ? next : pair.create_revision;
    pair.mod_revision = next;
    history_.push_back({next, {false, pair}});
    wrote = true;
    return;
  }
  const auto* get = std::get_if<Get>(&operation);
  const auto* removed = std::get_if<Delete>(&operation);
  const std::string& key = get != nullptr ? get->key : removed->key;
  const std::string& end = get != nullptr ? get->end : removed->end;
  auto at = pairs_.lower_bound(key);
  while (at != pairs_.end() && (end.empty() ? at->first == key : at->first < end)) {
    if (get != nullptr) {
      if (get->limit > 0 && static_cast<std::int64_t>(found.size()) == get->limit) {
        return;
      }
      found.push_back(at->second);
      if (get->keys_only) {
        found.back().value.clear();
      }
      ++at;
    } else {
      history_.push_back({next, {true, {at->first, {}, 0, next}}});
      wrote = true;
      at = pairs_.erase(at);
    }
  }
}

TxnResult FakeEtcd::Run(const Txn& txn) {
  TxnResult result;
  result.cluster_id = cluster_id_;
  result.succeeded = std::all_of(txn.guards.begin(), txn.guards.end(),
                                 [this](const Guard& guard) { return Holds(guard); });
  bool wrote = false;
  for (const Operation& operation : result.succeeded ? txn.then : txn.otherwise) {
    Do(operation, wrote, result.gets.emplace_back());
  }
  revision_ += wrote ? 1 : 0;
  result.revision = revision_;
  return result;
}

bool FakeEtcd::ChangesSince(Revision from, const std::string& prefix, WatchChanges& out) const {
  out = {cluster_id_, revision_, {}};
  if (from <= compacted_) {
    return false;
  }
  const auto begin =
      std::lower_bound(history_.begin(), history_.end(), from,
                       [](const Version& v, Revision revision) { return v.revision < revision; });
  for (auto at = begin; at != history_.end(); ++at) {
    if (at->change.pair.key.starts_with(prefix)) {
      out.changes.push_back(at->change);
    }
  }
  return true;
}

void FakeEtcd::Compact(Revision revision) {
  compacted_ = std::max(compacted_, revision);
  std::erase_if(history_, [&](const Version& v) { return v.revision <= compacted_; });
}

}  // namespace holdfast::journal::etcd
