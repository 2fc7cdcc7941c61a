#include "gateway/resp_front.h"

#include <thread>
#include <utility>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/socket.h>

#include "base/log.h"
#include "gateway/resp_connection.h"
#include "server/audit.h"

namespace holdfast::gateway {
namespace {

using boost::asio::ip::tcp;
using ErrorOf = boost::system::error_code;

// Events handled before the turn is handed to the engine.
constexpr int kTurnEventsMax = 1024;
// Out of descriptors: connections are taken on again after this long.
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

// Finds clients that are gone without a word: after 10 s of silence it asks, and gives up after 15
// s.
void SetSocketOptions(tcp::socket& socket) {
  ErrorOf ignored;
  socket.non_blocking(true, ignored);
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(boost::asio::socket_base::keep_alive(true), ignored);
  const std::pair<int, int> options[] = {
      {TCP_KEEPIDLE, 10}, {TCP_KEEPINTVL, 5}, {TCP_KEEPCNT, 3}, {TCP_USER_TIMEOUT, 25'000}};
  for (const auto& [option, value] : options) {
    setsockopt(socket.native_handle(), IPPROTO_TCP, option, &value, sizeof value);
  }
}

class RespFront final : public server::FrontHandle {
 public:
  explicit RespFront(const server::FrontContext& context)
      : context_(context),
        mailbox_(std::make_shared<server::Mailbox>([this] { Ring(); })),
        loop_(context.runner, context.clock, context.authenticator, context.audit, mailbox_,
              {.max_calls = context.config.max_calls, .telemetry = context.telemetry}) {}
  ~RespFront() override { Stop(Duration{}); }
  RespFront(const RespFront&) = delete;
  RespFront& operator=(const RespFront&) = delete;

  Status Listen(const std::string& listen) {
    const std::size_t colon = listen.rfind(':');
    std::string host = listen.substr(0, colon);
    if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
      host = host.substr(1, host.size() - 2);
    }
    ErrorOf error;
    tcp::resolver resolver(io_);
    const auto found =
        resolver.resolve(host, listen.substr(colon + 1), tcp::resolver::passive, error);
    if (!error) {
      const tcp::endpoint endpoint = found.begin()->endpoint();
      acceptor_.open(endpoint.protocol(), error);
      acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
      if (!acceptor_.bind(endpoint, error)) {
        acceptor_.listen(tcp::acceptor::max_listen_connections, error);
      }
    }
    if (error) {
      return Error{ErrorCode::kUnavailable, "cannot listen on " + listen + ": " + error.message(),
                   "resp_listen", ""};
    }
    address_ = listen.substr(0, colon + 1) + std::to_string(acceptor_.local_endpoint().port());
    Accept();
    thread_ = std::thread([this] {
      pthread_setname_np(pthread_self(), "resp");
      Run();
    });
    return {};
  }

  void Stop(Duration grace) override {
    if (!thread_.joinable()) {
      return;
    }
    mailbox_->PostStop();
    boost::asio::post(io_, [this, grace] {
      ErrorOf ignored;
      acceptor_.close(ignored);
      deadline_.expires_after(grace);
      deadline_.async_wait([this](const ErrorOf& error) {
        if (!error) {
          mailbox_->PostClose();
        }
      });
    });
    thread_.join();
  }

  const std::string& address() const override { return address_; }
  const char* name() const override { return "resp"; }
  server::FrontCounters counters() const override { return loop_.counters(); }
  const server::RequestMeter& meter() const override { return loop_.meter(); }

 private:
  // Any thread, under the mailbox's mutex.
  void Ring() {
    boost::asio::post(io_, [mailbox = mailbox_] { mailbox->OnRung(); });
  }

  void Accept() {
    acceptor_.async_accept([this](const ErrorOf& error, tcp::socket socket) {
      if (!acceptor_.is_open() || loop_.closed()) {
        return;
      }
      if (error) {
        log::Warning("cannot accept a connection front=resp error=\"{}\"", error.message());
        pause_.expires_after(kAcceptPause);
        pause_.async_wait([this](const ErrorOf& failed) {
          if (!failed) {
            Accept();
          }
        });
        return;
      }
      SetSocketOptions(socket);
      if (const Status admitted = loop_.Admit(); admitted.ok()) {
        ServeRespConnection(loop_, std::move(socket), ++connections_);
      } else {
        RefuseRespConnection(std::move(socket), admitted.error());
      }
      Accept();
    });
  }

  void Run() {
    loop_.Begin();
    while (!loop_.close_wanted() && io_.run_one() > 0) {
      for (int events = 1; events < kTurnEventsMax && io_.poll_one() > 0; ++events) {
      }
      loop_.EndTurn();
      if (loop_.stopping() && loop_.counters().calls == 0) {
        break;
      }
    }
    // Connections that outlived the grace lose what they are owed; then their handlers run out.
    ErrorOf ignored;
    acceptor_.close(ignored);
    deadline_.cancel();
    pause_.cancel();
    loop_.Close();
    work_.reset();
    io_.restart();
    io_.run();
  }

  const server::FrontContext context_;
  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_ =
      boost::asio::make_work_guard(io_);
  tcp::acceptor acceptor_{io_};
  boost::asio::steady_timer pause_{io_};
  boost::asio::steady_timer deadline_{io_};
  std::shared_ptr<server::Mailbox> mailbox_;
  server::Loop loop_;
  std::uint64_t connections_ = 0;
  std::string address_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<server::FrontHandle>> StartRespFront(const server::FrontContext& context,
                                                            const std::string& listen) {
  auto front = std::make_unique<RespFront>(context);
  if (const Status listening = front->Listen(listen); !listening.ok()) {
    return listening.error();
  }
  return std::unique_ptr<server::FrontHandle>(std::move(front));
}

}  // namespace holdfast::gateway
