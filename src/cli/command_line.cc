#include "cli/command_line.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "server/config_values.h"

namespace holdfast::cli {
namespace {

constexpr const char* kPurpose =
    "Holdfast hands out bounded, fenced ownership: exclusive locks and leaderships that end by "
    "themselves (a lease), carry a number that only grows (a fencing token), and can be asked for "
    "again without harm (a request id).";

constexpr const char* kRootFooter =
    "First steps:\n"
    "  holdfast demo                                     watch what it guarantees\n"
    "  holdfast server --data-dir data &                 a server on 127.0.0.1:7420\n"
    "  holdfast acquire orders/7 --ttl 30s -o json       take a lock\n"
    "  holdfast lock backup -- ./backup.sh               run a command under a lock\n"
    "`holdfast VERB --help` explains each verb; docs/CLI.md has the schema of `-o json`.";

constexpr std::size_t kHelpWidth = 88;
constexpr std::size_t kHelpColumn = 32;

// Breaks lines between words; every line but the first is indented.
std::string Wrapped(const std::string& text, std::size_t indent, std::size_t begin) {
  std::string wrapped;
  std::size_t column = begin;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    if (column > indent && column + (end - at) > kHelpWidth) {
      wrapped += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (at > 0) {
      wrapped += " ";
      ++column;
    }
    wrapped += text.substr(at, end - at);
    column += end - at;
    at = end + 1;
  }
  return wrapped;
}

class HelpFormat : public CLI::Formatter {
 public:
  explicit HelpFormat(std::string usage_tail = {}) : usage_tail_(std::move(usage_tail)) {
    column_width(kHelpColumn);
  }

  std::string make_description(const CLI::App* app) const override {
    return Wrapped(app->get_description(), 0, 0) + "\n\n";
  }
  std::string make_usage(const CLI::App* app, std::string name) const override {
    for (const CLI::App* parent = app->get_parent(); parent != nullptr;
         parent = parent->get_parent()) {
      name = parent->get_name() + " " + name;
    }
    std::string usage = CLI::Formatter::make_usage(app, name);
    usage.insert(usage.find_last_not_of('\n') + 1, usage_tail_);
    return usage;
  }
  // In a list of verbs the first sentence is enough.
  std::string make_subcommand(const CLI::App* app) const override {
    const std::string purpose = app->get_description();
    const std::size_t end = purpose.find_first_of(".;:");
    return Row("  " + app->get_name(), purpose.substr(0, end));
  }
  std::string make_option(const CLI::Option* option, bool positional) const override {
    return Row("  " + make_option_name(option, positional) + make_option_opts(option),
               make_option_desc(option));
  }

 private:
  static std::string Row(const std::string& left, const std::string& right) {
    const bool fits = left.size() + 2 <= kHelpColumn;
    const std::string start = fits ? left + std::string(kHelpColumn - left.size(), ' ')
                                   : left + "\n" + std::string(kHelpColumn, ' ');
    return start + Wrapped(right, kHelpColumn, kHelpColumn) + "\n";
  }

  const std::string usage_tail_;
};

// An option's value cannot be used. Thrown through CLI11, which knows only its own errors.
struct BadValue {
  Error error;
};

std::string NameOf(const std::string& names) {
  const std::size_t dashes = names.find("--");
  std::string name = names.substr(dashes == std::string::npos ? 0 : dashes + 2);
  name = name.substr(0, name.find(','));
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    return c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  });
  return name;
}

[[noreturn]] void Reject(const std::string& names, const std::string& limit,
                         const std::string& message) {
  throw BadValue{InvalidArgument(NameOf(names), limit, NameOf(names) + " " + message)};
}

Duration ReadTime(const std::string& names, const std::string& text) {
  constexpr const char* kLimit = "a whole number with a unit: ms, s, m or h";
  const bool digits = !text.empty() && std::all_of(text.begin(), text.end(),
                                                   [](char c) { return c >= '0' && c <= '9'; });
  if (digits) {
    Reject(names, kLimit, fmt::format("\"{0}\" has no unit: write {0}s or {0}ms", text));
  }
  const auto duration = server::ParseDuration(text);
  if (!duration.has_value()) {
    Reject(names, kLimit,
           fmt::format("\"{}\" is not a duration such as 30s, 500ms, 5m or 1h", text));
  }
  return *duration;
}

template <typename T>
T ReadNumber(const std::string& names, const std::string& text, const char* limit) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    Reject(names, limit, fmt::format("\"{}\" is not {}", text, limit));
  }
  return number;
}

