// The timeline of the demonstration: what happened when, and whether it was right.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "cli/output.h"

namespace holdfast::cli {

// For the thread that runs the demonstration.
class DemoReport {
 public:
  // `live`: each line is printed when it happens.
  explicit DemoReport(bool live);

  void Scene(const std::string& title);
  void Note(const std::string& actor, const std::string& text);
  // Returns `holds`.
  bool Check(bool holds, const std::string& actor, const std::string& text);

  std::size_t failed() const { return failed_; }
  void PrintSummary() const;
  Object ToObject() const;

 private:
  void Add(const std::string& actor, const std::string& text, const char* mark);
  Duration Elapsed() const;

  const bool live_;
  const std::chrono::steady_clock::time_point begin_;
  std::vector<Object> timeline_;
  std::size_t assertions_ = 0;
  std::size_t failed_ = 0;
};

}  // namespace holdfast::cli
