#include "gateway/resp_parser.h"

#include <algorithm>
#include <charconv>

namespace holdfast::gateway {
namespace {

// "*1024\r\n" is far shorter; what is longer is not a number that could be in range.
constexpr std::size_t kNumberBytesMax = 16;

}  // namespace

RespParser::Result RespParser::Break(const char* why) {
  error_ = why;
  return Result::kBroken;
}

RespParser::Result RespParser::Parse(std::string_view input) {
  arguments_.clear();
  consumed_ = 0;
  if (input.empty()) {
    return Result::kNeedMore;
  }
  return input.front() == '*' ? ParseArray(input) : ParseInline(input);
}

RespParser::Result RespParser::ParseInline(std::string_view input) {
  const std::size_t end = input.substr(0, kInlineBytesMax).find('\n');
  if (end == std::string_view::npos) {
    return input.size() < kInlineBytesMax ? Result::kNeedMore : Break("too big inline request");
  }
  consumed_ = end + 1;
  std::string_view line = input.substr(0, end);
  if (!line.empty() && line.back() == '\r') {
    line.remove_suffix(1);
  }
  while (!line.empty()) {
    const std::size_t begin = line.find_first_not_of(" \t");
    if (begin == std::string_view::npos) {
      break;
    }
    line.remove_prefix(begin);
    const std::size_t size = std::min(line.find_first_of(" \t"), line.size());
    if (arguments_.size() == kArgumentsMax) {
      return Break("too many arguments, the limit is 1024");
    }
    arguments_.push_back(line.substr(0, size));
    line.remove_prefix(size);
  }
  return Result::kCommand;
}

RespParser::Result RespParser::ParseNumber(std::string_view input, std::size_t& offset,
                                           std::size_t max, long& number) {
  const std::string_view rest = input.substr(offset);
  const std::size_t end = rest.substr(0, kNumberBytesMax).find("\r\n");
  if (end == std::string_view::npos) {
    return rest.size() < kNumberBytesMax ? Result::kNeedMore : Break("invalid length");
  }
  const auto [stopped, failed] = std::from_chars(rest.data() + 1, rest.data() + end, number);
  if (failed != std::errc() || stopped != rest.data() + end || number < 0 ||
      static_cast<std::size_t>(number) > max) {
    return Break("invalid length");
  }
  offset += end + 2;
  return Result::kCommand;
}

RespParser::Result RespParser::ParseArray(std::string_view input) {
  std::size_t offset = 0;
  long count = 0;
  if (const Result read = ParseNumber(input, offset, kArgumentsMax, count);
      read != Result::kCommand) {
    return read;
  }
  for (long i = 0; i < count; ++i) {
    if (offset >= input.size()) {
      return Result::kNeedMore;
    }
    if (input[offset] != '$') {
      return Break("expected '$'");
    }
    long size = 0;
    if (const Result read = ParseNumber(input, offset, kArgumentBytesMax, size);
        read != Result::kCommand) {
      return read;
    }
    const auto bytes = static_cast<std::size_t>(size);
    if (offset + bytes + 2 > kCommandBytesMax) {
      return Break("too big request, the limit is 256 KiB");
    }
    if (input.size() < offset + bytes + 2) {
      return Result::kNeedMore;
    }
    if (input.substr(offset + bytes, 2) != "\r\n") {
      return Break("expected the end of a bulk string");
    }
    arguments_.push_back(input.substr(offset, bytes));
    offset += bytes + 2;
  }
  consumed_ = offset;
  return Result::kCommand;
}

}  // namespace holdfast::gateway
