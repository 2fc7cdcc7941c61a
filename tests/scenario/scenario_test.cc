// One case per text file. HOLDFAST_REWRITE=1 writes what the commands answer now into the files:
// review it as a diff.
#include "tests/scenario/scenario.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

namespace holdfast::scenario {
namespace {

std::vector<std::string> Files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(HOLDFAST_SCENARIOS)) {
    if (entry.path().extension() == ".txt" && entry.path().stem() != "CMakeLists") {
      files.push_back(entry.path().stem().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

struct Played {
  std::string expected;  // the file
  std::string actual;    // the file with the answers of today
  std::string violation;
};

// A block is comments (#), commands, a line "----", the expected answers, and an empty line.
Played Play(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream whole;
  whole << file.rdbuf();
  Played played;
  played.expected = whole.str();
  std::istringstream lines(played.expected);
  std::vector<std::string> commands;
  Scenario scenario;
  bool in_answer = false;
  for (std::string line; std::getline(lines, line);) {
    if (in_answer) {
      if (line.empty()) {
        in_answer = false;
        played.actual += "\n";
      }
      continue;
    }
    played.actual += line + "\n";
    if (line == "----") {
      played.actual += scenario.RunBlock(commands);
      commands.clear();
      in_answer = true;
    } else if (!line.empty() && line.front() != '#') {
      commands.push_back(line);
    }
  }
  if (!commands.empty()) {
    played.actual += "the last block has no ----\n";
  }
  scenario.Finish();
  played.violation = scenario.violation();
  return played;
}

std::string FirstDifference(const Played& played) {
  std::istringstream expected(played.expected);
  std::istringstream actual(played.actual);
  std::string a;
  std::string b;
  for (int number = 1;; ++number) {
    const bool more_a = static_cast<bool>(std::getline(expected, a));
    const bool more_b = static_cast<bool>(std::getline(actual, b));
    if (!more_a && !more_b) {
      return {};
    }
    if (!more_a || !more_b || a != b) {
      return "line " + std::to_string(number) + "\n  expected: " + (more_a ? a : "(end)") +
             "\n  actual:   " + (more_b ? b : "(end)");
    }
  }
}

class ScenarioFiles : public testing::TestWithParam<std::string> {};

TEST_P(ScenarioFiles, AnswerAsWritten) {
  const std::string path = std::string(HOLDFAST_SCENARIOS) + "/" + GetParam() + ".txt";
  const Played played = Play(path);
  EXPECT_EQ(played.violation, "");
  if (std::getenv("HOLDFAST_REWRITE") != nullptr) {
    std::ofstream(path) << played.actual;
    return;
  }
  EXPECT_EQ(FirstDifference(played), "") << path;
}

std::string CaseName(const testing::TestParamInfo<std::string>& file) {
  std::string name = file.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Text, ScenarioFiles, testing::ValuesIn(Files()), CaseName);

}  // namespace
}  // namespace holdfast::scenario
