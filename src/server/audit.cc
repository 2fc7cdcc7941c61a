#include "server/audit.h"

#include <cerrno>
#include <ctime>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/log.h"
#include "base/overloaded.h"
#include "core/event.h"

namespace holdfast::server {
namespace {

void AppendText(std::string& line, const char* key, std::string_view text) {
  if (text.empty()) {
    return;
  }
  line.append(",\"").append(key).append("\":\"");
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      line.append({'\\', c});
    } else if (static_cast<unsigned char>(c) < 0x20) {
      fmt::format_to(std::back_inserter(line), "\\u{:04x}", static_cast<unsigned>(c));
    } else {
      line.push_back(c);
    }
  }
  line.push_back('"');
}

void AppendTime(std::string& line, WallTime at) {
  const auto since_epoch = at.time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since_epoch);
  const std::time_t time = seconds.count();
  std::tm parts{};
  gmtime_r(&time, &parts);
  fmt::format_to(std::back_inserter(line),
                 "{{\"time\":\"{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z\"", parts.tm_year + 1900,
                 parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                 ToMillis(since_epoch - seconds));
}

const char* KindName(AuditRecord::Kind kind) {
  switch (kind) {
    case AuditRecord::Kind::kCommand:
      return "command";
    case AuditRecord::Kind::kEvent:
      return "event";
    case AuditRecord::Kind::kDenied:
      break;
  }
  return "denied";
}

const char* NamespaceName(core::NamespaceResult result) {
  switch (result) {
    case core::NamespaceResult::kOk:
      return "OK";
    case core::NamespaceResult::kNotFound:
      return "NAMESPACE_NOT_FOUND";
    case core::NamespaceResult::kExists:
      return "NAMESPACE_EXISTS";
    case core::NamespaceResult::kNotEmpty:
      return "NAMESPACE_NOT_EMPTY";
    case core::NamespaceResult::kLimit:
      break;
  }
  return "NAMESPACE_LIMIT";
}

const char* NamespaceVerbName(core::NamespaceVerb verb) {
  switch (verb) {
    case core::NamespaceVerb::kCreate:
      return "CREATE_NAMESPACE";
    case core::NamespaceVerb::kSet:
      return "SET_NAMESPACE";
    case core::NamespaceVerb::kDelete:
      break;
  }
  return "DELETE_NAMESPACE";
}

// What was asked. False for commands that nobody asked for.
bool DescribeCommand(const core::CommandBody& body, AuditRecord& record) {
  return std::visit(Overloaded{
                        [&](const core::Acquire& c) {
                          record.verb = c.campaign ? "CAMPAIGN" : "ACQUIRE";
                          record.resource = c.resource;
                          record.owner = c.owner;
                          record.request_id = c.request_id;
                          record.session = c.session;
                          return true;
                        },
                        [&](const core::Renew& c) {
                          record.verb = "RENEW";
                          record.resource = c.resource;
                          record.lease = c.lease_id;
                          return true;
                        },
                        [&](const core::Release& c) {
                          record.verb = "RELEASE";
                          record.resource = c.resource;
                          record.lease = c.lease_id;
                          return true;
                        },
                        [&](const core::Cancel& c) {
                          record.verb = "CANCEL";
                          record.resource = c.resource;
                          record.owner = c.owner;
                          record.request_id = c.request_id;
                          return true;
                        },
                        [&](const core::Detach& /*c*/) { return false; },
                        [&](const core::Break& c) {
                          record.verb = "BREAK";
                          record.resource = c.resource;
                          record.reason = c.reason;
                          return true;
                        },
                        [&](const core::Proclaim& c) {
                          record.verb = "PROCLAIM";
                          record.resource = c.resource;
                          record.lease = c.lease_id;
                          return true;
                        },
                        [&](const core::OpenSession& c) {
                          record.verb = "OPEN_SESSION";
                          record.owner = c.owner;
                          record.request_id = c.request_id;
                          return true;
                        },
                        [&](const core::KeepAlive& c) {
                          record.verb = "KEEP_ALIVE";
                          record.session = c.session_id;
                          return true;
                        },
                        [&](const core::CloseSession& c) {
                          record.verb = "CLOSE_SESSION";
                          record.session = c.session_id;
                          return true;
                        },
                        [&](const core::ChangeNamespace& c) {
                          record.verb = NamespaceVerbName(c.verb);
                          record.name_space = c.name;
                          return true;
                        },
                        [&](const core::EpochStart& /*c*/) {
                          record.verb = "EPOCH_START";
                          return true;
                        },
                        [&](const core::SetFeatureLevel& /*c*/) {
                          record.verb = "SET_FEATURE_LEVEL";
                          return true;
                        },
                        [&](const core::RecoverState& c) {
                          record.verb = "RECOVER";
                          record.token = c.token_floor;
                          return true;
                        },
                    },
                    body);
}

