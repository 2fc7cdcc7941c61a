#include "server/http_listener.h"

#include <algorithm>
#include <optional>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/log.h"

namespace holdfast::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using TlsStream = asio::ssl::stream<tcp::socket>;

// What is read ahead while a request is being answered.
constexpr std::size_t kReadAheadBytes = 4096;
// What a client may still send after an answer that closes; then it is cut off.
constexpr std::size_t kLingerBytes = std::size_t{1} << 20U;
constexpr Duration kLingerTime = Seconds(1);
// What a client that is sending a request has left when the server stops.
constexpr Duration kStoppingTime = Seconds(1);
// A quiet stream of events sends a comment, so that proxies keep it open.
constexpr Duration kStreamPulse = Seconds(15);
// While the process has no file descriptors left.
constexpr Duration kAcceptPause = Millis(100);

// A connection, whatever its stream.
class Peer : public HttpCall {
 public:
  using HttpCall::HttpCall;
  virtual void Pulse(BootTime now) = 0;
  virtual void Cut() = 0;
};

// What connections share.
struct Room {
  Loop& loop;
  const HttpCallOptions& calls;
  const HttpLimits& limits;
  std::unordered_set<Peer*> peers;
};

void SetProbes(tcp::socket& socket, const HttpLimits& limits) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  const auto set = [&](int option, std::int64_t value) {
    const int number = static_cast<int>(std::max<std::int64_t>(value, 1));
    setsockopt(socket.native_handle(), IPPROTO_TCP, option, &number, sizeof(number));
  };
  set(TCP_KEEPIDLE, ToMillis(limits.keepalive_time) / 1000);
  set(TCP_KEEPINTVL, ToMillis(limits.keepalive_timeout) / 1000);
  set(TCP_KEEPCNT, 1);
  set(TCP_USER_TIMEOUT, ToMillis(limits.keepalive_time + limits.keepalive_timeout));
}

// The problem of a request that could not be read; nothing if nobody is there to be told.
std::optional<HttpResponse> ProblemOf(const error_code& error, const HttpLimits& limits) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    const std::string limit = std::to_string(limits.header_bytes) + " bytes";
    return ProblemResponse(InvalidArgument("header", limit, "the header is too long"), 431);
  }
  if (error == http::error::body_limit) {
    const std::string limit = std::to_string(limits.body_bytes) + " bytes";
    return ProblemResponse(InvalidArgument("body", limit, "the body is too long"), 413);
  }
  const bool parsed = error.category() == http::make_error_code(http::error::bad_method).category();
  if (!parsed || error == http::error::end_of_stream || error == http::error::partial_message) {
    return std::nullopt;
  }
  return ProblemResponse(
      InvalidArgument("request", "HTTP/1.1", "not HTTP/1.1: " + error.message()));
}

template <typename Stream>
class Connection final : public Peer {
 public:
  template <typename... StreamArguments>
  explicit Connection(Room& room, StreamArguments&&... arguments)
      : Peer(room.loop, room.calls),
        room_(room),
        stream_(std::forward<StreamArguments>(arguments)...),
        buffer_(room.limits.header_bytes + room.limits.body_bytes + kReadAheadBytes) {
    room_.peers.insert(this);
  }
  ~Connection() override { room_.peers.erase(this); }

  void Start() {
    if constexpr (kTls) {
      SetDeadline(room_.limits.request_timeout);
      stream_.async_handshake(asio::ssl::stream_base::server, Then(handshake_step_));
    } else {
      WaitForRequest();
    }
  }

  void Pulse(BootTime now) override {
    if (now > deadline_) {
      Close();
    } else if (state_ == State::kStreaming && now - sent_at_ > kStreamPulse) {
      SendComment();
    }
  }

  void Cut() override { Close(); }

 protected:
  const Credentials& Certificate() const override { return certificate_; }

  void Send(HttpResponse&& response) override {
    if (state_ == State::kClosed) {
      return;
    }
    response.close = response.close || !keep_alive_;
    close_after_ = response.close;
    response.headers.emplace_back("Date", HttpDate(loop().clock().Wall()));
    std::string text = Serialize(response);
    if (head_) {
      text.resize(text.size() - response.body.size());
    }
    Write(std::move(text));
    state_ = State::kWriting;
  }

