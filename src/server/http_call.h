// HttpCall: one connection of the HTTP front as the loop sees it. It routes one request at a time,
// asks the engine, and gives the answer to the connection, which is its derived class. Knows no
// sockets.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "server/call.h"
#include "server/http_message.h"
#include "server/http_routes.h"
#include "server/loop.h"

namespace holdfast::server {

struct HttpCallOptions {
  FrontLoads other_loads;  // of the other fronts, for the metrics
  std::size_t max_watches = 500;
  // Only requests that name this machine as their host: the listener is on loopback and asks nobody
  // who he is, so a web page whose name leads to 127.0.0.1 must not get in.
  bool check_host = false;
};

class HttpCall : public Call {
 public:
  ~HttpCall() override;

  void OnReply(std::uint32_t cookie, engine::Reply& reply) final;
  void OnStop() final;
  void OnWake() final;

 protected:
  HttpCall(Loop& loop, const HttpCallOptions& options);
  // One whole request is there. Its answer goes to Send or SendPiece, perhaps before this returns.
  // Only when the answer to the one before was sent, and no more after a SendPiece.
  void Answer(const HttpRequest& request);
  // Nobody reads an answer any more: what waits in the engine is detached.
  void Gone();
  // The piece was sent.
  void OnPieceSent();
  // Says nothing on a stream that has been quiet for long.
  void SendComment();
  // The answer may take long, so a client that leaves is looked after.
  bool MayTakeLong() const { return may_wait_ || feed_ != nullptr; }

  // What the connection's handshake proved; valid as long as the connection.
  virtual const Credentials& Certificate() const = 0;
  // Sends a whole response.
  virtual void Send(HttpResponse&& response) = 0;
  // Sends a piece of a stream of events; one at a time. `last`: the connection ends behind it.
  virtual void SendPiece(std::string&& text, bool last) = 0;
  // Stops an idle connection.
  virtual void OnStopping() = 0;

 private:
  Status Welcome(const HttpRequest& request);
  void Begin(const HttpRequest& request);
  void BeginFeed(const HttpRequest& request, const std::string& json);
  void Ask(Result<EngineRequest>&& request);
  void Pump();
  void Reply(HttpResponse&& response);
  void Fail(const Error& error, int status = 0);
  void EndFeed(const Error& error);
  void Leave();

  const HttpCallOptions& options_;
  const HttpRoute* route_ = nullptr;      // of the request that is being answered
  std::shared_ptr<const Caller> caller_;  // null: no request is admitted
  std::unique_ptr<HttpVerb> verb_;
  std::unique_ptr<HttpFeed> feed_;
  std::uint64_t tag_ = 0;      // of the request in the engine, if there is one
  bool may_wait_ = false;      // the request in the engine may wait for a lock
  bool stream_begun_ = false;  // the head of the event stream was sent
  bool sending_ = false;       // a piece
  std::string last_words_;     // of an event stream, behind the piece that is being sent
};

}  // namespace holdfast::server
