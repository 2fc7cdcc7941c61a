#include "server/fields.h"

#include <algorithm>
#include <utility>

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/timestamp.pb.h>

#include "core/validate.h"
#include "holdfast/v1/types.pb.h"

namespace holdfast::server {
namespace {

constexpr std::int64_t kSecondsMax = std::int64_t{30} * 365 * 24 * 3600;
constexpr std::int32_t kNanosMax = 999'999'999;

}  // namespace

void FieldReader::Require(bool condition, const char* field, const char* limit,
                          const char* message) {
  if (!condition && status_.ok()) {
    status_ = InvalidArgument(field, limit, std::string(field) + " " + message);
  }
}

void FieldReader::ReadDuration(const char* field, const google::protobuf::Duration& value,
                               Duration& out) {
  Require(value.nanos() >= -kNanosMax && value.nanos() <= kNanosMax, field, "nanos 0 .. 999999999",
          "has nanos out of range");
  Require(value.seconds() >= 0 && value.nanos() >= 0, field, "0 or more", "is negative");
  out =
      Seconds(std::clamp<std::int64_t>(value.seconds(), 0, kSecondsMax)) + Duration(value.nanos());
}

void FieldReader::ReadPositiveDuration(const char* field, const google::protobuf::Duration& value,
                                       Duration& out) {
  ReadDuration(field, value, out);
  Require(out > Duration::zero(), field, "more than 0; leave it out for the namespace's default",
          "is 0");
}

void FieldReader::ReadId(const char* field, std::string_view text, Id128& out) {
  const auto id = ParseId(text);
  Require(id.has_value() && !IsZero(*id), field, "32 lower-case hexadecimal digits, not all 0",
          "is not an id that this service made");
  out = id.value_or(Id128{});
}

Result<EngineRequest> FieldReader::Finish(core::Command&& command) {
  if (status_.ok()) {
    status_ = core::Validate(command);
  }
  if (!status_.ok()) {
    return status_.error();
  }
  return EngineRequest(std::move(command));
}

Result<EngineRequest> FieldReader::Finish(core::Query&& query) {
  if (status_.ok()) {
    status_ = core::Validate(query);
  }
  if (!status_.ok()) {
    return status_.error();
  }
  return EngineRequest(std::move(query));
}

core::ClientContext ReadClient(const v1::ClientContext& client) {
  return {.client_id = client.client_id(),
          .sequence = client.sequence(),
          .answered_below = client.answered_below()};
}

void WriteDuration(Duration value, google::protobuf::Duration& out) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(value);
  out.set_seconds(seconds.count());
  out.set_nanos(static_cast<std::int32_t>((value - seconds).count()));
}

void WriteTime(WallTime value, google::protobuf::Timestamp& out) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(value.time_since_epoch());
  out.set_seconds(seconds.count());
  out.set_nanos(static_cast<std::int32_t>((value.time_since_epoch() - seconds).count()));
}

void WriteHolder(const core::HolderView& holder, v1::Holder& out) {
  out.set_owner(holder.owner);
  out.set_principal(holder.principal);
  out.set_fencing_token(holder.token);
  out.set_lease_fp(Fingerprint(holder.lease_id));
  WriteDuration(holder.held_for, *out.mutable_held_for());
  WriteDuration(holder.left, *out.mutable_lease_left());
  WriteTime(holder.since, *out.mutable_since());
  out.set_provisional(holder.provisional);
  out.set_revoking(holder.revoking);
  if (!IsZero(holder.session)) {
    out.set_on_session_fp(Fingerprint(holder.session));
  }
  for (const core::MetadataEntry& entry : holder.metadata) {
    (*out.mutable_metadata())[entry.key] = entry.value;
  }
}

Error NoNamespace(std::string_view name_space) {
  return Error{ErrorCode::kNotFound, "there is no namespace " + std::string(name_space),
               "namespace", ""};
}

Error UnexpectedReply(const char* verb) {
  return Error{ErrorCode::kInternal, std::string("unexpected kind of reply to ") + verb, "", ""};
}

Result<core::Outcome*> OutcomeIn(engine::Reply& reply, std::string_view name_space) {
  if (const auto* error = std::get_if<Error>(&reply.answer)) {
    return *error;
  }
  auto* outcome = std::get_if<core::Outcome>(&reply.answer);
  if (outcome == nullptr) {
    return UnexpectedReply("a command");
  }
  if (std::holds_alternative<core::NoSuchNamespace>(*outcome)) {
    return NoNamespace(name_space);
  }
  return outcome;
}

Result<core::View*> ViewIn(engine::Reply& reply, std::string_view name_space) {
  if (const auto* error = std::get_if<Error>(&reply.answer)) {
    return *error;
  }
  auto* view = std::get_if<core::View>(&reply.answer);
  if (view == nullptr) {
    return UnexpectedReply("a query");
  }
  if (std::holds_alternative<core::NoSuchNamespace>(*view)) {
    return NoNamespace(name_space);
  }
  return view;
}

}  // namespace holdfast::server
