#include "cli/service.h"

#include <algorithm>
#include <fstream>
#include <iterator>

namespace holdfast::cli {
namespace {

Result<std::string> ReadToken(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string token(std::istreambuf_iterator<char>(file), {});
  if (!file.good() && !file.eof()) {
    return InvalidArgument("token_file", "a file that can be read", "cannot read " + path);
  }
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) {
    token.pop_back();
  }
  return token;
}

std::string Quoted(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string("-_./:=,@%+").find(c) != std::string::npos;
  });
  if (plain) {
    return word;
  }
  std::string quoted = "'";
  for (const char c : word) {
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return quoted + "'";
}

std::string RetryCommand(const Invocation& invocation, const std::string& request_id) {
  std::string command = "holdfast";
  bool has_id = request_id.empty();
  for (const std::string& word : invocation.words) {
    command += " " + Quoted(word);
    has_id = has_id || word == "--request-id" || word.starts_with("--request-id=");
  }
  return has_id ? command : command + " --request-id " + Quoted(request_id);
}

}  // namespace

Result<std::unique_ptr<client::Client>> Connect(const Connection& connection) {
  client::ClientOptions options{.endpoints = connection.endpoints,
                                .namespace_name = connection.name_space,
                                .token = {},
                                .tls = connection.tls || !connection.ca.empty() ||
                                       !connection.cert.empty() || !connection.key.empty(),
                                .tls_ca_file = connection.ca,
                                .tls_cert_file = connection.cert,
                                .tls_key_file = connection.key,
                                .metrics = {}};
  if (!connection.token_file.empty()) {
    auto token = ReadToken(connection.token_file);
    if (!token.ok()) {
      return token.error();
    }
    options.token = *token;
  }
  if (connection.timeout.has_value()) {
    options.timeout = *connection.timeout;
    options.attempt_timeout = std::min(options.attempt_timeout, options.timeout);
  }
  return client::Client::Create(options);
}

int Fail(const Invocation& invocation, const Error& error, const Repetition& repetition) {
  Object more;
  const bool unknown = error.code == ErrorCode::kUnknownOutcome;
  // People need it only to ask again.
  if (!repetition.request_id.empty() && (unknown || invocation.format == Format::kJson)) {
    more.push_back({"request_id", repetition.request_id});
  }
  if (unknown) {
    if (repetition.look_first.empty()) {
      more.push_back({"retry", RetryCommand(invocation, repetition.request_id)});
    } else {
      more.push_back({"look_first", repetition.look_first});
    }
  }
  PrintError(invocation.format, error, more);
  return ExitCodeOf(error);
}

}  // namespace holdfast::cli
