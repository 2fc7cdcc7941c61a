#include "journal/memory_journal.h"

#include <fmt/core.h>

namespace holdfast::journal {

Position MemoryJournal::Last() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return end_.last;
}

std::uint64_t MemoryJournal::FirstIndex() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return end_.last.index + 1 - entries_.size();
}

Status MemoryJournal::Append(const std::vector<Entry>& entries) {
  const std::lock_guard<std::mutex> lock(mutex_);
  end_ = CheckedAdvance(end_, entries);
  entries_.insert(entries_.end(), entries.begin(), entries.end());
  return {};
}

Result<std::vector<Entry>> MemoryJournal::Read(std::uint64_t index, std::size_t bytes_max) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::uint64_t first = end_.last.index + 1 - entries_.size();
  if (index < first) {
    return Error{ErrorCode::kNotFound,
                 fmt::format("entry {} is trimmed, the log begins at {}", index, first),
                 {},
                 {}};
  }
  std::vector<Entry> found;
  std::size_t bytes = 0;
  for (std::uint64_t next = index - first; next < entries_.size(); ++next) {
    const Entry& entry = entries_[static_cast<std::size_t>(next)];
    bytes += entry.payload.size();
    if (!found.empty() && bytes > bytes_max) {
      break;
    }
    found.push_back(entry);
  }
  return found;
}

Status MemoryJournal::Trim(std::uint64_t index) {
  const std::lock_guard<std::mutex> lock(mutex_);
  while (entries_.size() > 1 && entries_.front().index < index) {
    entries_.pop_front();
  }
  return {};
}

}  // namespace holdfast::journal
