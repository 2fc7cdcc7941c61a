// Verbs on a data directory. They need no service; inspect, verify and backup work beside one.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/id.h"
#include "base/log.h"
#include "cli/journal_rows.h"
#include "cli/verbs.h"
#include "codec/batch_codec.h"
#include "engine/clock.h"
#include "journal/backup.h"
#include "journal/inspect.h"
#include "journal/recover.h"
#include "server/config.h"
#include "server/node.h"
#include "storage/posix_file_system.h"

namespace holdfast::cli {
namespace {

constexpr const char* kChapter = "Data directory";
constexpr const char* kDirectoryNames = "DIR,--data-dir";

int Refuse(const Invocation& invocation, const Error& error) {
  PrintError(invocation.format, error);
  return ExitCodeOf(error);
}

// Puts the fragments of a batch together. Entries that are missing void what was begun.
class BatchReader {
 public:
  struct Read {
    bool complete = false;
    std::optional<core::Batch> batch;  // nothing: it does not decode, `problem` says why
    std::string problem;
  };

  Read Feed(const journal::Entry& entry) {
    if (entry.fragment == 0) {
      bytes_.clear();
    } else if (entry.index != last_index_ + 1) {
      broken_ = true;
    }
    broken_ = broken_ && entry.fragment != 0;
    last_index_ = entry.index;
    bytes_ += entry.payload;
    if (entry.fragment + 1 < entry.fragments) {
      return {};
    }
    if (broken_) {
      return {.complete = true, .batch = {}, .problem = "a fragment of the batch is missing"};
    }
    auto decoded = codec::DecodeBatch(bytes_);
    if (!decoded.ok()) {
      return {.complete = true, .batch = {}, .problem = decoded.error().message};
    }
    return {.complete = true, .batch = std::move(decoded->batch), .problem = {}};
  }