  void SendPiece(std::string&& text, bool last) override {
    if (state_ == State::kClosed) {
      return;
    }
    close_after_ = last;
    Write(std::move(text));
    state_ = State::kStreaming;
  }

  void OnStopping() override {
    if (state_ == State::kIdle || state_ == State::kHandshake) {
      Close();
    } else if (state_ == State::kReading) {
      deadline_ = std::min(deadline_, loop().clock().Boot() + kStoppingTime);
    }
  }

 private:
  static constexpr bool kTls = std::is_same_v<Stream, TlsStream>;
  enum class State : std::uint8_t {
    kHandshake,
    kIdle,       // between requests
    kReading,    // a request
    kAnswering,  // the engine has it
    kWriting,    // its answer
    kStreaming,  // events, until the end
    kLingering,  // the last answer was sent; what the client still sends is dropped
    kClosed,
  };
  using Step = typename Call::template Step<Connection>;

  // The handler of an operation; `step` follows it on this thread, always.
  auto Then(Step& step) {
    Expect(step);
    return [this, &step](const error_code& error, std::size_t bytes = 0) {
      error_ = error;
      bytes_ = bytes;
      step.OnCompletion(!error && state_ != State::kClosed);
    };
  }
  tcp::socket& socket() {
    if constexpr (kTls) {
      return stream_.next_layer();
    } else {
      return stream_;
    }
  }
  void SetDeadline(Duration time) { deadline_ = loop().clock().Boot() + time; }
  void SetNoDeadline() { deadline_ = BootTime::max(); }

  void OnHandshake(bool ok) {
    if (!ok) {
      return Close();
    }
    if constexpr (kTls) {
      certificate_ = CertificateOf(stream_.native_handle());
    }
    WaitForRequest();
  }

  void WaitForRequest() {
    if (loop().stopping()) {
      return Close();
    }
    state_ = State::kIdle;
    SetDeadline(room_.limits.idle_timeout);
    if (buffer_.size() > 0) {
      ReadHeader();
    } else {
      ReadAhead();
    }
  }

  // One read is in flight from here on: it finds the next request, or that the client is gone. Not
  // while there is something to be parsed, so that a client cannot make the buffer grow.
  void ReadAhead() {
    if (!reading_ && buffer_.size() == 0) {
      reading_ = true;
      stream_.async_read_some(buffer_.prepare(kReadAheadBytes), Then(read_step_));
    }
  }

  void OnRead(bool ok) {
    reading_ = false;
    if (state_ == State::kClosed) {
      return;
    }
    buffer_.commit(bytes_);
    if (!ok) {
      return OnReadEnd();
    }
    switch (state_) {
      case State::kIdle:
        return ReadHeader();
      case State::kStreaming:
        buffer_.clear();  // nothing that a client could say here has a meaning
        return ReadAhead();
      case State::kLingering:
        lingered_ += bytes_;
        buffer_.clear();
        return lingered_ > kLingerBytes ? Close() : ReadAhead();
      case State::kAnswering:
      case State::kWriting:
      case State::kHandshake:
      case State::kReading:
      case State::kClosed:
        return;
    }
  }

  void OnReadEnd() {
    const bool half_closed = error_ == asio::error::eof;
    const bool soon = (state_ == State::kAnswering && !MayTakeLong()) || state_ == State::kWriting;
    if (half_closed && soon) {
      keep_alive_ = false;  // it has sent all that it wants, and reads on
      close_after_ = true;
      return;
    }
    Close();
  }

