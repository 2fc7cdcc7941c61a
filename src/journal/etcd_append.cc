#include "journal/etcd_append.h"

#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "base/planted.h"

namespace holdfast::journal::etcd {
namespace {

Error Damaged(std::string message) {
  return Error{ErrorCode::kCorrupt, std::move(message), {}, {}};
}

}  // namespace

Takeover::Takeover(const Layout& layout, const EpochRecord& mine, Revision expected) : mine_(mine) {
  txn_.guards.push_back(Guard{layout.Epoch(), Guard::Of::kModified, expected});
  txn_.then.emplace_back(Put{layout.Epoch(), EncodeRecord(mine)});
  txn_.otherwise.emplace_back(Get{layout.Epoch(), {}});
}

Takeover::Verdict Takeover::Broken(Error error) {
  error_ = std::move(error);
  return Verdict::kBroken;
}

Takeover::Verdict Takeover::OnAnswer(const Answer& answer) {
  if (const auto* failure = std::get_if<Failure>(&answer); failure != nullptr) {
    return failure->certainty == Certainty::kFatal ? Broken(failure->error) : Verdict::kAgain;
  }
  const auto& result = std::get<TxnResult>(answer);
  if (result.succeeded) {
    epoch_revision_ = result.revision;
    return Verdict::kWon;
  }
  const KeyValue* pair = FirstOf(result, 0);
  if (pair == nullptr) {
    return Broken(Damaged("the epoch record is gone from etcd"));
  }
  Result<EpochRecord> record = DecodeRecord<EpochRecord>(*pair);
  if (!record.ok()) {
    return Broken(record.error());
  }
  epoch_revision_ = pair->mod_revision;
  if (record->attempt == mine_.attempt) {
    return Verdict::kWon;  // an earlier send of the same bytes was done
  }
  current_ = std::move(*record);
  return Verdict::kLost;
}

Appender::Appender(const Layout& layout, Revision epoch_revision, std::uint64_t last_index,
                   Revision last_revision)
    : layout_(layout),
      epoch_revision_(epoch_revision),
      last_index_(last_index),
      last_revision_(last_revision) {}

Guard Appender::guard() const {
  return Guard{layout_.Epoch(), Guard::Of::kModified, epoch_revision_};
}

void Appender::Begin(const Entry& entry) {
  HF_CHECK(!busy(), "one append is in flight at a time");
  HF_CHECK(entry.index == last_index_ + 1, "the entry is the next one");
  value_ = EncodeEntry(entry);
  const std::string slot = layout_.Slot(entry.index);
  txn_ = Txn{};
  if (!Planted(Bug::kAppendWithoutEpochGuard)) {
    txn_.guards.push_back(guard());
  }
  txn_.guards.push_back(Guard{slot, Guard::Of::kCreated, 0});
  if (last_index_ > 0) {
    txn_.guards.push_back(Guard{layout_.Slot(last_index_), Guard::Of::kModified, last_revision_});
  }
  txn_.then.emplace_back(Put{slot, value_});
  txn_.otherwise.emplace_back(Get{layout_.Epoch(), {}});
  txn_.otherwise.emplace_back(Get{slot, {}});
}

Appender::Verdict Appender::Committed(Revision revision) {
  ++last_index_;
  last_revision_ = revision;
  txn_ = Txn{};
  return Verdict::kCommitted;
}

Appender::Verdict Appender::Broken(Error error) {
  error_ = std::move(error);
  return Verdict::kBroken;
}

Appender::Verdict Appender::OnAnswer(const Answer& answer) {
  HF_CHECK(busy(), "an append is in flight");
  if (const auto* failure = std::get_if<Failure>(&answer); failure != nullptr) {
    return failure->certainty == Certainty::kFatal ? Broken(failure->error) : Verdict::kAgain;
  }
  const auto& result = std::get<TxnResult>(answer);
  if (result.succeeded) {
    return Committed(result.revision);
  }
  const KeyValue* epoch = FirstOf(result, 0);
  if (epoch == nullptr) {
    return Broken(Damaged("the epoch record is gone from etcd"));
  }
  if (epoch->mod_revision != epoch_revision_) {
    return Verdict::kDeposed;
  }
  const KeyValue* slot = FirstOf(result, 1);
  if (slot == nullptr) {
    return Broken(Damaged(fmt::format("slot {} is gone from etcd or was changed", last_index_)));
  }
  if (slot->value != value_) {
    return Broken(Damaged(fmt::format("{} holds what this leader did not write", slot->key)));
  }
  return Committed(slot->mod_revision);  // an earlier send of the same bytes was done
}

Follower::Verdict Follower::Take(const KeyValue& pair, Entry& entry) {
  Result<Entry> decoded = DecodeEntry(layout_, pair);
  if (!decoded.ok()) {
    error_ = decoded.error();
    return Verdict::kBroken;
  }
  if (decoded->index <= end_.last.index) {
    return Verdict::kKnown;
  }
  if (decoded->index > end_.last.index + 1) {
    return Verdict::kGap;
  }
  if (const std::string why = WhyNotNext(end_, *decoded); !why.empty()) {
    error_ = Damaged("the log in etcd does not continue what this node has: " + why);
    return Verdict::kBroken;
  }
  entry = std::move(*decoded);
  Advance(end_, entry);
  last_revision_ = pair.mod_revision;
  return Verdict::kNext;
}

bool Follower::Confirm(const KeyValue& pair) {
  const Result<Entry> decoded = DecodeEntry(layout_, pair);
  if (!decoded.ok()) {
    error_ = decoded.error();
    return false;
  }
  if (decoded->index != end_.last.index || EntryHash(*decoded) != end_.last.hash) {
    error_ =
        Damaged(fmt::format("entry {} in etcd is not the one that this node has", end_.last.index));
    return false;
  }
  last_revision_ = pair.mod_revision;
  return true;
}

void Follower::Appended(const Entry& entry) {
  Advance(end_, entry);
}

}  // namespace holdfast::journal::etcd
