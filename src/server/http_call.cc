#include "server/http_call.h"

#include <utility>

#include "holdfast/v1/admin.pb.h"
#include "server/complete.h"
#include "server/metrics.h"

namespace holdfast::server {
namespace {

const Error kStopping{ErrorCode::kUnavailable,
                      "the server is stopping; ask again with the same request id", "", ""};

// The status of the service as a verb whose answer is not JSON.
class MetricsVerb final : public HttpVerb {
 public:
  explicit MetricsVerb(const FrontLoads& others) : others_(others) {}

  Result<EngineRequest> Read(const std::string& /*json*/, const std::string& principal) override {
    return kGetStatus.read(request_, principal);
  }
  bool MayWait() const override { return false; }
  Result<std::string> Write(Loop& loop, const Caller& caller, engine::Reply& reply) override {
    v1::GetStatusResponse response;
    const Status status = kGetStatus.write(request_, reply, response);
    if (!status.ok()) {
      return status.error();
    }
    Complete(loop, caller, request_, response);
    std::vector<FrontLoad> loads = others_();
    loads.push_back({"http", loop.counters(), &loop.meter()});
    return MetricsText({.status = response,
                        .stats = loop.runner().Stats(),
                        .watchers = loop.runner().watches().watchers(),
                        .fronts = loads,
                        .telemetry = *loop.telemetry()});
  }

