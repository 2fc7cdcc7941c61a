// Load on a running Holdfast server: acquire + release pairs over gRPC, `holdfast bench locks`. One
// thread and one completion queue make the load; every connection is a TCP connection of its own.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/time.h"
#include "bench/recorder.h"
#include "holdfast/result.h"

namespace holdfast::bench {

enum class LoadMode {
  kStream,  // `concurrency` connections, each a bidirectional stream with one operation outstanding
  kUnary,   // `concurrency` connections, each with one unary call outstanding
  kShared,  // one stream, `concurrency` operations outstanding, packed into frames
};

enum class ResourceChoice {
  kOwn,         // each worker goes round its own share of the resources: nothing is contended
  kRoundRobin,  // all go round all resources, from different starts
  kRandom,      // each takes any resource
};

enum class RequestIds {
  kWatermark,   // with client context, as the client library does: the service forgets them early
  kRemembered,  // without: the service remembers each for the namespace's request memory
  kNone,        // a lost reply cannot be asked for again
};

struct LocksBenchOptions {
  std::vector<std::string> endpoints;  // HOST:PORT; connections take them in turn
  LoadMode mode = LoadMode::kStream;
  int concurrency = 64;
  Duration warm_up = Seconds(2);
  Duration duration = Seconds(10);
  // Pairs per second of an open loop: pairs start on schedule however slow the answers are, as long
  // as one of the `concurrency` workers is free, and latency counts from the scheduled time. 0:
  // closed loop.
  double rate = 0;
  std::uint64_t resources = 0;  // 0: one for each worker
  ResourceChoice choice = ResourceChoice::kOwn;
  std::string prefix = "bench";  // resources are named PREFIX/NUMBER
  std::string name_space;        // empty: the default namespace
  Duration ttl = Seconds(30);
  Duration wait{0};
  // Share of the pairs whose client gives up: if its acquire still waits after `patience`, it sends
  // a cancel. Needs request ids and streams.
  double impatient = 0;
  Duration patience = Millis(100);
  // Share of the leases whose client goes away instead of releasing them, so that they expire.
  double abandoned = 0;
  int renewals = 0;  // of each lease, between its acquire and its release
  RequestIds request_ids = RequestIds::kWatermark;
  // Further leases, held over the whole run on a connection of their own and renewed every third of
  // the ttl.
  int holds = 0;
  std::uint64_t seed = 1;  // of ResourceChoice::kRandom, `impatient` and `abandoned`
  pid_t server_pid = 0;    // a local server whose CPU is reported; 0: none
  Duration connect_timeout = Seconds(10);
  std::FILE* progress = nullptr;  // one line per second; null: none
  std::string progress_label;
  // Called once by the thread of the load when the holds are taken and the warm-up begins.
  std::function<void(LoadTime begin)> on_begin = {};
};

struct BenchReport {
  LocksBenchOptions options;
  LoadResult load;
  // Open loop: pairs that were due at the end but could not be begun. More than a few: the rate was
  // not reached.
  std::uint64_t backlog = 0;
  // Operations that had no answer 10 s after the end, although they were sent again and again.
  std::uint64_t unanswered = 0;
};

// Blocks for warm-up + duration and a little more. kInvalidArgument names the option; kUnavailable:
// no connection; other errors: the service refused for good (such as an unknown namespace).
// Transient errors and refusals are counted, and the operation is sent again under the same request
// id. Leaves no lease behind unless the server is gone.
Result<BenchReport> RunLocksBench(const LocksBenchOptions& options);

// One JSON object, with a newline at the end. docs/PERFORMANCE.md lists the fields.
std::string ToJson(const BenchReport& report);
// For people; several lines.
std::string ToText(const BenchReport& report);

const char* LoadModeName(LoadMode mode);

}  // namespace holdfast::bench
