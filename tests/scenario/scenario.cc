#include "tests/scenario/scenario.h"

#include <algorithm>
#include <cctype>
#include <stdexcept>
#include <utility>

namespace holdfast::scenario {
namespace {

constexpr Duration kTick = Millis(200);
constexpr std::size_t kLinesInFull = 12;  // a batch that says more is summarised
constexpr std::size_t kCommandsPerBatch = 1000;

// "HELD", "NOT_RELEASED EXPIRED": the leading words in capitals.
std::string KindOf(const std::string& line) {
  std::size_t end = 0;
  std::size_t at = 0;
  while (at < line.size()) {
    std::size_t next = std::min(line.find(' ', at), line.size());
    const std::string word = line.substr(at, next - at);
    const bool capitals = std::all_of(word.begin(), word.end(),
                                      [](char c) { return (c >= 'A' && c <= 'Z') || c == '_'; });
    if (!capitals) {
      break;
    }
    end = next;
    at = next + 1;
  }
  return line.substr(0, end);
}

// Lines of one kind become one line with their number, in order of first appearance.
std::vector<std::string> Summary(const std::vector<std::string>& lines) {
  std::vector<std::pair<std::string, int>> kinds;
  for (const std::string& line : lines) {
    const std::string kind = KindOf(line);
    const auto found =
        std::find_if(kinds.begin(), kinds.end(), [&](const auto& k) { return k.first == kind; });
    if (found == kinds.end()) {
      kinds.emplace_back(kind, 1);
    } else {
      ++found->second;
    }
  }
  std::vector<std::string> summary;
  for (const auto& [kind, count] : kinds) {
    summary.push_back(std::to_string(count) + " x " + kind);
  }
  return summary;
}

std::string Numbered(std::string text, std::uint64_t number) {
  for (std::size_t at = text.find('#'); at != std::string::npos; at = text.find('#', at)) {
    text.replace(at, 1, std::to_string(number));
  }
  return text;
}

}  // namespace

Line::Line(const std::string& text) {
  std::string token;
  bool quoted = false;
  const auto finish = [&] {
    if (const std::size_t equals = token.find('='); equals != std::string::npos) {
      values_[token.substr(0, equals)] = token.substr(equals + 1);
    } else if (!token.empty()) {
      words_.push_back(token);
    }
    token.clear();
  };
  for (const char c : text) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ' ' && !quoted) {
      finish();
    } else {
      token.push_back(c);
    }
  }
  finish();
}

const std::string& Line::word(std::size_t i) const {
  static const std::string kNone;
  return i < words_.size() ? words_[i] : kNone;
}

std::string Line::Text(const std::string& key, const std::string& otherwise) const {
  const auto found = values_.find(key);
  return found == values_.end() ? otherwise : found->second;
}

std::uint64_t Line::Number(const std::string& key, std::uint64_t otherwise) const {
  return Has(key) ? std::stoull(Text(key)) : otherwise;
}

Duration Line::Time(const std::string& key) const {
  return Has(key) ? ParseDuration(Text(key)) : Duration{};
}

Duration ParseDuration(const std::string& text) {
  std::size_t used = 0;
  const double number = std::stod(text, &used);
  const std::string unit = text.substr(used);
  const std::map<std::string, double> nanos = {
      {"ns", 1}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}};
  const auto found = nanos.find(unit);
  if (found == nanos.end()) {
    throw std::invalid_argument("no unit of time: " + text);
  }
  return Duration(static_cast<std::int64_t>(number * found->second));
}

std::string Scenario::RunBlock(const std::vector<std::string>& lines) {
  output_.clear();
  for (const std::string& line : lines) {
    try {
      Run(line);
    } catch (const std::logic_error& error) {  // from the parsing of numbers and times
      Print("cannot understand \"" + line + "\": " + error.what());
    }
  }
  return output_;
}

void Scenario::Finish() {
  machine_.CompareDigests();
  machine_.ReplaceBySnapshot();
}

void Scenario::Run(const std::string& text) {
  const Line line(text);
  if (line.word(0) == "repeat") {
    return Repeat(text);
  }
  if (RunRunnerCommand(line) || RunQuery(line)) {
    return;
  }
  Submit(Parse(line));
}

bool Scenario::RunRunnerCommand(const Line& line) {
  const std::string& verb = line.word(0);
  if (verb == "advance") {
    Advance(line);
  } else if (verb == "batch") {
    in_batch_ = true;
  } else if (verb == "end") {
    in_batch_ = false;
    Seal();
  } else if (verb == "events") {
    print_events_ = line.word(1) != "off";
  } else if (verb == "resource") {
    WriteResource(line);
  } else if (verb == "snapshot") {
    machine_.ReplaceBySnapshot();
  } else {
    return false;
  }
  return true;
}

