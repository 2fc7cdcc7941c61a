#include "bench/metrics_text.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/recorder.h"

namespace holdfast::bench {
namespace {

constexpr std::size_t kAnswerBytesMax = std::size_t{4} << 20U;

Error NoAnswer(int port, const char* why) {
  return Error{
      ErrorCode::kUnavailable, fmt::format("http://127.0.0.1:{}/metrics {}", port, why), {}, {}};
}

class Socket {
 public:
  Socket() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {}
  ~Socket() { close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  int fd() const { return fd_; }
  bool WaitFor(std::int16_t events, LoadTime deadline) const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - LoadClock::now());
    pollfd wanted{fd_, events, 0};
    return left.count() > 0 && poll(&wanted, 1, static_cast<int>(left.count())) > 0;
  }

 private:
  const int fd_;
};

}  // namespace

Metrics Metrics::Parse(std::string_view text) {
  Metrics metrics;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    // Labels may hold spaces; what follows the value, a time, is not in use by our servers.
    const std::size_t space = line.rfind(' ');
    if (line.empty() || line.front() == '#' || space == std::string_view::npos) {
      continue;
    }
    const std::string value(line.substr(space + 1));
    char* end = nullptr;
    const double number = std::strtod(value.c_str(), &end);
    if (!value.empty() && *end == '\0') {
      metrics.samples_.insert_or_assign(std::string(line.substr(0, space)), number);
    }
  }
  return metrics;
}

double Metrics::Sum(std::string_view name, std::string_view label) const {
  double sum = 0;
  for (auto at = samples_.lower_bound(name); at != samples_.end() && at->first.starts_with(name);
       ++at) {
    const std::string_view labels = std::string_view(at->first).substr(name.size());
    if ((labels.empty() || labels.front() == '{') && labels.find(label) != std::string_view::npos) {
      sum += at->second;
    }
  }
  return sum;
}

Result<Metrics> FetchMetrics(int port, Duration timeout) {
  const LoadTime deadline = LoadClock::now() + timeout;
  const Socket socket;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  // Mostly it is under way then, and a refusal shows at the first send.
  if (connect(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
      errno != EINPROGRESS) {
    return NoAnswer(port, "cannot be reached");
  }
  // Version 1.0: the answer is one piece and ends with the connection.
  constexpr std::string_view kRequest = "GET /metrics HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n";
  if (!socket.WaitFor(POLLOUT, deadline) ||
      send(socket.fd(), kRequest.data(), kRequest.size(), MSG_NOSIGNAL) !=
          static_cast<ssize_t>(kRequest.size())) {
    return NoAnswer(port, "cannot be reached");
  }
  std::string answer;
  char buffer[16384];
  for (;;) {
    if (!socket.WaitFor(POLLIN, deadline)) {
      return NoAnswer(port, "did not answer in time");
    }
    const ssize_t count = recv(socket.fd(), buffer, sizeof buffer, 0);
    if (count <= 0) {
      break;
    }
    answer.append(buffer, static_cast<std::size_t>(count));
    if (answer.size() > kAnswerBytesMax) {
      return NoAnswer(port, "is longer than 4 MiB");
    }
  }
  const std::size_t body = answer.find("\r\n\r\n");
  if (body == std::string::npos || answer.compare(0, 5, "HTTP/") != 0 ||
      answer.compare(8, 5, " 200 ") != 0) {
    return NoAnswer(port, "did not answer with status 200");
  }
  return Metrics::Parse(std::string_view(answer).substr(body + 4));
}

void RisingCounter::Read(double value) {
  if (last_ >= 0) {
    risen_ += value >= last_ ? value - last_ : value;
  }
  last_ = value;
}

}  // namespace holdfast::bench