void AddConnection(CLI::App& app, Connection& connection) {
  const auto add = [&](CLI::Option* option) { option->group("Service"); };
  add(app.add_option("--endpoints", connection.endpoints,
                     "Servers to try, in this order (127.0.0.1:7420)")
          ->delimiter(',')
          ->envname("HOLDFAST_ENDPOINTS")
          ->type_name("HOST:PORT,...")
          ->allow_extra_args(false));
  add(app.add_option("-n,--namespace", connection.name_space, "Namespace (default: default)")
          ->envname("HOLDFAST_NAMESPACE")
          ->type_name("NS"));
  add(app.add_option("--token-file", connection.token_file, "File with the bearer token")
          ->envname("HOLDFAST_TOKEN_FILE")
          ->type_name("FILE"));
  add(app.add_flag("--tls", connection.tls, "Use TLS with the system's root certificates"));
  add(app.add_option("--ca", connection.ca, "Use TLS and trust these certificates (PEM)")
          ->type_name("FILE"));
  add(app.add_option("--cert", connection.cert, "Client certificate (PEM), with --key")
          ->type_name("FILE"));
  add(app.add_option("--key", connection.key, "Private key of --cert (PEM)")->type_name("FILE"));
  add(app.add_option_function<std::string>(
             "--timeout",
             [&connection](const std::string& text) {
               connection.timeout = ReadTime("--timeout", text);
             },
             "Give up after this long, retries included; an acquire's wait comes on top (10s)")
          ->type_name("TIME"));
}

// The parser may fail before it has seen `-o json`, and the error has to be JSON all the same.
bool WantsJson(const std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool spaced = (words[i] == "-o" || words[i] == "--output") && i + 1 < words.size() &&
                        words[i + 1] == "json";
    if (spaced || words[i] == "-ojson" || words[i] == "--output=json") {
      return true;
    }
  }
  return false;
}

// For a verb that does not exist: the one that is spelled most like it.
std::string NearestVerb(const CLI::App& app, const std::string& word) {
  std::string nearest;
  std::size_t best = 3;  // further away is no typing error
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    const std::size_t distance = server::EditDistance(word, verb->get_name());
    if (distance < best) {
      best = distance;
      nearest = verb->get_name();
    }
  }
  return nearest;
}

}  // namespace

Verb& Verb::Text(const char* names, std::string& out, const char* help) {
  last_ = app_->add_option(names, out, help)->type_name("TEXT");
  return *this;
}

Verb& Verb::Text(const char* names, std::optional<std::string>& out, const char* help) {
  last_ = app_->add_option_function<std::string>(
      names, [&out](const std::string& text) { out = text; }, help);
  last_->type_name("TEXT");
  return *this;
}

Verb& Verb::Texts(const char* names, std::vector<std::string>& out, const char* help) {
  last_ = app_->add_option(names, out, help)->type_name("TEXT")->allow_extra_args(false);
  return *this;
}

Verb& Verb::Time(const char* names, std::optional<Duration>& out, const char* help) {
  last_ = app_->add_option_function<std::string>(
      names, [&out, names](const std::string& text) { out = ReadTime(names, text); }, help);
  last_->type_name("TIME");
  return *this;
}

Verb& Verb::Number(const char* names, std::optional<std::uint64_t>& out, const char* help) {
  last_ = app_->add_option_function<std::string>(
      names,
      [&out, names](const std::string& text) {
        out = ReadNumber<std::uint64_t>(names, text, "a whole number from 0");
      },
      help);
  last_->type_name("NUMBER");
  return *this;
}

Verb& Verb::Numbers(const char* names, std::vector<std::uint64_t>& out, const char* help) {
  last_ = app_->add_option_function<std::vector<std::string>>(
      names,
      [&out, names](const std::vector<std::string>& texts) {
        for (const std::string& text : texts) {
          out.push_back(ReadNumber<std::uint64_t>(names, text, "a whole number from 0"));
        }
      },
      help);
  last_->type_name("NUMBER,...")->delimiter(',')->allow_extra_args(false);
  return *this;
}

Verb& Verb::Decimal(const char* names, std::optional<double>& out, const char* help) {
  last_ = app_->add_option_function<std::string>(
      names,
      [&out, names](const std::string& text) { out = ReadNumber<double>(names, text, "a number"); },
      help);
  last_->type_name("NUMBER");
  return *this;
}

Verb& Verb::Flag(const char* names, bool& out, const char* help) {
  last_ = app_->add_flag(names, out, help);
  return *this;
}

Verb& Verb::Choice(const char* names, std::optional<std::string>& out,
                   const std::vector<std::string>& words, const char* help) {
  const std::string limit = fmt::format("{}", fmt::join(words, " or "));
  last_ = app_->add_option_function<std::string>(
      names,
      [&out, names, words, limit](const std::string& text) {
        if (std::find(words.begin(), words.end(), text) == words.end()) {
          Reject(names, limit, fmt::format("\"{}\" is not {}", text, limit));
        }
        out = text;
      },
      help);
  last_->type_name(fmt::format("{}", fmt::join(words, "|")));
  return *this;
}

Verb& Verb::Pairs(const char* names, std::map<std::string, std::string>& out, const char* help) {
  last_ = app_->add_option_function<std::vector<std::string>>(
      names,
      [&out, names](const std::vector<std::string>& pairs) {
        for (const std::string& pair : pairs) {
          const std::size_t equals = pair.find('=');
          if (equals == std::string::npos) {
            Reject(names, "KEY=VALUE", fmt::format("\"{}\" is not KEY=VALUE", pair));
          }
          out[pair.substr(0, equals)] = pair.substr(equals + 1);
        }
      },
      help);
  last_->type_name("KEY=VALUE")->allow_extra_args(false);
  return *this;
}

