// Pieces that the conversions of all services share: reading fields with typed errors, writing
// times and holders.
#pragma once

#include <string>
#include <string_view>

#include "base/id.h"
#include "base/time.h"
#include "core/command.h"
#include "core/outcome.h"
#include "holdfast/result.h"
#include "server/convert.h"

namespace google::protobuf {
class Duration;
class Timestamp;
}  // namespace google::protobuf

namespace holdfast::v1 {
class ClientContext;
class Holder;
}  // namespace holdfast::v1

namespace holdfast::server {

// Reads fields one after the other and keeps the first error.
class FieldReader {
 public:
  // Not negative and well-formed. What exceeds 30 years is cut to 30 years: every limit lies below,
  // and the check that knows the field's own limit names it.
  void ReadDuration(const char* field, const google::protobuf::Duration& value, Duration& out);
  // As above, but 0 is refused: leaving the field out is how one asks for the default.
  void ReadPositiveDuration(const char* field, const google::protobuf::Duration& value,
                            Duration& out);
  // 32 lower-case hexadecimal digits, not all zero.
  void ReadId(const char* field, std::string_view text, Id128& out);
  void Require(bool condition, const char* field, const char* limit, const char* message);

  // The command or query if no field failed and core::Validate accepts it.
  Result<EngineRequest> Finish(core::Command&& command);
  Result<EngineRequest> Finish(core::Query&& query);

  const Status& status() const { return status_; }

 private:
  Status status_;
};

core::ClientContext ReadClient(const v1::ClientContext& client);

void WriteDuration(Duration value, google::protobuf::Duration& out);
void WriteTime(WallTime value, google::protobuf::Timestamp& out);
void WriteHolder(const core::HolderView& holder, v1::Holder& out);

// What is inside a reply; its error, and kNotFound if the namespace does not exist.
Result<core::Outcome*> OutcomeIn(engine::Reply& reply, std::string_view name_space);
Result<core::View*> ViewIn(engine::Reply& reply, std::string_view name_space);
Error NoNamespace(std::string_view name_space);
// A reply of a kind that the verb cannot have: a defect.
Error UnexpectedReply(const char* verb);

// Fills in what the caller may leave out.
template <typename Request>
void SetDefaultNamespace(Request& request) {
  if (request.namespace_().empty()) {
    request.set_namespace_("default");
  }
}
template <typename Request>
void SetRequestId(Request& request) {
  if (request.request_id().empty()) {
    request.set_request_id(ToHex(RandomId()));
  }
}

}  // namespace holdfast::server