  void ReadHeader() {
    state_ = State::kReading;
    head_ = false;
    SetDeadline(room_.limits.request_timeout);
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(room_.limits.header_bytes));
    parser_->body_limit(room_.limits.body_bytes);
    http::async_read_header(stream_, buffer_, *parser_, Then(header_step_));
  }

  void OnHeader(bool ok) {
    if (!ok) {
      return Refuse();
    }
    if (boost::beast::iequals(parser_->get()[http::field::expect], "100-continue")) {
      out_ = "HTTP/1.1 100 Continue\r\n\r\n";
      asio::async_write(stream_, asio::buffer(out_), Then(continued_step_));
    } else {
      ReadBody();
    }
  }

  void OnContinued(bool ok) { return ok ? ReadBody() : Close(); }

  void ReadBody() {
    if (parser_->is_done()) {
      return OnRequest();
    }
    http::async_read(stream_, buffer_, *parser_, Then(body_step_));
  }

  void OnBody(bool ok) { return ok ? OnRequest() : Refuse(); }

  void Refuse() {
    auto problem = ProblemOf(error_, room_.limits);
    if (state_ == State::kClosed || !problem.has_value()) {
      return Close();
    }
    problem->close = true;
    Send(std::move(*problem));
  }

  void OnRequest() {
    if (state_ == State::kClosed) {
      return;
    }
    state_ = State::kAnswering;
    SetNoDeadline();
    HttpRequest request;
    auto& message = parser_->get();
    const auto text = [](boost::beast::string_view view) { return std::string(view); };
    request.method = text(message.method_string());
    request.target = text(message.target());
    request.host = text(message[http::field::host]);
    request.content_type = text(message[http::field::content_type]);
    request.authorization = text(message[http::field::authorization]);
    request.last_event_id = text(message["Last-Event-ID"]);
    request.body = std::move(message.body());
    keep_alive_ = message.keep_alive();
    head_ = message.method() == http::verb::head;
    parser_.reset();
    Answer(request);
    if (state_ == State::kAnswering) {
      ReadAhead();
    }
  }

  void Write(std::string&& text) {
    SetDeadline(room_.limits.request_timeout);
    out_ = std::move(text);
    asio::async_write(stream_, asio::buffer(out_), Then(written_step_));
  }

  void OnWritten(bool ok) {
    out_.clear();
    if (!ok || state_ == State::kClosed) {
      return Close();
    }
    if (close_after_) {
      return Linger();
    }
    if (state_ == State::kStreaming) {
      SetNoDeadline();
      sent_at_ = loop().clock().Boot();
      if (!reading_) {
        buffer_.clear();  // what was sent behind the request
      }
      ReadAhead();
      return OnPieceSent();
    }
    WaitForRequest();
  }

  // A socket that is closed with bytes of the client unread takes the answer back.
  void Linger() {
    state_ = State::kLingering;
    SetDeadline(kLingerTime);
    error_code ignored;
    socket().shutdown(tcp::socket::shutdown_send, ignored);
    buffer_.clear();
    ReadAhead();
  }

  void Close() {
    if (state_ == State::kClosed) {
      return;
    }
    state_ = State::kClosed;
    Gone();
    error_code ignored;
    socket().close(ignored);
    loop().FlushLater(*this);  // it may be that nothing else looks at it any more
  }

  Room& room_;
  Stream stream_;
  Credentials certificate_;
  boost::beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  std::string out_;  // being written
  error_code error_;
  std::size_t bytes_ = 0;
  State state_ = State::kHandshake;
  BootTime deadline_ = BootTime::max();
  BootTime sent_at_{};
  std::size_t lingered_ = 0;
  bool reading_ = false;  // a ReadAhead is in flight
  bool keep_alive_ = false;
  bool head_ = false;  // the request is a HEAD: no answer to it has a body
  bool close_after_ = false;
  Step handshake_step_{*this, &Connection::OnHandshake};
  Step read_step_{*this, &Connection::OnRead};
  Step header_step_{*this, &Connection::OnHeader};
  Step continued_step_{*this, &Connection::OnContinued};
  Step body_step_{*this, &Connection::OnBody};
  Step written_step_{*this, &Connection::OnWritten};
};

}  // namespace

class HttpListener::Impl {
 public:
  Impl(asio::io_context& io, Loop& loop, const HttpCallOptions& calls, const HttpLimits& limits,
       asio::ssl::context* tls)
      : limits_(limits), room_{loop, calls, limits_, {}}, tls_(tls), io_(io), acceptor_(io) {}

