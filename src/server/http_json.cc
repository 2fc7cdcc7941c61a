// The JSON mapping of proto3, with errors that name the field.
#include <algorithm>
#include <string_view>

#include <google/protobuf/message.h>
#include <google/protobuf/util/json_util.h>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "server/http_routes.h"

namespace holdfast::server {
namespace {

// The field of a message of protobuf's parser: "(a.b): invalid value ...", "a: Cannot find field."
// or "(a) b: Cannot find field."; empty if it names none.
std::string FieldIn(std::string_view message) {
  std::string field;
  if (message.substr(0, 1) == "(") {
    const std::size_t end = message.find(')');
    field = message.substr(1, end - 1);
    message.remove_prefix(std::min(message.size(), end + 1));
  }
  constexpr std::string_view kUnknown = ": Cannot find field.";
  const std::size_t unknown = message.find(kUnknown);
  if (unknown != std::string_view::npos) {
    std::string_view name = message.substr(0, unknown);
    name.remove_prefix(std::min(name.size(), name.find_first_not_of(' ')));
    field += (field.empty() ? "" : ".") + std::string(name);
  }
  return field;
}

}  // namespace

Status JsonToMessage(const std::string& json, google::protobuf::Message& message) {
  // The parser of protobuf takes more than JSON, such as single quotes.
  if (!nlohmann::json::accept(json)) {
    return InvalidArgument("body", "one JSON object in UTF-8", "the body is not JSON");
  }
  const auto status = google::protobuf::util::JsonStringToMessage(json, &message);
  if (status.ok()) {
    return {};
  }
  const std::string text(status.message());
  const std::string field = FieldIn(text);
  const std::string& type = message.GetDescriptor()->full_name();
  if (field.empty()) {
    return InvalidArgument("body", "JSON of " + type, "the body is not JSON of " + type);
  }
  return InvalidArgument(field, "JSON of " + type, text);
}

std::string MessageToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  // `"released": false` is an answer, and must not look like none.
  options.always_print_primitive_fields = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  HF_CHECK(status.ok(), "a message of this API has a JSON form");
  return json;
}

}  // namespace holdfast::server
