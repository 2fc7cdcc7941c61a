// All services of the API on one completion queue: a table of the unary verbs, and the streaming
// calls.
#pragma once

#include <memory>

#include "server/loop.h"

namespace grpc {
class ServerBuilder;
class ServerCompletionQueue;
}  // namespace grpc

namespace holdfast::server {

class Services {
 public:
  Services();
  ~Services();
  Services(const Services&) = delete;
  Services& operator=(const Services&) = delete;

  // Before the server is built.
  void Register(grpc::ServerBuilder& builder);
  // Begins to accept calls. Once, after the server was built and before the queue is polled.
  void Listen(Loop& loop, grpc::ServerCompletionQueue& queue);

 private:
  struct Async;  // the generated services
  const std::unique_ptr<Async> async_;
};

}  // namespace holdfast::server
