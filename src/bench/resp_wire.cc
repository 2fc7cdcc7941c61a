#include "bench/resp_wire.h"

#include <charconv>
#include <cstddef>
#include <iterator>

#include <fmt/core.h>

namespace holdfast::bench {
namespace {

constexpr std::string_view kCompareAndDelete =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

}  // namespace

void AppendCommand(std::string& out, std::initializer_list<std::string_view> words) {
  fmt::format_to(std::back_inserter(out), "*{}\r\n", words.size());
  for (const std::string_view word : words) {
    fmt::format_to(std::back_inserter(out), "${}\r\n{}\r\n", word.size(), word);
  }
}

std::optional<Reply> TakeReply(std::string_view& in) {
  const std::size_t line_end = in.find("\r\n");
  if (line_end == std::string_view::npos) {
    return std::nullopt;
  }
  Reply reply{.kind = in[0], .text = in.substr(1, line_end - 1)};
  std::string_view rest = in.substr(line_end + 2);
  int size = 0;
  if (reply.kind == '$' || reply.kind == '*') {
    std::from_chars(reply.text.data(), reply.text.data() + reply.text.size(), size);
    reply.text = {};
  }
  if (reply.kind == '$' && size >= 0) {
    const auto length = static_cast<std::size_t>(size);
    if (rest.size() < length + 2) {
      return std::nullopt;
    }
    reply.text = rest.substr(0, length);
    rest.remove_prefix(length + 2);
  } else if (reply.kind == '*') {
    const std::string_view elements = rest;
    for (int i = 0; i < size; ++i) {
      if (!TakeReply(rest).has_value()) {
        return std::nullopt;
      }
    }
    reply.text = elements.substr(0, elements.size() - rest.size());
  }
  in = rest;
  return reply;
}

Result<std::string> Call(const Socket& socket, std::initializer_list<std::string_view> words) {
  std::string out;
  AppendCommand(out, words);
  if (Status sent = SendAll(socket, out); !sent.ok()) {
    return sent.error();
  }
  std::string in;
  for (;;) {
    if (Status received = Receive(socket, in); !received.ok()) {
      return received.error();
    }
    std::string_view rest = in;
    if (const std::optional<Reply> reply = TakeReply(rest)) {
      return std::string(1, reply->kind) + std::string(reply->text);
    }
  }
}

Result<std::string> LoadCompareAndDelete(const Socket& socket) {
  Result<std::string> sha = Call(socket, {"SCRIPT", "LOAD", kCompareAndDelete});
  if (sha.ok() && sha->front() != '$') {
    return Error{ErrorCode::kInternal, "redis: SCRIPT LOAD: " + *sha, {}, {}};
  }
  return sha.ok() ? Result<std::string>(sha->substr(1)) : sha;
}

}  // namespace holdfast::bench
