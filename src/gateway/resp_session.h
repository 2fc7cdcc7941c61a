// What every Redis client expects of a connection beside the verbs: who it is, which version of the
// protocol it speaks, PING, INFO, COMMAND and the like. No I/O.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/resp_writer.h"
#include "server/auth.h"

namespace holdfast::gateway {

struct RespSession {
  static constexpr std::size_t kNameMax = 128;

  std::uint64_t id = 0;  // of the connection, for humans
  int version = 2;
  std::string name;                              // CLIENT SETNAME
  std::shared_ptr<const server::Caller> caller;  // null: must authenticate first
  bool quit = false;                             // close when everything is answered
};

// Answers a command of the connection. False if it is none; then nothing was written.
bool AnswerSessionCommand(const server::Authenticator& authenticator,
                          const std::vector<std::string_view>& arguments, RespSession& session,
                          std::string& out);

}  // namespace holdfast::gateway
