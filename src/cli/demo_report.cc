#include "cli/demo_report.h"

#include <fmt/format.h>

namespace holdfast::cli {
namespace {

constexpr const char* kHolds = "\u2713";
constexpr const char* kFails = "\u2717";
constexpr const char* kNoMark = " ";

}  // namespace

DemoReport::DemoReport(bool live) : live_(live), begin_(std::chrono::steady_clock::now()) {}

Duration DemoReport::Elapsed() const {
  return std::chrono::steady_clock::now() - begin_;
}

void DemoReport::Add(const std::string& actor, const std::string& text, const char* mark) {
  const std::int64_t at = ToMillis(Elapsed());
  if (live_) {
    PrintRaw(
        fmt::format("{:>3}.{:02} s  {} {:<7} {}\n", at / 1000, at % 1000 / 10, mark, actor, text));
  }
  timeline_.push_back({{"at_ms", at}, {"actor", actor}, {"text", text}});
}

void DemoReport::Scene(const std::string& title) {
  if (live_) {
    PrintRaw("\n" + title + "\n");
  }
  timeline_.push_back({{"at_ms", ToMillis(Elapsed())}, {"scene", title}});
}

void DemoReport::Note(const std::string& actor, const std::string& text) {
  Add(actor, text, kNoMark);
}

bool DemoReport::Check(bool holds, const std::string& actor, const std::string& text) {
  Add(actor, text, holds ? kHolds : kFails);
  timeline_.back().push_back({"holds", holds});
  ++assertions_;
  failed_ += holds ? 0 : 1;
  return holds;
}

void DemoReport::PrintSummary() const {
  PrintRaw(
      failed_ == 0
          ? fmt::format("\nAll {} assertions hold, in {}.\n", assertions_, ShowDuration(Elapsed()))
          : fmt::format("\n{} of {} assertions DO NOT hold.\n", failed_, assertions_));
}

Object DemoReport::ToObject() const {
  return {{"passed", failed_ == 0},
          {"assertions", assertions_},
          {"failed", failed_},
          {"duration_ms", ToMillis(Elapsed())},
          {"timeline", timeline_}};
}

}  // namespace holdfast::cli
