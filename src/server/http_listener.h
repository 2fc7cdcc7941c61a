// The listening socket of the HTTP front and the connections that came from it. Everything is for
// the thread of the loop, which is also the one that runs the io_context.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/time.h"
#include "holdfast/result.h"
#include "server/http_call.h"
#include "server/http_tls.h"
#include "server/loop.h"

namespace boost::asio {
class io_context;
}

namespace holdfast::server {

struct HttpLimits {
  std::size_t max_connections = 1000;
  std::size_t header_bytes = std::size_t{16} * 1024;
  std::size_t body_bytes = std::size_t{64} * 1024;
  Duration idle_timeout = Seconds(60);     // of a connection without a request
  Duration request_timeout = Seconds(10);  // to send a whole request, and to take a piece of answer
  // A peer that is gone without a word is noticed by TCP probes.
  Duration keepalive_time = Seconds(10);
  Duration keepalive_timeout = Seconds(5);
};

class HttpListener {
 public:
  // Without `tls` connections are in plain text. All must outlive the listener.
  HttpListener(boost::asio::io_context& io, Loop& loop, const HttpCallOptions& calls,
               const HttpLimits& limits, boost::asio::ssl::context* tls);
  // No connection may exist any more.
  ~HttpListener();
  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;

  // HOST:PORT; port 0 takes a free one. kUnavailable when it cannot listen.
  Status Listen(const std::string& address);
  int port() const;

  // Accepts no more.
  void StopListening();
  // Closes every connection, whatever it is doing.
  void CutAll();
  // Closes connections that are late, and keeps quiet streams alive. Often enough: a few times per
  // second.
  void Pulse(BootTime now);
  std::size_t connections() const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast::server
