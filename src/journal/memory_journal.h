// A journal that lives as long as its object: for tests and the simulator, and durable in no sense.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "journal/chain.h"
#include "journal/journal.h"

namespace holdfast::journal {

// Threads as in Journal.
class MemoryJournal final : public Journal {
 public:
  Position Last() const override;
  std::uint64_t FirstIndex() const override;
  Status Append(const std::vector<Entry>& entries) override;
  Result<std::vector<Entry>> Read(std::uint64_t index, std::size_t bytes_max) const override;
  // Exact: keeps nothing below `index` but the last entry.
  Status Trim(std::uint64_t index) override;

 private:
  mutable std::mutex mutex_;  // guards all below
  std::deque<Entry> entries_;
  ChainEnd end_;
};

}  // namespace holdfast::journal
