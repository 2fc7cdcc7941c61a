#include "server/http_front.h"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <pthread.h>

#include "server/http_tls.h"

namespace holdfast::server {
namespace {

namespace asio = boost::asio;

// Events handled before the turn is handed to the engine: the sockets never starve it.
constexpr int kTurnEventsMax = 1024;

// How exact the deadlines of connections are.
constexpr Duration kPulse = Millis(100);

}  // namespace

class HttpFront::Impl {
 public:
  Impl(engine::Runner& runner, engine::Clock& clock, const Authenticator& authenticator,
       AuditLog* audit, const HttpFrontOptions& options)
      : options_(options),
        mailbox_(std::make_shared<Mailbox>([this] { Ring(); })),
        loop_(runner, clock, authenticator, audit, mailbox_, options.loop) {}

  Status Listen() {
    if (!options_.certificate.empty()) {
      auto tls = MakeTlsContext(options_.certificate, options_.key, options_.client_ca);
      if (!tls.ok()) {
        return tls.error();
      }
      tls_ = std::move(*tls);
    }
    listener_.emplace(io_, loop_, options_.calls, options_.limits, tls_.get());
    const Status listening = listener_->Listen(options_.listen);
    if (!listening.ok()) {
      return listening;
    }
    port_ = listener_->port();
    Pulse();
    thread_ = std::thread([this] {
      pthread_setname_np(pthread_self(), "http front");
      Run();
    });
    return {};
  }

  void Stop(Duration grace) {
    if (!thread_.joinable()) {
      return;
    }
    mailbox_->PostStop();
    {
      std::unique_lock lock(mutex_);
      idle_changed_.wait_for(lock, grace, [this] { return idle_; });
    }
    mailbox_->PostClose();
    thread_.join();
  }

  int port() const { return port_; }
  FrontCounters counters() const { return loop_.counters(); }
  const RequestMeter& meter() const { return loop_.meter(); }

 private:
  // Any thread, under the mailbox's mutex.
  void Ring() {
    asio::post(io_, [mailbox = mailbox_] { mailbox->OnRung(); });
  }

  void Run() {
    loop_.Begin();
    while (io_.run_one() > 0) {
      for (int events = 1; events < kTurnEventsMax && io_.poll_one() > 0; ++events) {
      }
      loop_.EndTurn();
      if (loop_.stopping()) {
        OnStopping();
      }
    }
  }

  void OnStopping() {
    listener_->StopListening();
    if (listener_->connections() == 0) {
      const std::lock_guard lock(mutex_);
      idle_ = true;
      idle_changed_.notify_one();
    }
    if (loop_.close_wanted() && !loop_.closed()) {
      loop_.Close();
      listener_->CutAll();
      loop_.EndTurn();
      timer_.cancel();
      work_.reset();
    }
  }

  void Pulse() {
    timer_.expires_after(kPulse);
    timer_.async_wait([this](const boost::system::error_code& error) {
      if (!error && !loop_.closed()) {
        listener_->Pulse(loop_.clock().Boot());
        Pulse();
      }
    });
  }

  const HttpFrontOptions options_;
  std::shared_ptr<Mailbox> mailbox_;
  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  asio::steady_timer timer_{io_};
  Loop loop_;
  TlsContext tls_;
  std::optional<HttpListener> listener_;
  int port_ = 0;

  std::mutex mutex_;
  std::condition_variable idle_changed_;
  bool idle_ = false;  // under mutex_: stopping, and no connection is open

  std::thread thread_;
};

Result<std::unique_ptr<HttpFront>> HttpFront::Start(engine::Runner& runner, engine::Clock& clock,
                                                    const Authenticator& authenticator,
                                                    AuditLog* audit,
                                                    const HttpFrontOptions& options) {
  auto impl = std::make_unique<Impl>(runner, clock, authenticator, audit, options);
  const Status status = impl->Listen();
  if (!status.ok()) {
    return status.error();
  }
  return std::unique_ptr<HttpFront>(new HttpFront(std::move(impl)));
}

HttpFront::HttpFront(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpFront::~HttpFront() {
  Stop(Duration::zero());
}

int HttpFront::port() const {
  return impl_->port();
}

FrontCounters HttpFront::counters() const {
  return impl_->counters();
}

const RequestMeter& HttpFront::meter() const {
  return impl_->meter();
}

void HttpFront::Stop(Duration grace) {
  impl_->Stop(grace);
}

}  // namespace holdfast::server
