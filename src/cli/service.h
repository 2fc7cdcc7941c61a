// What every verb that asks the service does around its one call: connect, print what went wrong,
// and say how to repeat an operation whose outcome is unknown.
#pragma once

#include <memory>
#include <string>

#include "cli/command_line.h"
#include "holdfast/client.h"
#include "holdfast/result.h"

namespace holdfast::cli {

// Reads the token file and the certificates; connects only when it is first needed.
Result<std::unique_ptr<client::Client>> Connect(const Connection& connection);

// How an operation may be repeated when it is not known whether it was done.
struct Repetition {
  std::string request_id;  // what makes a repetition safe; empty: the verb needs none
  std::string look_first;  // not safe to repeat: the command that shows what happened
};

// Prints the error and gives the exit code. For an unknown outcome it also prints the command that
// retries safely: what was typed, with the request id if it was not in it.
int Fail(const Invocation& invocation, const Error& error, const Repetition& repetition = {});

// Connects and runs `ask(client)`, which gives the exit code.
template <typename Ask>
int WithClient(const Invocation& invocation, const Ask& ask) {
  const auto client = Connect(invocation.connection);
  return client.ok() ? ask(**client) : Fail(invocation, client.error());
}

}  // namespace holdfast::cli
