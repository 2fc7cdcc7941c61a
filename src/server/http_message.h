// Requests and responses of the HTTP front as plain data, and the pieces of text around them. No
// sockets here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"
#include "holdfast/result.h"

namespace holdfast::server {

struct HttpRequest {
  std::string method;
  std::string target;  // path and query as they came
  std::string host;
  std::string content_type;
  std::string authorization;
  std::string last_event_id;
  std::string body;
  bool keep_alive = true;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  bool close = false;  // the connection ends behind it
};

// The bytes of the response. Nothing that this service says may be cached.
std::string Serialize(const HttpResponse& response);
// The head of a stream of server-sent events; it lasts until the connection ends.
std::string EventStreamHead(WallTime now);
// As the header Date has it.
std::string HttpDate(WallTime now);

// RFC 9457. `status` 0: the one that belongs to the code of the error.
HttpResponse ProblemResponse(const Error& error, int status = 0);
// The body of such a response.
std::string ProblemJson(const Error& error, int status = 0);

// The part of the target before the query.
std::string_view PathOf(std::string_view target);
// The query as a JSON object of strings. kInvalidArgument for a bad escape, a parameter that comes
// twice, or bytes that are not UTF-8.
Result<std::string> QueryToJson(std::string_view target);

// Whether the content type is JSON, whatever its parameters.
bool IsJson(std::string_view content_type);

}  // namespace holdfast::server
