// Link: one gRPC connection to the service, driven by the one thread that polls its completion
// queue. Operations are named by a tag; their owner fills in the request when it goes out and gets
// the result back, whether it travelled in a frame of the bidirectional stream or as a unary call.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "bench/recorder.h"
#include "holdfast/result.h"

namespace grpc {
class CompletionQueue;
}
namespace holdfast::v1 {
class Operation;
class OperationResult;
}  // namespace holdfast::v1

namespace holdfast::bench {

class Link;

// What the completion queue hands back for each event: a pointer to one of these. The argument is
// gRPC's `ok`.
using QueueEvent = std::function<void(bool ok)>;

class LinkOwner {
 public:
  virtual ~LinkOwner() = default;
  virtual void FillOperation(std::uint64_t tag, v1::Operation& operation) = 0;
  // May Send() the next operation of this tag; the link flushes when it has delivered everything
  // that came together.
  virtual void OnResult(const v1::OperationResult& result, LoadTime now) = 0;
  // The connection broke with operations unanswered. It is opened again by itself, and OnReopened
  // follows.
  virtual void OnLost(const Error& error, LoadTime now) = 0;
  // Every operation that was in flight on this link must be sent again.
  virtual void OnReopened(Link& link) = 0;
};

class Link {
 public:
  virtual ~Link() = default;
  // Blocks until connected.
  virtual Status Connect(LoadTime deadline) = 0;
  // After Connect.
  virtual void Open() = 0;
  // Queues; dropped between OnLost and OnReopened.
  virtual void Send(std::uint64_t tag) = 0;
  virtual void Flush() = 0;
  // Gives up what is in flight, silently.
  virtual void Close() = 0;
  // True when no event of this link is or will be in the queue; only then it may be destroyed.
  virtual bool Closed() const = 0;
};

// `number` tells links apart, so that each gets a TCP connection of its own. Queue and owner
// outlive the link.
struct LinkTarget {
  std::string endpoint;
  int number = 0;
  grpc::CompletionQueue* queue = nullptr;
  LinkOwner* owner = nullptr;
};
std::unique_ptr<Link> MakeStreamLink(const LinkTarget& target);
// Carries acquire, renew and release, one at a time.
std::unique_ptr<Link> MakeUnaryLink(const LinkTarget& target);

}  // namespace holdfast::bench
