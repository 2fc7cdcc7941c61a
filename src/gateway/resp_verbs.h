// The native verbs: which arguments they take and how they answer. docs/RESP.md is the reference.
// No I/O. The rules are the core's; nothing is decided here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/command.h"
#include "core/view.h"
#include "engine/front.h"
#include "engine/watch_hub.h"
#include "gateway/resp_writer.h"
#include "holdfast/result.h"
#include "server/auth.h"
#include "server/convert.h"

namespace holdfast::gateway {

class ArgumentReader;
struct RespRequest;
using server::EngineRequest;

struct RespVerb {
  const char* name;  // in capitals
  server::Access access;
  // What follows the name, for the message of a call that does not fit.
  const char* usage;
  std::size_t positional;  // arguments that are never left out
  Result<RespRequest> (*read)(ArgumentReader& reader, const std::string& principal);
};

// A call as far as it goes to the engine.
struct RespRequest {
  const RespVerb* verb = nullptr;
  EngineRequest request;
  std::string request_id;  // of an acquire, a campaign, an opened session
  bool waits = false;      // its answer may take as long as its caller is willing to wait
  bool async = false;      // answered at once, with the outcome as a push
};

// The verb with this name, in any case; null if it is none of ours.
const RespVerb* FindVerb(std::string_view name);
const std::vector<RespVerb>& AllVerbs();

// `arguments` without the name. kInvalidArgument names the argument and its limit. What it returns
// has passed core::Validate.
Result<RespRequest> ReadCall(const RespVerb& verb, const std::vector<std::string_view>& arguments,
                             const std::string& principal);
// The answer to such a call, or its error. `request_id` as in the RespRequest.
void WriteReply(const RespVerb& verb, const std::string& request_id, engine::Reply& reply,
                RespWriter& writer);
void WriteError(const Error& error, RespWriter& writer);

struct WatchCall {
  engine::WatchFilter filter;
  std::uint64_t after_index = 0;
};
// [PREFIX p | EXACT name] [AFTER index] [NAMESPACE ns]
Result<WatchCall> ReadWatchCall(const std::vector<std::string_view>& arguments);
// As a push of version 3; `watch` is what the client knows it by.
void WriteWatchItem(std::int64_t watch, const engine::WatchItem& item, RespWriter& writer);

}  // namespace holdfast::gateway
