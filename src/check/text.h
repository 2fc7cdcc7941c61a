// Outcomes, resolutions, events and views as one line of text each, with short names for ids.
// Scenarios compare these lines, and a checker that objects prints them. No text carries more than
// the numbers of one run, so equal runs give equal text.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/id.h"
#include "base/time.h"
#include "core/event.h"
#include "core/outcome.h"
#include "core/view.h"

namespace holdfast::check {

// "$L1", "$S1": lease and session ids in the order in which they are first printed.
class Names {
 public:
  std::string Lease(const Id128& id) { return NameOf(id, 'L', leases_); }
  std::string Session(const Id128& id) { return NameOf(id, 'S', sessions_); }
  // The id that has this name; zero if none has.
  Id128 Find(std::string_view name) const;

 private:
  std::string NameOf(const Id128& id, char letter, int& count);

  std::map<Id128, std::string> names_;
  int leases_ = 0;
  int sessions_ = 0;
};

// "1.5s", without trailing zeros.
std::string Text(Duration duration);
std::string Text(const core::Outcome& outcome, Names& names);
std::string Text(const core::Event& event);
std::string Text(const core::View& view);

}  // namespace holdfast::check