  Status Listen(const std::string& address) {
    const std::size_t colon = address.rfind(':');
    std::string host = address.substr(0, colon);
    if (host.size() > 2 && host.front() == '[') {
      host = host.substr(1, host.size() - 2);
    }
    error_code error;
    tcp::resolver resolver(io_);
    const auto found =
        resolver.resolve(host, address.substr(colon + 1),
                         tcp::resolver::passive | tcp::resolver::numeric_service, error);
    if (!error) {
      const tcp::endpoint endpoint = found.begin()->endpoint();
      acceptor_.open(endpoint.protocol(), error);
      acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
      acceptor_.bind(endpoint, error);
    }
    if (!error) {
      acceptor_.listen(asio::socket_base::max_listen_connections, error);
    }
    if (error) {
      return Error{ErrorCode::kUnavailable, "cannot listen on " + address + ": " + error.message(),
                   "", ""};
    }
    Accept();
    return {};
  }

  int port() const {
    error_code ignored;
    return acceptor_.local_endpoint(ignored).port();
  }

  void StopListening() {
    error_code ignored;
    acceptor_.close(ignored);
  }

  void CutAll() {
    for (Peer* peer : std::vector<Peer*>(room_.peers.begin(), room_.peers.end())) {
      peer->Cut();
    }
  }

  void Pulse(BootTime now) {
    for (Peer* peer : std::vector<Peer*>(room_.peers.begin(), room_.peers.end())) {
      peer->Pulse(now);
    }
    if (paused_until_.has_value() && now > *paused_until_ && acceptor_.is_open()) {
      paused_until_.reset();
      Accept();
    }
  }

  std::size_t connections() const { return room_.peers.size(); }

 private:
  void Accept() {
    acceptor_.async_accept([this](const error_code& error, tcp::socket socket) {
      if (!acceptor_.is_open()) {
        return;
      }
      if (error == asio::error::no_descriptors || error == asio::error::no_buffer_space ||
          error == asio::error::no_memory) {
        log::Warning("http cannot accept: {}", error.message());
        paused_until_ = room_.loop.clock().Boot() + kAcceptPause;
        return;
      }
      if (!error) {
        Welcome(std::move(socket));
      }
      Accept();
    });
  }

  void Welcome(tcp::socket&& socket) {
    if (room_.peers.size() >= limits_.max_connections) {
      return TurnAway(std::move(socket));
    }
    SetProbes(socket, limits_);
    if (tls_ == nullptr) {
      (new Connection<tcp::socket>(room_, std::move(socket)))->Start();
    } else {
      (new Connection<TlsStream>(room_, std::move(socket), *tls_))->Start();
    }
  }

  // Says so as far as that goes without waiting.
  void TurnAway(tcp::socket&& socket) {
    if (tls_ != nullptr) {
      return;
    }
    HttpResponse response = ProblemResponse(
        {ErrorCode::kUnavailable,
         "too many connections, the limit is " + std::to_string(limits_.max_connections), "", ""});
    response.close = true;
    error_code ignored;
    socket.non_blocking(true, ignored);
    socket.write_some(asio::buffer(Serialize(response)), ignored);
    socket.shutdown(tcp::socket::shutdown_send, ignored);
  }

  const HttpLimits limits_;
  Room room_;
  asio::ssl::context* const tls_;
  asio::io_context& io_;
  tcp::acceptor acceptor_;
  std::optional<BootTime> paused_until_;
};

HttpListener::HttpListener(asio::io_context& io, Loop& loop, const HttpCallOptions& calls,
                           const HttpLimits& limits, asio::ssl::context* tls)
    : impl_(std::make_unique<Impl>(io, loop, calls, limits, tls)) {}

HttpListener::~HttpListener() = default;

Status HttpListener::Listen(const std::string& address) {
  return impl_->Listen(address);
}

int HttpListener::port() const {
  return impl_->port();
}

void HttpListener::StopListening() {
  impl_->StopListening();
}

void HttpListener::CutAll() {
  impl_->CutAll();
}

void HttpListener::Pulse(BootTime now) {
  impl_->Pulse(now);
}

std::size_t HttpListener::connections() const {
  return impl_->connections();
}

}  // namespace holdfast::server
