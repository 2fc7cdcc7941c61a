// Runs the commands of a scenario file against a checked state machine and tells what they
// answered, as text. The language: tests/scenario/README.md.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "check/checked_machine.h"
#include "check/text.h"
#include "core/command.h"

namespace holdfast::scenario {

// One line: words, and key=value pairs. A value in double quotes may contain spaces.
class Line {
 public:
  explicit Line(const std::string& text);
  const std::string& word(std::size_t i) const;
  bool Has(const std::string& key) const { return values_.count(key) != 0; }
  std::string Text(const std::string& key, const std::string& otherwise = {}) const;
  std::uint64_t Number(const std::string& key, std::uint64_t otherwise = 0) const;
  Duration Time(const std::string& key) const;

 private:
  std::vector<std::string> words_;
  std::map<std::string, std::string> values_;
};

// "10s", "200ms", "1.5s", "10m", "5h".
Duration ParseDuration(const std::string& text);

class Scenario {
 public:
  // Runs the lines of one block and returns the lines that they print.
  std::string RunBlock(const std::vector<std::string>& lines);
  // What is checked once, at the end.
  void Finish();
  // The first rule that was broken, or empty.
  const std::string& violation() const { return machine_.violation(); }

 private:
  struct Waiting {
    core::WaiterId waiter = 0;
    std::uint64_t attachment = 0;
  };

  // What the commands since the last output said.
  struct ReportLines {
    std::vector<std::string> outcomes;
    std::vector<std::string> answers;
    std::vector<std::string> events;
  };

  void Run(const std::string& text);
  bool RunRunnerCommand(const Line& line);
  bool RunQuery(const Line& line);
  void Repeat(const std::string& text);
  void Advance(const Line& line);
  void WriteResource(const Line& line);
  core::Command Parse(const Line& line);
  core::CommandBody ParseBody(const Line& line);
  core::CommandBody ParseSession(const Line& line);
  core::Acquire ParseAcquire(const Line& line);
  core::Detach ParseDetach(const Line& line);
  Id128 IdOf(const std::string& name);
  Id128 FreshId();
  void Submit(core::Command command);
  void Seal();
  void Report(const core::Batch& batch, const core::Applied& applied);
  void Print(const ReportLines& lines, bool in_full);
  void Print(const std::string& line) { output_ += line + "\n"; }

  check::CheckedMachine machine_;
  check::Names names_;
  std::string output_;
  std::vector<core::Command> open_batch_;
  bool in_batch_ = false;
  bool print_events_ = true;
  bool summarise_ = false;
  bool violation_printed_ = false;
  std::string prefix_;
  ReportLines report_;
  std::uint64_t index_ = 0;
  std::uint64_t epoch_ = 1;
  Timestamp now_{};
  std::uint64_t last_id_ = 0;
  std::map<std::string, Waiting> waiting_;  // by request id
  std::map<core::WaiterId, std::string> waiter_ids_;
  std::map<std::string, core::Token> resources_;  // highest token that each toy resource has seen
};

}  // namespace holdfast::scenario
