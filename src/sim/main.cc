// holdfast-sim: many simulated lives, and what they found.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/planted.h"
#include "sim/planted_bugs.h"
#include "sim/run.h"

namespace holdfast::sim {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::uint64_t first = 1;
  std::uint64_t seeds = 100;
  int jobs = 1;
  int twice_percent = 5;
  int faults_seconds = 60;
  std::string planted;
  std::string json;
  bool log = false;
};

struct Total {
  std::uint64_t seeds = 0;
  std::uint64_t counted = 0;
  Duration simulated{};
  std::uint64_t operations = 0;
  std::uint64_t events = 0;
  Duration slowest_recovery{};
  std::uint64_t twice = 0;
  std::map<std::string, std::uint64_t> counts;
  std::vector<RunResult> failures;
};

RunOptions Plan(const Options& options, std::uint64_t seed) {
  RunOptions run;
  run.seed = seed;
  run.faults_for = Seconds(options.faults_seconds);
  return run;
}

void Add(Total& total, RunResult&& result) {
  ++total.seeds;
  total.counted += result.counted ? 1 : 0;
  total.simulated += result.simulated;
  total.operations += result.operations;
  total.events += result.events;
  total.slowest_recovery = std::max(total.slowest_recovery, result.recovered_in);
  for (const auto& [name, count] : result.counts) {
    total.counts[name] += count;
  }
  if (!result.violation.empty()) {
    fmt::print("seed {}: {}\n  again: holdfast-sim --first {} --seeds 1\n", result.seed,
               result.violation, result.seed);
    total.failures.push_back(std::move(result));
  }
}

// A share of the seeds runs twice: the same seed gives the same life.
RunResult RunMaybeTwice(const Options& options, std::uint64_t seed, bool& twice) {
  RunResult result = Run(Plan(options, seed));
  twice = static_cast<int>(seed % 100) < options.twice_percent;
  if (twice && result.violation.empty() && Run(Plan(options, seed)).trace != result.trace) {
    result.violation = "the same seed gave another life";
  }
  return result;
}

Total RunAll(const Options& options) {
  Total total;
  std::mutex mutex;
  std::atomic<std::uint64_t> next{options.first};
  const auto work = [&] {
    for (;;) {
      const std::uint64_t seed = next++;
      if (seed >= options.first + options.seeds) {
        return;
      }
      bool twice = false;
      RunResult result = RunMaybeTwice(options, seed, twice);
      const std::lock_guard lock(mutex);
      total.twice += twice ? 1 : 0;
      Add(total, std::move(result));
    }
  };
  std::vector<std::jthread> threads;
  for (int i = 0; i < options.jobs; ++i) {
    threads.emplace_back(work);
  }
  threads.clear();
  return total;
}

// Switches off one fault class after the other, as long as it still fails.
void Minimise(const Options& options, const RunResult& failure) {
  RunOptions run = Plan(options, failure.seed);
  std::string violation = failure.violation;
  for (const std::string& name : failure.enabled) {
    run.without.insert(name);
    const RunResult without = Run(run);
    if (without.violation.empty()) {
      run.without.erase(name);
    } else {
      violation = without.violation;
    }
  }
  fmt::print("seed {} needs only:", failure.seed);
  for (const std::string& name : failure.enabled) {
    if (!run.without.contains(name)) {
      fmt::print(" \"{}\"", name);
    }
  }
  fmt::print("\n  and then breaks: {}\n", violation);
}

#ifdef HOLDFAST_PLANTED_BUGS
constexpr std::uint64_t kSeedsForABug = 1000;

// The seed at which the bug was caught, from 1; nothing: it was not.
std::optional<RunResult> Catch(const Options& options, Bug bug) {
  const PlantBug plant(bug);
  for (std::uint64_t seed = 1; seed <= kSeedsForABug; ++seed) {
    RunResult result = Run(Plan(options, seed));
    if (!result.violation.empty()) {
      return result;
    }
  }
  return std::nullopt;
}