// What came of it. False for a success that only extends a lease.
bool DescribeOutcome(const core::Outcome& outcome, AuditRecord& record) {
  const auto with_cause = [&record](const char* name, core::Cause cause) {
    record.outcome = name;
    record.cause = cause == core::Cause::kNone ? "" : core::CauseName(cause);
    return true;
  };
  return std::visit(
      Overloaded{
          [&](const core::Done& /*o*/) { return with_cause("DONE", core::Cause::kNone); },
          [&](const core::Granted& o) {
            record.token = o.token;
            record.lease = o.lease_id;
            return with_cause("GRANTED", core::Cause::kNone);
          },
          [&](const core::Refused& o) { return with_cause(core::RefusalName(o.code), o.cause); },
          [&](const core::Queued& /*o*/) { return with_cause("WAITING", core::Cause::kNone); },
          [&](const core::Renewed& /*o*/) {
            record.outcome = "RENEWED";
            return false;
          },
          [&](const core::NotRenewed& o) { return with_cause("NOT_RENEWED", o.cause); },
          [&](const core::Released& o) {
            return with_cause(o.released ? "RELEASED" : "NOT_RELEASED", o.cause);
          },
          [&](const core::Cancelled& o) {
            return with_cause(core::CancelResultName(o.result), core::Cause::kNone);
          },
          [&](const core::Broken& o) {
            return with_cause(core::BreakResultName(o.result), core::Cause::kNone);
          },
          [&](const core::Proclaimed& o) {
            return with_cause(o.proclaimed ? "PROCLAIMED" : "NOT_PROCLAIMED", o.cause);
          },
          [&](const core::SessionOpened& o) {
            record.session = o.session_id;
            return with_cause("OPENED", core::Cause::kNone);
          },
          [&](const core::SessionRefused& o) {
            return with_cause(core::SessionRefusalName(o.reason), core::Cause::kNone);
          },
          [&](const core::SessionKept& o) {
            with_cause(o.alive ? "ALIVE" : "NOT_ALIVE", o.cause);
            return !o.alive;
          },
          [&](const core::SessionClosed& o) {
            return with_cause(o.closed ? "CLOSED" : "NOT_CLOSED", o.cause);
          },
          [&](const core::NamespaceChanged& o) {
            return with_cause(NamespaceName(o.result), core::Cause::kNone);
          },
          [&](const core::FeatureLevelSet& o) {
            return with_cause(o.accepted ? "ACCEPTED" : "REFUSED", core::Cause::kNone);
          },
          [&](const core::NoSuchNamespace& /*o*/) {
            return with_cause("NAMESPACE_NOT_FOUND", core::Cause::kNone);
          },
      },
      outcome);
}

// Whether the event has no command of its own that tells the same.
bool EndedByItself(const core::Event& event) {
  switch (event.kind) {
    case core::EventKind::kGranted:
      return event.cause == core::Cause::kHandedOver;
    case core::EventKind::kEnded:
      return event.cause != core::Cause::kReleased;
    case core::EventKind::kWaiterLeft:
      return event.cause != core::Cause::kCancelled;
    case core::EventKind::kSessionEnded:
      return event.cause != core::Cause::kSessionClosed;
    case core::EventKind::kRevoking:
    case core::EventKind::kWaiting:
    case core::EventKind::kProclaimed:
    case core::EventKind::kConfirmed:
    case core::EventKind::kSessionOpened:
      break;
  }
  return false;
}

AuditRecord RecordOf(const core::Event& event) {
  AuditRecord record;
  record.kind = AuditRecord::Kind::kEvent;
  record.token = event.token;
  record.principal = event.principal;
  record.name_space = event.name_space;
  record.resource = event.resource;
  record.verb = core::EventKindName(event.kind);
  record.cause = event.cause == core::Cause::kNone ? "" : core::CauseName(event.cause);
  record.owner = event.owner;
  record.reason = event.reason;
  (event.kind == core::EventKind::kSessionEnded ? record.session : record.lease) = event.capability;
  return record;
}

Result<int> OpenForAppend(const std::string& path) {
  const int file = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) {
    return Error{
        ErrorCode::kIo,
        "cannot open the audit log " + path + ": " + std::generic_category().message(errno), "",
        ""};
  }
  return file;
}

}  // namespace

std::string AuditLine(const AuditRecord& record) {
  std::string line;
  line.reserve(384);
  AppendTime(line, record.at);
  AppendText(line, "kind", KindName(record.kind));
  if (record.index != 0) {
    fmt::format_to(std::back_inserter(line), ",\"index\":{}", record.index);
  }
  AppendText(line, "principal", record.principal);
  AppendText(line, "namespace", record.name_space);
  AppendText(line, "resource", record.resource);
  AppendText(line, "verb", record.verb);
  AppendText(line, "outcome", record.outcome);
  AppendText(line, "cause", record.cause);
  if (record.token != 0) {
    fmt::format_to(std::back_inserter(line), ",\"token\":\"{}\"", record.token);
  }
  AppendText(line, "owner", record.owner);
  AppendText(line, "reason", record.reason);
  if (!IsZero(record.lease)) {
    AppendText(line, "lease_fp", Fingerprint(record.lease));
  }
  if (!IsZero(record.session)) {
    AppendText(line, "session_fp", Fingerprint(record.session));
  }
  if (!record.request_id.empty()) {
    AppendText(line, "request_fp", Fingerprint(record.request_id));
  }
  return line.append("}\n");
}

