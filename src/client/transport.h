// Carries requests to the endpoints and brings back how they ended. The only part of the client
// that knows gRPC.
//
// It first waits until the channel is connected and only then sends, so that a failure before that
// moment is known to have done nothing. A connection on which an attempt ran out of time is not
// used for new attempts: it may be half open. Start, Cancel, Open, Read and Next belong to one
// thread; Wake may be called by any.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "client/call.h"
#include "client/machine.h"
#include "client/wire.h"
#include "holdfast/result.h"

namespace holdfast::client {

struct TransportOptions {
  std::vector<std::string> endpoints;
  std::string token;
  bool tls = false;
  std::string tls_ca_file;
  std::string tls_cert_file;
  std::string tls_key_file;
  Duration connect_timeout = Seconds(3);
};

class Transport {
 public:
  struct Event {
    enum class Kind {
      kReply,    // the attempt is over: `body` is the answer
      kFailure,  // the attempt or stream is over: `failure`
      kMessage,  // of a stream: `body`; nothing more comes before the next Read
    };
    Kind kind = Kind::kFailure;
    AttemptId id{};
    std::string body;
    WireFailure failure;
    std::string leader;  // with kReply: the endpoint of the node that leads, if another one does
  };

  // Reads the certificate files; connects to nobody yet.
  static Result<std::unique_ptr<Transport>> Create(const TransportOptions& options);
  // Cancels what is on its way. No other call may be running.
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // Exactly one kReply or kFailure follows, within `timeout`, unless it is cancelled before.
  void Start(AttemptId id, std::size_t endpoint, const RawRequest& request, Duration timeout);
  // Opens a stream of answers to one request and reads the first.
  void Open(AttemptId id, std::size_t endpoint, const RawRequest& request);
  void Read(AttemptId id);
  // Nothing is heard of it any more. Unknown ids are ignored.
  void Cancel(AttemptId id);

  // Blocks until something happened, but not longer than `timeout`.
  std::optional<Event> Next(Duration timeout);
  // Makes a running or the next Next() return.
  void Wake();

 private:
  class Impl;
  explicit Transport(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast::client
