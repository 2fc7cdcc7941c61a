// What the load generators share that speak a protocol by hand: connections over loopback, and the
// loop over epoll that serves all of them on one thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "base/time.h"
#include "bench/recorder.h"
#include "holdfast/result.h"

namespace holdfast::bench {

// A file descriptor, closed with it.
class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket();
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&&) = delete;

  int fd() const { return fd_; }

 private:
  int fd_;
};

// kUnavailable with the text of errno.
Error SocketError(const std::string& what);

// To a port of 127.0.0.1. Blocking, but no longer than the timeout on each receive.
Result<Socket> ConnectTo(int port, Duration receive_timeout = Seconds(20));

// Both block. Receive adds what is there, at least one byte.
Status SendAll(const Socket& socket, std::string_view bytes);
Status Receive(const Socket& socket, std::string& in);

// One connection of a load generator, which LoadLoop reads and writes without blocking.
class LoadConnection {
 public:
  explicit LoadConnection(Socket socket) : socket_(std::move(socket)) {}
  virtual ~LoadConnection() = default;
  LoadConnection(const LoadConnection&) = delete;
  LoadConnection& operator=(const LoadConnection&) = delete;

  const Socket& socket() const { return socket_; }
  // What is to be sent; LoadLoop::Flush sends it.
  std::string& out() { return out_; }
  // What the socket takes, and what is there.
  Status Write();
  Status Read();

 protected:
  // Takes every complete message off the front of `in`.
  virtual Status OnInput(std::string_view& in, LoadTime now) = 0;

 private:
  const Socket socket_;
  std::string in_;
  std::string out_;
};

class LoadLoop {
 public:
  LoadLoop();

  // The connection has to outlive every call of Run.
  void Add(LoadConnection& connection);
  // To be called after something was added to out() outside of the connection's own OnInput.
  Status Flush(LoadConnection& connection);
  // Until the measurement is over, and then until `drained` says yes, for 5 s more at most.
  Result<LoadResult> Run(Recorder& recorder, const std::function<bool()>& drained);

 private:
  Status Serve();

  const Socket epoll_;
  bool blocked_ = false;  // a connection has been blocked before
};

}  // namespace holdfast::bench