// repeat 1000 acquire lock=a id=r#
void Scenario::Repeat(const std::string& text) {
  const Line line(text);
  const std::uint64_t count = std::stoull(line.word(1));
  const std::string command =
      text.substr(text.find(line.word(2), text.find(line.word(1)) + line.word(1).size()));
  const std::size_t per_batch = line.Has("each") ? 1 : kCommandsPerBatch;
  summarise_ = true;
  in_batch_ = true;
  for (std::uint64_t i = 1; i <= count; ++i) {
    Run(Numbered(command, i));
    if (open_batch_.size() == per_batch || i == count) {
      Seal();
    }
  }
  in_batch_ = false;
  summarise_ = false;
  Print(std::exchange(report_, {}), /*in_full=*/false);
}

void Scenario::Advance(const Line& line) {
  const Timestamp end = now_ + ParseDuration(line.word(1));
  if (in_batch_) {
    now_ = end;
    return;
  }
  const Duration step = line.Has("step") ? line.Time("step") : kTick;
  const Duration epochs = line.Time("epochs");
  Timestamp next_epoch = now_ + epochs;
  while (now_ < end) {
    now_ = std::min(now_ + step, end);
    prefix_ = check::Text(now_.time_since_epoch()) + " ";
    if (epochs > Duration{} && now_ >= next_epoch) {
      next_epoch += epochs;
      open_batch_.push_back(core::Command{"", "", core::EpochStart{++epoch_, line.Time("grace")}});
    }
    Seal();
  }
  prefix_.clear();
}

// A protected resource in miniature: it accepts a token unless it has seen a higher one (I3).
void Scenario::WriteResource(const Line& line) {
  core::Token& highest = resources_[line.Text("name")];
  const core::Token token = line.Number("token");
  if (token < highest) {
    return Print("REFUSED highest=" + std::to_string(highest));
  }
  highest = token;
  Print("ACCEPTED");
}

void Scenario::Submit(core::Command command) {
  if (const Status admitted = machine_.machine().Admit(command); !admitted.ok()) {
    const Error& error = admitted.error();
    return Print(std::string(ErrorCodeName(error.code)) + " " + error.field +
                 (error.limit.empty() ? "" : ": " + error.limit));
  }
  open_batch_.push_back(std::move(command));
  if (!in_batch_) {
    Seal();
  }
}

void Scenario::Seal() {
  core::Batch batch;
  batch.index = ++index_;
  batch.epoch = epoch_;
  batch.time = now_;
  batch.wall = WallTime(now_.time_since_epoch());
  batch.commands = std::move(open_batch_);
  open_batch_.clear();
  Report(batch, machine_.Apply(batch));
  if (!violation().empty() && !violation_printed_) {
    violation_printed_ = true;
    Print("VIOLATION " + violation());
  }
}

void Scenario::Report(const core::Batch& batch, const core::Applied& applied) {
  const bool in_full =
      !summarise_ && applied.resolutions.size() + applied.events.size() <= kLinesInFull;
  for (std::size_t i = 0; i < batch.commands.size(); ++i) {
    const auto* acquire = std::get_if<core::Acquire>(&batch.commands[i].body);
    if (const auto* queued = std::get_if<core::Queued>(&applied.outcomes[i]);
        queued != nullptr && acquire != nullptr) {
      waiting_[acquire->request_id] = Waiting{queued->waiter, queued->attachment};
      waiter_ids_[queued->waiter] = acquire->request_id;
    }
    if (prefix_.empty()) {  // epochs that start while time passes say nothing
      report_.outcomes.push_back(check::Text(applied.outcomes[i], names_));
    }
  }
  for (const core::Resolution& resolution : applied.resolutions) {
    const std::string answer = check::Text(resolution.outcome, names_);
    report_.answers.push_back(in_full ? waiter_ids_[resolution.waiter] + " <- " + answer : answer);
  }
  for (const core::Event& event : applied.events) {
    report_.events.push_back(check::Text(event));
  }
  if (!summarise_) {
    Print(std::exchange(report_, {}), in_full);
  }
}

void Scenario::Print(const ReportLines& lines, bool in_full) {
  const auto print = [&](const std::vector<std::string>& some, const char* mark, bool whole) {
    for (const std::string& line : whole ? some : Summary(some)) {
      Print(prefix_ + mark + line);
    }
  };
  print(lines.outcomes, "", in_full || lines.outcomes.size() == 1);
  print(lines.answers, in_full ? "" : "<- ", in_full);
  if (print_events_) {
    print(lines.events, "* ", in_full);
  }
}

}  // namespace holdfast::scenario
