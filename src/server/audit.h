// The audit log: one JSON line for each command that changed something or was refused, for each
// lease, wait or session that ended by itself, and for each denied call. Successful renewals and
// keepalives only if asked for: they change nobody's ownership. Fields: docs/formats/audit.md.
//
// The driver of the engine and the fronts only copy records into a bounded queue; a thread formats
// and writes. If the queue is full the records are dropped, and a line of kind "gap" says how many.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/id.h"
#include "base/time.h"
#include "engine/clock.h"
#include "engine/observer.h"
#include "holdfast/result.h"

namespace holdfast::server {

struct AuditOptions {
  std::string path;
  bool renewals = false;
  std::size_t queue_max = 65'536;  // records
};

// One line to be. Capabilities become fingerprints when it is written.
struct AuditRecord {
  enum class Kind : std::uint8_t { kCommand, kEvent, kDenied };
  Kind kind = Kind::kCommand;
  WallTime at{};
  std::uint64_t index = 0;  // of the log; 0 for denials
  std::uint64_t token = 0;  // 0: none
  std::string principal;
  std::string name_space;
  std::string resource;
  const char* verb = "";
  const char* outcome = "";
  const char* cause = "";
  std::string owner;
  std::string reason;
  Id128 lease{};
  Id128 session{};
  std::string request_id;
};

// The line, with its newline.
std::string AuditLine(const AuditRecord& record);

class AuditLog : public engine::Observer {
 public:
  // Opens or creates the file (mode 0600) for appending and starts the writer. kIo names the file.
  static Result<std::unique_ptr<AuditLog>> Open(engine::Clock& clock, const AuditOptions& options);
  // Writes what is queued.
  ~AuditLog() override;
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  void OnApplied(const core::Batch& batch, const core::Applied& applied) override;

  // A call that was refused as unauthenticated or not permitted. Thread-safe.
  void Denied(std::string_view principal, const char* verb, std::string_view name_space,
              const Error& error);

  // Writes what is queued, then goes on in a file newly opened at the same path: for rotation.
  // Returns at once; if the file cannot be opened, the old one stays in use and the log says so.
  // Thread-safe.
  void Reopen();

 private:
  AuditLog(engine::Clock& clock, AuditOptions options, int file);
  void Append(std::vector<AuditRecord>&& records);
  void WriteLoop();
  void WriteRecords(const std::vector<AuditRecord>& records, std::uint64_t dropped);
  bool WriteText(const std::string& text);
  void ReopenFile();

  engine::Clock& clock_;
  const AuditOptions options_;

  // Only the writer's thread.
  int file_;
  bool torn_ = false;            // a write stopped within a line
  std::uint64_t unwritten_ = 0;  // records that the file did not take

  // Any thread, under mutex_.
  std::mutex mutex_;
  std::condition_variable work_;  // records, reopen or stop
  std::vector<AuditRecord> queue_;
  std::uint64_t dropped_ = 0;  // since the writer looked
  bool reopen_ = false;
  bool stop_ = false;

  std::thread writer_;
};

}  // namespace holdfast::server
