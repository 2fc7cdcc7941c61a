// One simulated life of a cluster from a seed: the seed picks faults (a random subset of all
// classes), plays them while workers work, lets them stop, and then wants everything back within
// bounded time. Checked all the time: cluster.h, and what workers believe (I5, I8).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/time.h"

namespace holdfast::sim {

struct RunOptions {
  std::uint64_t seed = 1;
  Duration faults_for = Seconds(60);
  std::set<std::string> without;  // fault classes that this run leaves out
};

struct RunResult {
  std::uint64_t seed = 0;
  std::string violation;  // the first rule that was broken; empty: none
  std::uint64_t trace = 0;
  Duration simulated{};
  Duration recovered_in{};  // after the faults had stopped
  std::uint64_t operations = 0;
  std::uint64_t events = 0;
  std::set<std::string> enabled;  // fault classes
  std::map<std::string, std::uint64_t> counts;
  // It lasted long enough, did enough, and each fault class that it enabled has fired.
  bool counted = false;
};

RunResult Run(const RunOptions& options);

// Names of all fault classes.
const std::vector<std::string>& FaultClasses();
// What has to happen now and then, over many seeds, or they prove less than they seem to.
const std::vector<std::string>& RareEvents();

}  // namespace holdfast::sim
