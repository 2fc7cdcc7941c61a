#include "codec/forward_codec.h"

#include <utility>

#include "base/archive.h"
#include "codec/answer_archive.h"
#include "codec/command_archive.h"
#include "codec/variant_archive.h"

namespace holdfast {

// Every code fits; a newer one reads as an internal error.
constexpr bool EnumInRange(ErrorCode code) {
  return code <= ErrorCode::kInternal;
}

template <typename A>
void Archive(A& a, Error& error) {
  a(error.code, error.message, error.field, error.limit);
}

namespace core {

template <typename A>
void Archive(A& a, Command& command) {
  a(command.principal, command.name_space);
  if constexpr (A::kReading) {
    if (!codec::ReadVariant(a, command.body)) {
      a.Fail();
    }
  } else {
    codec::WriteVariant(a, command.body);
  }
}

}  // namespace core

namespace codec {
namespace {

enum class Kind : std::uint8_t { kCommand = 1, kQuery = 2, kOutcome = 3, kView = 4, kError = 5 };
constexpr bool EnumInRange(Kind kind) {
  return kind >= Kind::kCommand && kind <= Kind::kError;
}

holdfast::Error Damaged() {
  return {ErrorCode::kCorrupt, "a message between nodes does not decode", {}, {}};
}

}  // namespace

void EncodeRequest(const ForwardRequest& request, ByteWriter& out) {
  ArchiveWriter writer(out);
  if (const auto* command = std::get_if<core::Command>(&request); command != nullptr) {
    writer(Kind::kCommand, *command);
  } else {
    writer(Kind::kQuery);
    WriteVariant(writer, std::get<core::Query>(request));
  }
}

void EncodeAnswer(const ForwardAnswer& answer, ByteWriter& out) {
  ArchiveWriter writer(out);
  if (const auto* outcome = std::get_if<core::Outcome>(&answer); outcome != nullptr) {
    writer(Kind::kOutcome);
    WriteVariant(writer, *outcome);
  } else if (const auto* view = std::get_if<core::View>(&answer); view != nullptr) {
    writer(Kind::kView);
    WriteVariant(writer, *view);
  } else {
    writer(Kind::kError, std::get<Error>(answer));
  }
}

Result<ForwardRequest> DecodeRequest(ByteReader& in) {
  ArchiveReader reader(in);
  Kind kind{};
  reader(kind);
  if (in.ok() && kind == Kind::kCommand) {
    core::Command command;
    reader(command);
    if (in.ok() && in.AtEnd()) {
      return ForwardRequest(std::move(command));
    }
  } else if (in.ok() && kind == Kind::kQuery) {
    core::Query query;
    if (ReadVariant(reader, query) && in.AtEnd()) {
      return ForwardRequest(std::move(query));
    }
  }
  return Damaged();
}

Result<ForwardAnswer> DecodeAnswer(ByteReader& in) {
  ArchiveReader reader(in);
  Kind kind{};
  reader(kind);
  if (in.ok() && kind == Kind::kOutcome) {
    core::Outcome outcome;
    if (ReadVariant(reader, outcome) && in.AtEnd()) {
      return ForwardAnswer(std::move(outcome));
    }
  } else if (in.ok() && kind == Kind::kView) {
    core::View view;
    if (ReadVariant(reader, view) && in.AtEnd()) {
      return ForwardAnswer(std::move(view));
    }
  } else if (in.ok() && kind == Kind::kError) {
    holdfast::Error error;
    reader(error);
    if (in.ok() && in.AtEnd()) {
      return ForwardAnswer(std::move(error));
    }
  }
  return Damaged();
}

}  // namespace codec
}  // namespace holdfast