Result<std::unique_ptr<AuditLog>> AuditLog::Open(engine::Clock& clock,
                                                 const AuditOptions& options) {
  const auto file = OpenForAppend(options.path);
  if (!file.ok()) {
    return file.error();
  }
  return std::unique_ptr<AuditLog>(new AuditLog(clock, options, *file));
}

AuditLog::AuditLog(engine::Clock& clock, AuditOptions options, int file)
    : clock_(clock), options_(std::move(options)), file_(file), writer_([this] { WriteLoop(); }) {}

AuditLog::~AuditLog() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  work_.notify_one();
  writer_.join();
  close(file_);
}

void AuditLog::OnApplied(const core::Batch& batch, const core::Applied& applied) {
  std::vector<AuditRecord> records;
  for (std::size_t i = 0; i < batch.commands.size(); ++i) {
    AuditRecord record;
    record.principal = batch.commands[i].principal;
    record.name_space = batch.commands[i].name_space;
    const bool asked = DescribeCommand(batch.commands[i].body, record);
    if (asked && (DescribeOutcome(applied.outcomes[i], record) || options_.renewals)) {
      records.push_back(std::move(record));
    }
  }
  for (const core::Event& event : applied.events) {
    if (EndedByItself(event)) {
      records.push_back(RecordOf(event));
    }
  }
  for (AuditRecord& record : records) {
    record.at = batch.wall;
    record.index = batch.index;
  }
  Append(std::move(records));
}

void AuditLog::Denied(std::string_view principal, const char* verb, std::string_view name_space,
                      const Error& error) {
  AuditRecord record;
  record.kind = AuditRecord::Kind::kDenied;
  record.at = clock_.Wall();
  record.principal = principal;
  record.name_space = name_space;
  record.verb = verb;
  record.outcome = ErrorCodeName(error.code);
  record.reason = error.message;
  std::vector<AuditRecord> records;
  records.push_back(std::move(record));
  Append(std::move(records));
}

void AuditLog::Append(std::vector<AuditRecord>&& records) {
  if (records.empty()) {
    return;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (queue_.size() + records.size() > options_.queue_max) {
      dropped_ += records.size();
      return;
    }
    if (queue_.empty()) {
      queue_.swap(records);
    } else {
      queue_.insert(queue_.end(), std::make_move_iterator(records.begin()),
                    std::make_move_iterator(records.end()));
    }
  }
  work_.notify_one();
}

void AuditLog::Reopen() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    reopen_ = true;
  }
  work_.notify_one();
}

void AuditLog::WriteLoop() {
  std::vector<AuditRecord> records;
  bool stop = false;
  while (!stop) {
    bool reopen = false;
    std::uint64_t dropped = 0;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      work_.wait(lock, [this] { return !queue_.empty() || dropped_ > 0 || reopen_ || stop_; });
      records.swap(queue_);
      dropped = std::exchange(dropped_, 0);
      reopen = std::exchange(reopen_, false);
      stop = stop_;
    }
    WriteRecords(records, dropped);
    records.clear();
    if (reopen) {
      ReopenFile();
    }
  }
}

void AuditLog::WriteRecords(const std::vector<AuditRecord>& records, std::uint64_t dropped) {
  std::string text;
  for (const AuditRecord& record : records) {
    text += AuditLine(record);
  }
  // What was dropped came after what was queued.
  if (dropped > 0) {
    AppendTime(text, clock_.Wall());
    fmt::format_to(std::back_inserter(text), ",\"kind\":\"gap\",\"dropped\":{}}}\n", dropped);
  }
  if (text.empty()) {
    return;
  }
  std::string lead = torn_ ? "\n" : "";
  if (unwritten_ > 0) {
    AppendTime(lead, clock_.Wall());
    fmt::format_to(std::back_inserter(lead), ",\"kind\":\"gap\",\"dropped\":{}}}\n", unwritten_);
  }
  if (WriteText(lead + text)) {
    unwritten_ = 0;
  } else {
    unwritten_ += records.size() + dropped;
  }
}

bool AuditLog::WriteText(const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = write(file_, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      if (unwritten_ == 0) {  // once for a run of failures
        log::Error("audit log cannot be written path={} error={}", options_.path,
                   std::generic_category().message(errno));
      }
      torn_ = torn_ || done > 0;
      return false;
    }
    done += static_cast<std::size_t>(written);
  }
  torn_ = false;
  return true;
}

void AuditLog::ReopenFile() {
  const auto file = OpenForAppend(options_.path);
  if (!file.ok()) {
    log::Error("{}; the old file stays in use", file.error().message);
    return;
  }
  close(file_);
  file_ = *file;
  torn_ = false;
  log::Info("audit log opened anew path={}", options_.path);
}

}  // namespace holdfast::server