 private:
  const FrontLoads& others_;
  v1::GetStatusRequest request_;
};

HttpResponse TextResponse(std::string&& text) {
  HttpResponse response;
  response.content_type = "text/plain; charset=utf-8";
  response.body = std::move(text);
  return response;
}

// The name in a Host header, with a port so that IsLoopback understands it.
bool NamesThisMachine(const std::string& host) {
  const std::size_t bracket = host.find(']');
  const bool has_port = host.find(':', bracket == std::string::npos ? 0 : bracket) != host.npos;
  return host.empty() || IsLoopback(has_port ? host : host + ":80");
}

HttpResponse WrongMethod(const HttpRoute& route) {
  std::string allowed = route.get ? "GET" : "";
  allowed += route.get && route.post ? ", POST" : (route.post ? "POST" : "");
  HttpResponse response =
      ProblemResponse(InvalidArgument("method", allowed, route.path + " takes " + allowed), 405);
  response.headers.emplace_back("Allow", allowed);
  return response;
}

}  // namespace

HttpCall::HttpCall(Loop& loop, const HttpCallOptions& options) : Call(loop), options_(options) {
  loop.AddWaiting(*this);
}

HttpCall::~HttpCall() {
  Leave();
}

void HttpCall::Answer(const HttpRequest& request) {
  if (options_.check_host && !NamesThisMachine(request.host)) {
    return Fail(InvalidArgument("host", "localhost or an address of loopback",
                                "this listener is only for processes of its own machine"),
                421);
  }
  route_ = FindHttpRoute(PathOf(request.target));
  if (route_ == nullptr) {
    return Fail({ErrorCode::kNotFound, "there is nothing at this path", "path", "docs/HTTP.md"});
  }
  if (!(request.method == "GET" && route_->get) && !(request.method == "POST" && route_->post)) {
    return Reply(WrongMethod(*route_));
  }
  if (route_->kind == HttpRoute::Kind::kHealth) {
    return Reply(TextResponse("ok\n"));
  }
  if (route_->kind == HttpRoute::Kind::kReady) {
    if (loop().stopping()) {
      return Fail(kStopping);
    }
    return loop().runner().Stats().accepting_writes
               ? Reply(TextResponse("ready\n"))
               : Fail({ErrorCode::kUnavailable, "the log cannot be written", "", ""});
  }
  const Status welcome = Welcome(request);
  if (!welcome.ok()) {
    return Fail(welcome.error());
  }
  Begin(request);
}

Status HttpCall::Welcome(const HttpRequest& request) {
  const Status admitted = loop().Admit();
  if (!admitted.ok()) {
    return admitted;
  }
  Credentials credentials = Certificate();
  credentials.authorization = request.authorization;
  auto caller = loop().authenticator().Authenticate(credentials);
  if (!caller.ok()) {
    loop().Leave();
    loop().AuditDenial("", route_->verb, "", caller.error());
    return caller.error();
  }
  caller_ = std::move(*caller);
  return {};
}

void HttpCall::Begin(const HttpRequest& request) {
  std::string json = request.body;
  if (request.method == "POST") {
    // Also what keeps web pages of others out: a browser asks before it sends this type elsewhere.
    if (!IsJson(request.content_type)) {
      return Fail(
          InvalidArgument("content-type", "application/json", "the body must be application/json"),
          415);
    }
    if (request.target.find('?') != std::string::npos) {
      return Fail(InvalidArgument("query", "none with POST", "parameters go into the body"));
    }
  } else {
    auto query = QueryToJson(request.target);
    if (!query.ok()) {
      return Fail(query.error());
    }
    if (!request.body.empty()) {
      return Fail(InvalidArgument("body", "none with GET", "parameters go into the query"));
    }
    json = std::move(*query);
  }
  if (route_->kind == HttpRoute::Kind::kFeed) {
    return BeginFeed(request, json);
  }
  verb_ = route_->kind == HttpRoute::Kind::kMetrics
              ? std::make_unique<MetricsVerb>(options_.other_loads)
              : route_->make();
  auto read = verb_->Read(json, caller_->principal);
  may_wait_ = read.ok() && verb_->MayWait();
  Ask(std::move(read));
}

void HttpCall::BeginFeed(const HttpRequest& request, const std::string& json) {
  if (loop().watches() >= options_.max_watches) {
    return Fail({ErrorCode::kOverloaded,
                 "too many watches, the limit is " + std::to_string(options_.max_watches), "", ""});
  }
  ++loop().watches();
  feed_ = route_->make_feed(loop(), loop().AddWakeable(*this));
  Ask(feed_->Read(json, request.last_event_id, caller_->principal));
}

void HttpCall::Ask(Result<EngineRequest>&& request) {
  if (!request.ok()) {
    return Fail(request.error());
  }
  const Status permitted = loop().Permit(*caller_, route_->access, route_->verb, *request);
  if (!permitted.ok()) {
    return Fail(permitted.error());
  }
  tag_ = loop().Propose(*this, 0, std::move(*request));
}

void HttpCall::OnReply(std::uint32_t /*cookie*/, engine::Reply& reply) {
  tag_ = 0;
  may_wait_ = false;
  if (feed_ != nullptr) {
    const Status status = feed_->OnReply(reply);
    return status.ok() ? Pump() : EndFeed(status.error());
  }
  auto body = verb_->Write(loop(), *caller_, reply);
  if (!body.ok()) {
    return Fail(body.error());
  }
  HttpResponse response;
  response.body = std::move(*body);
  if (route_->kind == HttpRoute::Kind::kMetrics) {
    response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  }
  Reply(std::move(response));
}

void HttpCall::OnWake() {
  if (feed_ != nullptr) {
    feed_->OnWake();
    Pump();
  }
}

void HttpCall::OnStop() {
  if (feed_ != nullptr) {
    EndFeed(kStopping);
  } else if (may_wait_) {
    loop().Abandon(std::exchange(tag_, 0));
    Fail(kStopping);
  } else {
    OnStopping();
  }
}

void HttpCall::Pump() {
  if (feed_ == nullptr || loop().closed()) {
    return;
  }
  if (auto question = feed_->Ask()) {
    tag_ = loop().Propose(*this, 0, std::move(*question));
  }
  if (sending_) {
    return;
  }
  std::string text = feed_->Take();
  if (!text.empty()) {
    sending_ = true;
    const bool first = !std::exchange(stream_begun_, true);
    SendPiece(first ? EventStreamHead(loop().clock().Wall()) + text : std::move(text), false);
  }
}

void HttpCall::OnPieceSent() {
  sending_ = false;
  if (last_words_.empty()) {
    Pump();
  } else {
    SendPiece(std::exchange(last_words_, ""), true);
  }
}

void HttpCall::SendComment() {
  if (feed_ != nullptr && stream_begun_ && !sending_) {
    sending_ = true;
    SendPiece(":\n\n", false);
  }
}

void HttpCall::Reply(HttpResponse&& response) {
  // A call can be woken for one feed in its life.
  response.close = response.close || feed_ != nullptr || loop().stopping();
  Leave();
  Send(std::move(response));
}

void HttpCall::Fail(const Error& error, int status) {
  Reply(ProblemResponse(error, status));
}

void HttpCall::EndFeed(const Error& error) {
  if (!stream_begun_) {
    return Fail(error);
  }
  Gone();
  last_words_ = "event: problem\ndata: " + ProblemJson(error) + "\n\n";
  if (!sending_) {
    OnPieceSent();
  }
}

void HttpCall::Gone() {
  if (tag_ != 0) {
    loop().Abandon(std::exchange(tag_, 0));
  }
  Leave();
}

void HttpCall::Leave() {
  may_wait_ = false;
  verb_.reset();
  if (feed_ != nullptr) {
    feed_.reset();
    --loop().watches();
  }
  if (caller_ != nullptr) {
    caller_.reset();
    loop().Leave();
  }
}

}  // namespace holdfast::server
