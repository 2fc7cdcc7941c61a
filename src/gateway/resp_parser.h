// Commands of the Redis protocol (RESP, https://redis.io/docs/reference/protocol-spec): an array of
// bulk strings, or one line of words ("inline"). Sans I/O; nothing is copied; every length has a
// limit.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace holdfast::gateway {

class RespParser {
 public:
  static constexpr std::size_t kArgumentsMax = 1024;
  static constexpr std::size_t kArgumentBytesMax = std::size_t{64} << 10U;
  static constexpr std::size_t kCommandBytesMax = std::size_t{256} << 10U;
  static constexpr std::size_t kInlineBytesMax = std::size_t{4} << 10U;

  enum class Result {
    kCommand,   // arguments() and consumed() are set; an empty line is a command without arguments
    kNeedMore,  // the beginning of a command: call again with more behind it
    kBroken,    // error() says why; the connection cannot be used any more
  };

  // Looks at one command at the start of `input`.
  Result Parse(std::string_view input);

  // Views into the input of the last Parse.
  const std::vector<std::string_view>& arguments() const { return arguments_; }
  std::size_t consumed() const { return consumed_; }
  const char* error() const { return error_; }

 private:
  Result ParseInline(std::string_view input);
  Result ParseArray(std::string_view input);
  Result Break(const char* why);
  // Reads "<kind><number>\r\n" at `offset` and moves behind it.
  Result ParseNumber(std::string_view input, std::size_t& offset, std::size_t max, long& number);

  std::vector<std::string_view> arguments_;
  std::size_t consumed_ = 0;
  const char* error_ = "";
};

}  // namespace holdfast::gateway
