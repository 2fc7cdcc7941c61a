// Requests and answers to bytes and back: what a standby hands on to the leader, and what it brings
// back. Both ends run the same build or the one before or after it, so fields are only ever added
// at the end of a struct, and a newer kind is refused as kUnsupported.
//
// Pure; any thread. Decoding is bounded by the input, as in batch_codec.h.
#pragma once

#include <string_view>
#include <variant>

#include "base/bytes.h"
#include "core/command.h"
#include "core/outcome.h"
#include "core/view.h"
#include "holdfast/result.h"

namespace holdfast::codec {

using ForwardRequest = std::variant<core::Command, core::Query>;
using ForwardAnswer = std::variant<core::Outcome, core::View, Error>;

void EncodeRequest(const ForwardRequest& request, ByteWriter& out);
void EncodeAnswer(const ForwardAnswer& answer, ByteWriter& out);

// kCorrupt or kUnsupported. What they read must be the rest of `in`.
Result<ForwardRequest> DecodeRequest(ByteReader& in);
Result<ForwardAnswer> DecodeAnswer(ByteReader& in);

}  // namespace holdfast::codec
