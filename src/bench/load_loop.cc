#include "bench/load_loop.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

namespace holdfast::bench {
namespace {

constexpr int kPollMillis = 50;
constexpr Duration kDrainTimeout = Seconds(5);

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) {
    close(fd_);
  }
}

Error SocketError(const std::string& what) {
  return Error{ErrorCode::kUnavailable,
               fmt::format("{}: {}", what, std::generic_category().message(errno)),
               {},
               {}};
}

Result<Socket> ConnectTo(int port, Duration receive_timeout) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (socket.fd() < 0 ||
      connect(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return SocketError(fmt::format("connect to port {}", port));
  }
  const int on = 1;
  setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const std::int64_t millis = ToMillis(receive_timeout);
  const timeval timeout{millis / 1000, millis % 1000 * 1000};
  setsockopt(socket.fd(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  return socket;
}

Status SendAll(const Socket& socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0) {
      return SocketError("send");
    }
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return {};
}

Status Receive(const Socket& socket, std::string& in) {
  std::array<char, 4096> buffer;
  const ssize_t got = recv(socket.fd(), buffer.data(), buffer.size(), 0);
  if (got == 0) {
    return Error{ErrorCode::kUnavailable, "receive: the server closed the connection", {}, {}};
  }
  if (got < 0) {
    return SocketError("receive");
  }
  in.append(buffer.data(), static_cast<std::size_t>(got));
  return {};
}

Status LoadConnection::Write() {
  const ssize_t sent = send(socket_.fd(), out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && errno != EAGAIN) {
    return SocketError("send");
  }
  out_.erase(0, static_cast<std::size_t>(std::max<ssize_t>(sent, 0)));
  return {};
}

Status LoadConnection::Read() {
  std::array<char, 65536> buffer;
  const ssize_t got = recv(socket_.fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got < 0 && errno == EAGAIN) {
    return {};
  }
  if (got == 0) {
    return Error{ErrorCode::kUnavailable, "receive: the server closed the connection", {}, {}};
  }
  if (got < 0) {
    return SocketError("receive");
  }
  const LoadTime now = LoadClock::now();
  in_.append(buffer.data(), static_cast<std::size_t>(got));
  std::string_view rest = in_;
  const Status taken = OnInput(rest, now);
  in_.erase(0, in_.size() - rest.size());
  return taken;
}

LoadLoop::LoadLoop() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {}

void LoadLoop::Add(LoadConnection& connection) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = &connection;
  epoll_ctl(epoll_.fd(), EPOLL_CTL_ADD, connection.socket().fd(), &event);
}

// Asks epoll for room only while something did not fit, which small commands nearly never meet.
Status LoadLoop::Flush(LoadConnection& connection) {
  if (connection.out().empty()) {
    return {};
  }
  if (Status written = connection.Write(); !written.ok()) {
    return written;
  }
  const bool blocked = !connection.out().empty();
  if (blocked || blocked_) {
    epoll_event event{};
    event.events = blocked ? EPOLLIN | EPOLLOUT : EPOLLIN;
    event.data.ptr = &connection;
    epoll_ctl(epoll_.fd(), EPOLL_CTL_MOD, connection.socket().fd(), &event);
    blocked_ = true;
  }
  return {};
}

Status LoadLoop::Serve() {
  std::array<epoll_event, 256> events;
  const int count =
      epoll_wait(epoll_.fd(), events.data(), static_cast<int>(events.size()), kPollMillis);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    auto& connection = *static_cast<LoadConnection*>(event.data.ptr);
    if ((event.events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) {
      if (Status read = connection.Read(); !read.ok()) {
        return read;
      }
    }
    if (Status flushed = Flush(connection); !flushed.ok()) {
      return flushed;
    }
  }
  return {};
}

Result<LoadResult> LoadLoop::Run(Recorder& recorder, const std::function<bool()>& drained) {
  for (;;) {
    const LoadTime now = LoadClock::now();
    recorder.Advance(now);
    if (recorder.Over(now) && (drained() || now > recorder.end() + kDrainTimeout)) {
      return recorder.Finish();
    }
    if (Status served = Serve(); !served.ok()) {
      return served.error();
    }
  }
}

}  // namespace holdfast::bench
