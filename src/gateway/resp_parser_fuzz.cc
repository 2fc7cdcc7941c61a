// Fuzz target: whatever bytes a client sends, the parser ends, and what it gives lies within them.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "gateway/resp_parser.h"
#include "gateway/resp_verbs.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using holdfast::gateway::RespParser;
  std::string_view input(reinterpret_cast<const char*>(data), size);
  RespParser parser;
  while (parser.Parse(input) == RespParser::Result::kCommand) {
    if (parser.consumed() == 0 || parser.consumed() > input.size()) {
      std::abort();
    }
    for (const std::string_view argument : parser.arguments()) {
      if (argument.data() < input.data() ||
          argument.data() + argument.size() > input.data() + parser.consumed()) {
        std::abort();
      }
    }
    if (!parser.arguments().empty()) {
      if (const auto* verb = holdfast::gateway::FindVerb(parser.arguments().front())) {
        const auto call = holdfast::gateway::ReadCall(
            *verb, {parser.arguments().begin() + 1, parser.arguments().end()}, "fuzz");
        if (!call.ok() && call.error().field.empty()) {
          std::abort();  // a refusal names the field
        }
      }
    }
    input.remove_prefix(parser.consumed());
  }
  return 0;
}
