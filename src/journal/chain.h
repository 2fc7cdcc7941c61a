// The rules that consecutive entries keep: indexes without holes, each entry carries the hash of
// the one before it, neither epoch nor time falls.
#pragma once

#include <string>
#include <vector>

#include "base/time.h"
#include "journal/journal.h"

namespace holdfast::journal {

// The end of a log: what the next entry must continue.
struct ChainEnd {
  Position last;
  Timestamp time{};  // of the last entry
};

// What is wrong with `entry` as the next one, in words; empty when nothing is.
std::string WhyNotNext(const ChainEnd& end, const Entry& entry);

// Moves `end` over `entry`.
void Advance(ChainEnd& end, const Entry& entry);

// `end` moved over all of the entries, which must continue it: anything else is the caller's defect
// and ends the process.
ChainEnd CheckedAdvance(ChainEnd end, const std::vector<Entry>& entries);

}  // namespace holdfast::journal
