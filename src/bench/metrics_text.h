// Figures of a server that offers them as Prometheus text over HTTP, as etcd and Holdfast do.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/time.h"
#include "holdfast/result.h"

namespace holdfast::bench {

class Metrics {
 public:
  // Lines that are no sample are passed over.
  static Metrics Parse(std::string_view text);

  // The sum over every series of this name whose labels contain `label`, such as cause="EXPIRED".
  // 0 if there is none.
  double Sum(std::string_view name, std::string_view label = {}) const;

 private:
  std::map<std::string, double, std::less<>> samples_;  // by name{labels}
};

// GET /metrics of a server on loopback. Blocks, at most for about `timeout`. kUnavailable without
// an answer of status 200.
Result<Metrics> FetchMetrics(int port, Duration timeout);

// A counter of a process that may start again and then begins at 0.
class RisingCounter {
 public:
  // The first value is where it starts from.
  void Read(double value);
  // The process has been started again: the next value counts in full.
  void Restarted() { last_ = 0; }
  double risen() const { return risen_; }

 private:
  double last_ = -1;  // negative: not read yet
  double risen_ = 0;
};

}  // namespace holdfast::bench