Verb& Verb::Command(std::vector<std::string>& out, const char* usage) {
  line_->commands_[app_->get_name()] = &out;
  app_->formatter(std::make_shared<HelpFormat>(usage));
  return *this;
}

Verb& Verb::Required() {
  last_->required();
  return *this;
}

Verb& Verb::Example(const std::string& text) {
  app_->footer("Example:\n  " + text + "\n" + app_->get_footer());
  return *this;
}

Verb& Verb::Exits(const std::vector<ExitCode>& codes) {
  std::vector<ExitCode> all = {kDone, kUsage, kUnavailable, kNotPermitted};
  all.insert(all.end(), codes.begin(), codes.end());
  std::sort(all.begin(), all.end());
  std::string text = app_->get_footer() + "\nExit codes:\n";
  for (const ExitCode code : all) {
    text += fmt::format("  {:<3} {}\n", static_cast<int>(code), Meaning(code));
  }
  app_->footer(text);
  return *this;
}

Verb& Verb::Note(const std::string& text) {
  app_->footer(app_->get_footer() + text);
  return *this;
}

void Verb::Run(Action action) {
  CommandLine& line = *line_;
  app_->callback([&line, connection = connection_, action = std::move(action)] {
    line.chosen_ = action;
    if (connection != nullptr) {
      line.invocation_.connection = *connection;
    }
  });
}

CommandLine::CommandLine() : root_(std::make_unique<CLI::App>(kPurpose, "holdfast")) {
  root_->require_subcommand(1);
  root_->footer(kRootFooter);
  root_->set_help_flag("-h,--help", "Explain and exit");
  root_->set_version_flag("--version", HOLDFAST_VERSION);
  root_->formatter(std::make_shared<HelpFormat>());
}

CommandLine::~CommandLine() = default;

CLI::App& CommandLine::Make(const std::string& path, const char* chapter, const char* purpose) {
  CLI::App* app = root_.get();
  const std::size_t space = path.find(' ');
  if (space != std::string::npos) {
    app = root_->get_subcommand(path.substr(0, space));
  }
  CLI::App* made =
      app->add_subcommand(path.substr(space == std::string::npos ? 0 : space + 1), purpose);
  made->group(space == std::string::npos ? chapter : "Verbs");
  made->footer("");
  made->set_help_flag("-h,--help", "Explain this and exit");
  return *made;
}

void CommandLine::DescribeGroup(const char* name, const char* chapter, const char* purpose) {
  Make(name, chapter, purpose).require_subcommand(1);
}

Verb CommandLine::Local(const char* path, const char* chapter, const char* purpose) {
  CLI::App& app = Make(path, chapter, purpose);
  Verb verb(*this, app);
  verb.Choice("-o,--output", format_, {"text", "json"}, "Form of the answer (text)");
  return verb;
}

Verb CommandLine::OnService(const char* path, const char* chapter, const char* purpose) {
  Verb verb = Local(path, chapter, purpose);
  verb.connection_ = std::make_shared<Connection>();
  AddConnection(*verb.app_, *verb.connection_);
  return verb;
}

int CommandLine::Refuse(const Error& error) const {
  PrintError(WantsJson(invocation_.words) ? Format::kJson : Format::kText, error);
  return ExitCodeOf(error);
}

int CommandLine::Run(int argc, const char* const* argv) {
  invocation_.words.assign(argv + std::min(argc, 1), argv + argc);
  std::vector<std::string>& words = invocation_.words;
  const auto command = words.empty() ? commands_.end() : commands_.find(words.front());
  if (command != commands_.end()) {
    const auto dashes = std::find(words.begin(), words.end(), "--");
    if (dashes != words.end()) {
      command->second->assign(dashes + 1, words.end());
      argc -= static_cast<int>(words.end() - dashes);
    }
  }
  try {
    root_->parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const CLI::App* app = root_.get();
    while (!app->get_subcommands().empty()) {
      app = app->get_subcommands().front();
    }
    PrintRaw(app->help());
    return kDone;
  } catch (const CLI::CallForVersion&) {
    PrintRaw(std::string("holdfast ") + HOLDFAST_VERSION + "\n");
    return kDone;
  } catch (const CLI::ParseError& error) {
    std::string message = error.what();
    if (!invocation_.words.empty()) {
      const std::string nearest = NearestVerb(*root_, invocation_.words.front());
      if (root_->get_subcommands().empty() && !nearest.empty()) {
        message = fmt::format("there is no verb {}; did you mean {}?", invocation_.words.front(),
                              nearest);
      }
    }
    return Refuse(InvalidArgument("", "", message + " (see --help)"));
  } catch (const BadValue& bad) {
    return Refuse(bad.error);
  }
  invocation_.format = format_ == "json" ? Format::kJson : Format::kText;
  return chosen_(invocation_);
}

}  // namespace holdfast::cli
