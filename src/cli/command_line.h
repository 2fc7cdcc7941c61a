// The command line: verbs with their options, checked while they are read. A thin layer over CLI11,
// so that verbs neither include it nor repeat what all of them have: `-o`, the options that say
// where the service is, help with examples and exit codes, errors that name the option and what it
// takes.
//
// Built and run on the main thread. Variables that options write to must live until Run returns;
// verbs keep them in a shared_ptr that their action holds.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "cli/exit_code.h"
#include "cli/output.h"
#include "holdfast/result.h"

namespace CLI {  // NOLINT(readability-identifier-naming)
class App;
class Option;
}  // namespace CLI

namespace holdfast::cli {

// Where the service is, and who asks.
struct Connection {
  std::vector<std::string> endpoints = {"127.0.0.1:7420"};
  std::string name_space;
  std::string token_file;
  bool tls = false;
  std::string ca;
  std::string cert;
  std::string key;
  std::optional<Duration> timeout;
};

// How the program was called.
struct Invocation {
  std::vector<std::string> words;  // behind the program's name
  Format format = Format::kText;
  Connection connection;
};

using Action = std::function<int(const Invocation&)>;

class CommandLine;

// One verb. Every method adds something to it and returns it.
class Verb {
 public:
  // Names: "NAME" is a positional, "--ttl" an option; "ID,--session" is both.
  Verb& Text(const char* names, std::string& out, const char* help);
  // Tells an empty text from none.
  Verb& Text(const char* names, std::optional<std::string>& out, const char* help);
  Verb& Texts(const char* names, std::vector<std::string>& out, const char* help);
  // A whole number with a unit, such as 30s, 500ms, 5m or 1h.
  Verb& Time(const char* names, std::optional<Duration>& out, const char* help);
  Verb& Number(const char* names, std::optional<std::uint64_t>& out, const char* help);
  // Any number of times.
  Verb& Numbers(const char* names, std::vector<std::uint64_t>& out, const char* help);
  Verb& Decimal(const char* names, std::optional<double>& out, const char* help);
  Verb& Flag(const char* names, bool& out, const char* help);
  // One of the given words.
  Verb& Choice(const char* names, std::optional<std::string>& out,
               const std::vector<std::string>& words, const char* help);
  // KEY=VALUE, any number of times.
  Verb& Pairs(const char* names, std::map<std::string, std::string>& out, const char* help);
  // A command and its arguments behind a `--`, taken as they are. `usage` is what help shows.
  Verb& Command(std::vector<std::string>& out, const char* usage = " -- COMMAND [ARGUMENT]...");
  // The option that was added last must be given.
  Verb& Required();

  Verb& Example(const std::string& text);
  // Beside 0, 64, 69, 70 and 77, which any verb may give.
  Verb& Exits(const std::vector<ExitCode>& codes);
  // More words at the end of the help.
  Verb& Note(const std::string& text);
  void Run(Action action);

 private:
  friend class CommandLine;
  Verb(CommandLine& line, CLI::App& app) : line_(&line), app_(&app) {}

  CommandLine* line_;
  CLI::App* app_;
  CLI::Option* last_ = nullptr;
  // One of each verb's own: CLI11 fills the options of *all* verbs from the environment.
  std::shared_ptr<Connection> connection_;
};

class CommandLine {
 public:
  CommandLine();
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // `path` is the verb's name, with its group in front where it has one: "session open".
  // `chapter` is its heading in the list of verbs.
  Verb Local(const char* path, const char* chapter, const char* purpose);
  // With the options of a Connection.
  Verb OnService(const char* path, const char* chapter, const char* purpose);
  // What is shown about a group of verbs: "session".
  void DescribeGroup(const char* name, const char* chapter, const char* purpose);

  // Reads the words, prints help or an error about them, or runs the chosen verb.
  int Run(int argc, const char* const* argv);

 private:
  friend class Verb;
  CLI::App& Make(const std::string& path, const char* chapter, const char* purpose);
  int Refuse(const Error& error) const;

  std::unique_ptr<CLI::App> root_;
  Invocation invocation_;
  std::optional<std::string> format_;
  std::map<std::string, std::vector<std::string>*> commands_;  // by verb
  Action chosen_;
};

}  // namespace holdfast::cli