int RunPlanted(const Options& options) {
  bool all_caught = true;
  bool any = false;
  for (const PlantedBug& planted : PlantedBugs()) {
    if (options.planted != "all" && options.planted != planted.name) {
      continue;
    }
    any = true;
    const std::optional<RunResult> caught = Catch(options, planted.bug);
    all_caught = all_caught && caught.has_value();
    fmt::print(
        "{:<28} {}\n", planted.name,
        caught ? fmt::format("seed {:>4}: {}", caught->seed, caught->violation) : "NOT CAUGHT");
    std::fflush(stdout);
  }
  if (!any) {
    fmt::print(stderr, "holdfast-sim: no planted bug is called {}\n", options.planted);
    return 64;
  }
  return all_caught ? 0 : 1;
}
#endif

int Report(const Options& options, const Total& total, double seconds) {
  const double simulated = static_cast<double>(total.simulated.count()) / 1e9;
  fmt::print(
      "{} seeds ({} counted, {} run twice), {:.2f} simulated hours, {} operations, {} events, "
      "{:.0f} times real time, slowest recovery {:.1f} s, {} failed\n",
      total.seeds, total.counted, total.twice, simulated / 3600, total.operations, total.events,
      simulated / seconds / options.jobs, static_cast<double>(total.slowest_recovery.count()) / 1e9,
      total.failures.size());
  for (const auto& [name, count] : total.counts) {
    fmt::print("  {:>10}  {}\n", count, name);
  }
  bool missing = false;
  for (const std::string& event : RareEvents()) {
    if (!total.counts.contains(event)) {
      fmt::print("never happened: {}\n", event);
      missing = true;
    }
  }
  if (!options.json.empty()) {
    Json failures = Json::array();
    for (const RunResult& failure : total.failures) {
      failures.push_back({{"seed", failure.seed}, {"violation", failure.violation}});
    }
    std::ofstream(options.json)
        << Json{{"seeds", total.seeds},     {"counted", total.counted},
                {"run_twice", total.twice}, {"simulated_s", simulated},
                {"seconds", seconds},       {"operations", total.operations},
                {"events", total.events},   {"counts", total.counts},
                {"failures", failures}}
               .dump(2)
        << "\n";
  }
  return total.failures.empty() && !missing ? 0 : 1;
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Simulated lives of whole Holdfast clusters, each from a seed.", "holdfast-sim");
  app.add_option("--first", options.first, "First seed (1)")->check(CLI::PositiveNumber);
  app.add_option("--seeds", options.seeds, "How many (100)")->check(CLI::PositiveNumber);
  app.add_option("--jobs", options.jobs, "Threads (1)")->check(CLI::Range(1, 256));
  app.add_option("--twice", options.twice_percent, "Percent of the seeds that run twice (5)")
      ->check(CLI::Range(0, 100));
  app.add_option("--seconds", options.faults_seconds, "Virtual seconds with faults (60)")
      ->check(CLI::Range(1, 3600));
#ifdef HOLDFAST_PLANTED_BUGS
  app.add_option("--planted", options.planted, "all, or the name of a planted bug to catch");
#endif
  app.add_option("--json", options.json, "Write the report to this file");
  app.add_flag("--log", options.log, "The nodes' log on standard error");
  CLI11_PARSE(app, argc, argv);
  log::SetLevel(options.log ? log::Level::kInfo : log::Level::kNone);
#ifdef HOLDFAST_PLANTED_BUGS
  if (!options.planted.empty()) {
    return RunPlanted(options);
  }
#endif
  const auto begun = std::chrono::steady_clock::now();
  const Total total = RunAll(options);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  if (!total.failures.empty()) {
    Minimise(options, total.failures.front());
  }
  return Report(options, total, took.count());
}

}  // namespace
}  // namespace holdfast::sim

int main(int argc, char** argv) {
  return holdfast::sim::Main(argc, argv);
}
