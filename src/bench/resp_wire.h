// The Redis protocol (RESP2), as far as the load generators need it.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "bench/load_loop.h"
#include "holdfast/result.h"

namespace holdfast::bench {

void AppendCommand(std::string& out, std::initializer_list<std::string_view> words);

// One reply: its first character and its text, which is "" for a null bulk string and all of the
// elements as they came for an array.
struct Reply {
  char kind = 0;
  std::string_view text;
};

// Takes a reply off the front of `in`; nothing if it is incomplete.
std::optional<Reply> TakeReply(std::string_view& in);

// One command on a blocking socket, its reply as text with the kind in front; a null bulk string is
// "$".
Result<std::string> Call(const Socket& socket, std::initializer_list<std::string_view> words);

// Gives the server the script that deletes the key only if it has the value of ARGV[1], which every
// Redis lock is given back with. The digest for EVALSHA.
Result<std::string> LoadCompareAndDelete(const Socket& socket);

}  // namespace holdfast::bench