 private:
  std::string bytes_;
  std::uint64_t last_index_ = 0;
  bool broken_ = false;
};

struct InspectOptions {
  std::string directory;
  std::optional<std::uint64_t> from;
  std::optional<std::uint64_t> to;
};

void PrintBatch(Format format, const journal::WalkedEntry& place, const BatchReader::Read& read) {
  Object row = {{"index", place.entry.index},
                {"wall", read.batch.has_value() ? ShowTime(read.batch->wall) : ""},
                {"epoch", place.entry.epoch},
                {"state_time_ms", ToMillis(place.entry.time.time_since_epoch())},
                {"file", place.file},
                {"offset", place.offset},
                {"fragments", place.entry.fragments},
                {"error", read.problem}};
  std::vector<Object> commands;
  if (read.batch.has_value()) {
    for (const core::Command& command : read.batch->commands) {
      commands.push_back(CommandRow(command));
    }
  }
  if (format == Format::kJson) {
    row.push_back({"commands", std::move(commands)});
    PrintLine(format, row);
    return;
  }
  std::string text = ToLine(row) + "\n";
  for (const Object& command : commands) {
    text += "    " + ToLine(command) + "\n";
  }
  PrintRaw(text);
}

int Inspect(const Invocation& invocation, const InspectOptions& options) {
  storage::PosixFileSystem files;
  BatchReader reader;
  const auto report =
      journal::InspectDirectory(files, options.directory, [&](const journal::WalkedEntry& place) {
        const BatchReader::Read read = reader.Feed(place.entry);
        const std::uint64_t index = place.entry.index;
        if (read.complete && index >= options.from.value_or(0) &&
            index <= options.to.value_or(UINT64_MAX)) {
          PrintBatch(invocation.format, place, read);
        }
      });
  if (!report.ok()) {
    return Refuse(invocation, report.error());
  }
  if (invocation.format == Format::kJson) {
    PrintLine(Format::kJson, {{"summary", ReportOf(*report)}});
  } else {
    PrintRaw("\n");
    Print(Format::kText, ReportOf(*report));
  }
  return kDone;
}

int Verify(const Invocation& invocation, const std::string& directory) {
  storage::PosixFileSystem files;
  BatchReader reader;
  std::vector<Object> undecodable;
  const auto report =
      journal::InspectDirectory(files, directory, [&](const journal::WalkedEntry& place) {
        const BatchReader::Read read = reader.Feed(place.entry);
        if (!read.problem.empty()) {
          undecodable.push_back({{"index", place.entry.index},
                                 {"file", place.file},
                                 {"offset", place.offset},
                                 {"reason", read.problem}});
        }
      });
  if (!report.ok()) {
    return Refuse(invocation, report.error());
  }
  const bool sound = report->Sound() && undecodable.empty();
  Object answer = ReportOf(*report);
  answer.front() = {"sound", sound};
  answer.push_back({"undecodable", std::move(undecodable)});
  Print(invocation.format, answer);
  return sound ? kDone : kDamaged;
}

void AddInspectAndVerify(CommandLine& line) {
  line.DescribeGroup("journal", kChapter, "Look into the write-ahead log of a server.");
  auto options = std::make_shared<InspectOptions>();
  line.Local("journal inspect", "",
             "Print the batches of a log and the commands in them, then a summary. Works on "
             "damaged directories and beside a running server, and changes nothing. Request, "
             "lease and session ids appear only as fingerprints.")
      .Text(kDirectoryNames, options->directory, "The data directory")
      .Required()
      .Number("--from", options->from, "First log position to print")
      .Number("--to", options->to, "Last log position to print")
      .Example("holdfast journal inspect data --from 100 --to 200")
      .Exits({})
      .Run([options](const Invocation& invocation) { return Inspect(invocation, *options); });

  auto directory = std::make_shared<std::string>();
  line.Local("journal verify", "",
             "Check every byte of a log and its snapshots: checksums, order, the hash chain, that "
             "each batch decodes, and that this is the directory that was written. A torn append "
             "at the very end is sound: it was never answered, and the next start cuts it.")
      .Text(kDirectoryNames, *directory, "The data directory")
      .Required()
      .Example("holdfast journal verify data")
      .Exits({kDamaged})
      .Run([directory](const Invocation& invocation) { return Verify(invocation, *directory); });
}

Object SummaryOf(const journal::BackupSummary& summary) {
  return {{"log_id", ToHex(summary.log_id)},
          {"snapshot_index", summary.snapshot.index},
          {"entries", summary.entries},
          {"last_index", summary.last_index},
          {"token_floor", Token(summary.token_floor)}};
}

struct CopyOptions {
  std::string from;
  std::string to;
  std::optional<std::uint64_t> token_floor;
};

int Backup(const Invocation& invocation, const CopyOptions& options) {
  storage::PosixFileSystem files;
  const auto summary = journal::Backup(files, options.from, options.to);
  if (!summary.ok()) {
    return Refuse(invocation, summary.error());
  }
  Object answer = {{"backup", options.to}};
  const Object rest = SummaryOf(*summary);
  answer.insert(answer.end(), rest.begin(), rest.end());
  Print(invocation.format, answer);
  return kDone;
}

int Restore(const Invocation& invocation, const CopyOptions& options) {
  storage::PosixFileSystem files;
  const auto summary = journal::Restore(files, options.from, options.to, options.token_floor);
  if (!summary.ok()) {
    return Refuse(invocation, summary.error());
  }
  Object answer = {{"restored", options.to}};
  const Object rest = SummaryOf(*summary);
  answer.insert(answer.end(), rest.begin(), rest.end());
  answer.push_back({"next", options.token_floor.has_value()
                                ? "nothing is granted until the longest old lease has surely ended"
                                : "holdfast recover " + options.to + " --token-floor N"});
  Print(invocation.format, answer);
  return kDone;
}

void AddBackupAndRestore(CommandLine& line) {
  auto backup = std::make_shared<CopyOptions>();
  line.Local("backup", kChapter,
             "Write one file that holds everything a data directory knows: newest snapshot and "
             "the log behind it. Works beside a running server; what that had answered before is "
             "in it.")
      .Text(kDirectoryNames, backup->from, "The data directory")
      .Required()
      .Text("FILE,--to", backup->to, "The new file")
      .Required()
      .Example("holdfast backup data holdfast.backup")
      .Exits({kDamaged})
      .Run([backup](const Invocation& invocation) { return Backup(invocation, *backup); });

  auto restore = std::make_shared<CopyOptions>();
  line.Local("restore", kChapter,
             "Make a new data directory from a backup. Fencing tokens that were granted after the "
             "backup are unknown to it: with --token-floor, at least the highest token that "
             "anybody may have seen, the directory can be served; without it a server refuses "
             "until `holdfast recover`.")
      .Text("FILE,--from", restore->from, "The backup")
      .Required()
      .Text(kDirectoryNames, restore->to, "The new or empty data directory")
      .Required()
      .Number("--token-floor", restore->token_floor, "Every later token is above this")
      .Example("holdfast restore holdfast.backup data --token-floor 1000000")
      .Exits({kDamaged})
      .Run([restore](const Invocation& invocation) { return Restore(invocation, *restore); });
}

struct RecoverOptions {
  std::string directory;
  std::optional<std::uint64_t> token_floor;
  bool accept_damage = false;
  std::string etcd;
  std::string config;
  std::optional<Duration> block;
};

// Of a replicated cluster: a new log in etcd.
int RecoverCluster(const Invocation& invocation, const RecoverOptions& options) {
  // The file is that of a node, or there is none: it does not matter here which node it is.
  std::vector<std::string> settings = {"node.name=recover", "node.listen=127.0.0.1:1"};
  if (!options.etcd.empty()) {
    settings.push_back("etcd.endpoints=" + options.etcd);
  }
  const auto config = server::LoadConfig(options.config, settings);
  if (!config.ok()) {
    return Refuse(invocation, config.error());
  }
  log::SetLevel(log::Level::kWarning);
  storage::PosixFileSystem files;
  engine::SystemClock clock;
  const auto report = server::RecoverLog(files, clock, *config,
                                         {.prefix = config->etcd_prefix,
                                          .directory = options.directory,
                                          .token_floor = options.token_floor.value_or(0),
                                          .block = options.block.value_or(Duration::zero())});
  if (!report.ok()) {
    return Refuse(invocation, report.error());
  }
  Print(invocation.format,
        {{"recovered", config->etcd_prefix},
         {"log_id", ToHex(report->log_id)},
         {"epoch", report->epoch},
         {"token_floor", Token(report->token_floor)},
         {"state_index", report->state_index},
         {"entries_dropped", report->entries_dropped},
         {"blocked_ms", ToMillis(report->block)},
         {"next", options.directory.empty() ? "start the nodes with empty data directories"
                                            : "start the node of " + options.directory +
                                                  ", and the others with empty data directories"}});
  return kDone;
}

int Recover(const Invocation& invocation, const RecoverOptions& options) {
  if (!options.etcd.empty() || !options.config.empty()) {
    return RecoverCluster(invocation, options);
  }
  if (options.directory.empty()) {
    return Refuse(invocation, InvalidArgument("DIR", "a data directory, or --etcd",
                                              "what to recover is not given"));
  }
  if (!options.token_floor.has_value()) {
    return Refuse(invocation, InvalidArgument("--token-floor",
                                              "at least the highest token that anybody has seen",
                                              "a directory needs --token-floor"));
  }
  storage::PosixFileSystem files;
  const auto report = journal::Recover(
      files, options.directory,
      {.token_floor = *options.token_floor, .accept_damage = options.accept_damage});
  if (!report.ok()) {
    return Refuse(invocation, report.error());
  }
  std::vector<Object> aside;
  for (const std::string& file : report->put_aside) {
    aside.push_back({{"file", file}});
  }
  Print(invocation.format,
        {{"recovered", options.directory},
         {"token_floor", Token(*options.token_floor)},
         {"snapshot_index", report->snapshot_index},
         {"last_index", report->last_index},
         {"entries_dropped", report->entries_dropped},
         {"put_aside", std::move(aside)},
         {"next", "nothing is granted until the longest old lease has surely ended"}});
  return kDone;
}

void AddRecover(CommandLine& line) {
  auto options = std::make_shared<RecoverOptions>();
  line.Local("recover", kChapter,
             "Make a data directory usable that a server refuses: one that was copied back, "
             "restored without a token floor, or damaged. You declare what it cannot know: a "
             "fencing token at least as high as any that anybody has seen. The next start grants "
             "nothing until the longest possible lease has ended, and only tokens above the floor "
             "after that. With --etcd it begins a new log for a replicated cluster that has lost "
             "the disks of all nodes, or whose etcd was restored; stop all nodes first. A data "
             "directory of a node is then the state to go on with.")
      .Text(kDirectoryNames, options->directory, "The data directory")
      .Number("--token-floor", options->token_floor,
              "Every later token is above this; needed unless etcd has kept one")
      .Text("--etcd", options->etcd, "HOST:PORT,... of the etcd cluster that holds the log")
      .Text("--config", options->config, "A node's TOML file, for everything else about etcd")
      .Time("--block", options->block,
            "How long nothing is granted, if nothing of the state is left: the longest ttl and "
            "lock-delay of any namespace")
      .Flag("--accept-damage", options->accept_damage,
            "Go on with what is whole before the damage; damaged files are put aside")
      .Example("holdfast recover data --token-floor 1000000")
      .Example("holdfast recover --etcd e0:2379,e1:2379,e2:2379 --block 1h")
      .Exits({kDamaged})
      .Run([options](const Invocation& invocation) { return Recover(invocation, *options); });
}

}  // namespace

void AddJournalVerbs(CommandLine& line) {
  AddInspectAndVerify(line);
  AddBackupAndRestore(line);
  AddRecover(line);
}

}  // namespace holdfast::cli
