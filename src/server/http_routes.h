// Every path of the HTTP front. Verbs are those of convert.h, with the JSON mapping of proto3 in
// front of them: no rule of the API is written here.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/front.h"
#include "holdfast/result.h"
#include "server/convert.h"
#include "server/loop.h"

namespace google::protobuf {
class Message;
}

namespace holdfast::server {

// What one front has open.
struct FrontLoad {
  const char* front = "";
  FrontCounters counters;
  const RequestMeter* meter = nullptr;
};
using FrontLoads = std::function<std::vector<FrontLoad>()>;

// One request, from its JSON to the JSON of its answer.
class HttpVerb {
 public:
  virtual ~HttpVerb() = default;
  // kInvalidArgument names the field, also for JSON that is not one of the message.
  virtual Result<EngineRequest> Read(const std::string& json, const std::string& principal) = 0;
  // Whether its answer may take as long as its caller is willing to wait. After Read.
  virtual bool MayWait() const = 0;
  // The body of the answer.
  virtual Result<std::string> Write(Loop& loop, const Caller& caller, engine::Reply& reply) = 0;
};

// A stream of server-sent events: a state machine that is asked for what it wants. Ends its
// subscription with itself.
class HttpFeed {
 public:
  virtual ~HttpFeed() = default;
  // Reads the query. What it returns goes to the engine if the caller may use its namespace.
  virtual Result<EngineRequest> Read(const std::string& json, const std::string& last_event_id,
                                     const std::string& principal) = 0;
  // The answer to what Read or Ask gave.
  virtual Status OnReply(engine::Reply& reply) = 0;
  // The subscription has something.
  virtual void OnWake() = 0;
  // Moves out a question to the engine, if there is one.
  virtual std::optional<EngineRequest> Ask() = 0;
  // Moves out events that can be sent now; empty: none.
  virtual std::string Take() = 0;
};

struct HttpRoute {
  enum class Kind : std::uint8_t { kVerb, kFeed, kMetrics, kHealth, kReady };
  std::string path;
  bool get = false;
  bool post = false;
  Kind kind = Kind::kVerb;
  const char* verb = "";  // its name for the audit log
  Access access = Access::kUser;
  std::function<std::unique_ptr<HttpVerb>()> make;
  // `wake` leads to OnWake of the feed.
  std::function<std::unique_ptr<HttpFeed>(Loop&, std::function<void()> wake)> make_feed;
};

const std::vector<HttpRoute>& HttpRoutes();
// Null if there is no such path.
const HttpRoute* FindHttpRoute(std::string_view path);

// The JSON mapping of proto3 with the names of the .proto files, for a message of any kind.
Status JsonToMessage(const std::string& json, google::protobuf::Message& message);
std::string MessageToJson(const google::protobuf::Message& message);

std::unique_ptr<HttpFeed> MakeWatchFeed(Loop& loop, std::function<void()> wake);
std::unique_ptr<HttpFeed> MakeObserveFeed(Loop& loop, std::function<void()> wake);

}  // namespace holdfast::server
