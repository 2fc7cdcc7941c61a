#include "server/http_message.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <chrono>
#include <ctime>

#include <boost/beast/http/status.hpp>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "holdfast/v1/types.pb.h"
#include "server/convert.h"

namespace holdfast::server {
namespace {

namespace http = boost::beast::http;

// For clients every 5xx but 503 is an unknown outcome, so only defects and unknown outcomes get
// one.
int StatusOf(v1::Problem::Code code) {
  constexpr std::array<std::pair<v1::Problem::Code, int>, 8> kStatuses{{
      {v1::Problem::INVALID_ARGUMENT, 400},
      {v1::Problem::UNAUTHENTICATED, 401},
      {v1::Problem::PERMISSION_DENIED, 403},
      {v1::Problem::NOT_FOUND, 404},
      {v1::Problem::ALREADY_EXISTS, 409},
      {v1::Problem::FAILED_PRECONDITION, 409},
      {v1::Problem::OVERLOADED, 429},
      {v1::Problem::UNAVAILABLE, 503},
  }};
  const auto* found = std::find_if(kStatuses.begin(), kStatuses.end(),
                                   [&](const auto& row) { return row.first == code; });
  return found == kStatuses.end() ? 500 : found->second;
}

std::string_view ReasonOf(int status) {
  const auto reason = http::obsolete_reason(http::int_to_status(static_cast<unsigned>(status)));
  return {reason.data(), reason.size()};
}

// INVALID_ARGUMENT as "invalid-argument".
std::string TypeOf(std::string name) {
  for (char& c : name) {
    c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return "urn:problem-type:holdfast:" + name;
}

// INVALID_ARGUMENT as "Invalid argument".
std::string TitleOf(std::string name) {
  for (char& c : name) {
    c = c == '_' ? ' ' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  name.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(name.front())));
  return name;
}

v1::Problem ProblemOf(const Error& error) {
  v1::Problem problem;
  WriteProblem(error, problem);
  return problem;
}

std::string JsonOf(const v1::Problem& problem, int status) {
  const std::string& name = v1::Problem::Code_Name(problem.code());
  nlohmann::ordered_json json{{"type", TypeOf(name)},
                              {"title", TitleOf(name)},
                              {"status", status},
                              {"detail", problem.message()},
                              {"reason", name}};
  if (!problem.field().empty()) {
    json["field"] = problem.field();
  }
  if (!problem.limit().empty()) {
    json["limit"] = problem.limit();
  }
  if (problem.has_retry_after()) {
    json["retry_after"] = fmt::format("{}.{:03}s", problem.retry_after().seconds(),
                                      problem.retry_after().nanos() / 1'000'000);
  }
  // The message may repeat what the client sent.
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<std::string> Unescape(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+') {
      plain += ' ';
    } else if (text[i] == '%') {
      unsigned value = 0;
      const char* begin = text.data() + i + 1;
      const bool complete = i + 2 < text.size();
      if (!complete || std::from_chars(begin, begin + 2, value, 16).ptr != begin + 2) {
        return InvalidArgument("query", "% and two hexadecimal digits",
                               "the query has a bad escape");
      }
      plain += static_cast<char>(value);
      i += 2;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

}  // namespace

std::string Serialize(const HttpResponse& response) {
  std::string text = fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n"
      "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n",
      response.status, ReasonOf(response.status), response.content_type, response.body.size());
  for (const auto& [name, value] : response.headers) {
    text += fmt::format("{}: {}\r\n", name, value);
  }
  text += response.close ? "Connection: close\r\n\r\n" : "Connection: keep-alive\r\n\r\n";
  return text + response.body;
}

std::string EventStreamHead(WallTime now) {
  return "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
         "X-Accel-Buffering: no\r\nX-Content-Type-Options: nosniff\r\nDate: " +
         HttpDate(now) + "\r\nConnection: close\r\n\r\n";
}

std::string HttpDate(WallTime now) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(now.time_since_epoch());
  return fmt::format("{:%a, %d %b %Y %H:%M:%S GMT}",
                     fmt::gmtime(static_cast<std::time_t>(seconds.count())));
}

HttpResponse ProblemResponse(const Error& error, int status) {
  const v1::Problem problem = ProblemOf(error);
  HttpResponse response;
  response.status = status == 0 ? StatusOf(problem.code()) : status;
  response.content_type = "application/problem+json";
  response.body = JsonOf(problem, response.status);
  if (problem.has_retry_after()) {
    // The header knows only whole seconds.
    response.headers.emplace_back("Retry-After",
                                  std::to_string(problem.retry_after().seconds() + 1));
  }
  if (response.status == 401) {
    response.headers.emplace_back("WWW-Authenticate", "Bearer");
  }
  return response;
}

std::string ProblemJson(const Error& error, int status) {
  const v1::Problem problem = ProblemOf(error);
  return JsonOf(problem, status == 0 ? StatusOf(problem.code()) : status);
}

std::string_view PathOf(std::string_view target) {
  return target.substr(0, target.find('?'));
}

Result<std::string> QueryToJson(std::string_view target) {
  const std::size_t mark = target.find('?');
  std::string_view rest = mark == std::string_view::npos ? "" : target.substr(mark + 1);
  nlohmann::json object = nlohmann::json::object();
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
    const std::size_t equals = std::min(pair.find('='), pair.size());
    auto name = Unescape(pair.substr(0, equals));
    auto value = Unescape(pair.substr(std::min(pair.size(), equals + 1)));
    if (!name.ok() || !value.ok()) {
      return name.ok() ? value.error() : name.error();
    }
    if (object.contains(*name)) {
      return InvalidArgument(*name, "once", "the parameter " + *name + " comes twice");
    }
    object[*name] = *value;
  }
  std::string json = object.dump(-1, ' ', false, nlohmann::json::error_handler_t::ignore);
  // What the dump had to leave out was not UTF-8.
  if (nlohmann::json::parse(json) != object) {
    return InvalidArgument("query", "UTF-8", "the query is not UTF-8");
  }
  return json;
}

bool IsJson(std::string_view content_type) {
  std::string_view type = content_type.substr(0, content_type.find(';'));
  while (!type.empty() && type.back() == ' ') {
    type.remove_suffix(1);
  }
  constexpr std::string_view kJson = "application/json";
  return std::equal(type.begin(), type.end(), kJson.begin(), kJson.end(), [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == b;
  });
}

}  // namespace holdfast::server
