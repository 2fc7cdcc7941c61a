// Between what the client library says and what the engine understands, without the bytes between
// them (client/wire_test.cc and server/convert_test.cc look after those).
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "client/machine.h"
#include "core/command.h"
#include "core/outcome.h"
#include "engine/front.h"

namespace holdfast::sim {

// Of a request that the simulated clients make.
core::Command CommandOf(const client::Request& request, const std::string& principal);

// The answer to `request`, or the failure as the client's transport would report it.
std::variant<client::Reply, client::Failure> ReplyOf(const client::Request& request,
                                                     const engine::Reply& reply);

}  // namespace holdfast::sim
