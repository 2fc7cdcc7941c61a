#include "cli/lossy_proxy.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <iterator>
#include <list>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "bench/local_server.h"

namespace holdfast::cli {
namespace {

class Socket {
 public:
  explicit Socket(int file = -1) : file_(file) {}
  ~Socket() {
    if (file_ >= 0) {
      close(file_);
    }
  }
  Socket(Socket&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  Socket& operator=(Socket&&) = delete;

  int get() const { return file_; }
  bool ok() const { return file_ >= 0; }

 private:
  int file_;
};

Error NetworkError(const std::string& what) {
  return Error{ErrorCode::kUnavailable, what + ": " + std::generic_category().message(errno), "",
               ""};
}

struct Address {
  sockaddr_storage data{};
  socklen_t size = 0;
};

Result<Address> Resolve(const std::string& target) {
  const std::size_t colon = target.rfind(':');
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (colon == std::string::npos ||
      getaddrinfo(target.substr(0, colon).c_str(), target.substr(colon + 1).c_str(), &hints,
                  &found) != 0) {
    return InvalidArgument("endpoints", "HOST:PORT", "cannot find " + target);
  }
  Address address;
  address.size = found->ai_addrlen;
  std::copy_n(reinterpret_cast<const char*>(found->ai_addr), found->ai_addrlen,
              reinterpret_cast<char*>(&address.data));
  freeaddrinfo(found);
  return address;
}

bool SendAll(int file, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t sent = send(file, data, size, MSG_NOSIGNAL);
    if (sent <= 0) {
      return false;
    }
    data += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return true;
}

}  // namespace

// The thread and what it works on. The demonstration's messages are small, so sending may block.
class LossyProxy::Loop {
 public:
  Loop(Socket listener, const Address& target)
      : listener_(std::move(listener)),
        target_(target),
        wake_(eventfd(0, EFD_CLOEXEC)),
        thread_([this] { Run(); }) {}
  ~Loop() {
    stop_ = true;
    Wake();
    thread_.join();
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void LoseReplies() { lose_ = true; }
  void CutAndHeal() {
    cut_ = true;
    Wake();
  }

 private:
  struct Pair {
    Socket client;
    Socket server;
  };

  void Wake() {
    const std::uint64_t one = 1;
    HF_CHECK(write(wake_.get(), &one, sizeof one) == sizeof one, "waking the proxy");
  }

  void Run() {
    while (!stop_) {
      std::vector<pollfd> waits = {{wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
      for (const Pair& pair : pairs_) {
        waits.push_back({pair.client.get(), POLLIN, 0});
        waits.push_back({pair.server.get(), POLLIN, 0});
      }
      if (poll(waits.data(), waits.size(), -1) < 0) {
        continue;
      }
      ForwardReady(waits);
      if (waits[0].revents != 0) {
        std::uint64_t count = 0;
        HF_CHECK(read(wake_.get(), &count, sizeof count) == sizeof count, "reading an eventfd");
      }
      if (cut_.exchange(false)) {
        pairs_.clear();
        lose_ = false;
      }
      if (waits[1].revents != 0) {
        Accept();
      }
    }
  }

  void ForwardReady(const std::vector<pollfd>& waits) {
    std::size_t at = 2;
    for (auto pair = pairs_.begin(); pair != pairs_.end(); at += 2) {
      const bool alive = (waits[at].revents == 0 || Forward(pair->client, pair->server, false)) &&
                         (waits[at + 1].revents == 0 || Forward(pair->server, pair->client, lose_));
      pair = alive ? std::next(pair) : pairs_.erase(pair);
    }
  }

  static bool Forward(const Socket& from, const Socket& to, bool lose) {
    std::array<char, 16384> buffer{};
    const ssize_t size = recv(from.get(), buffer.data(), buffer.size(), 0);
    return size > 0 && (lose || SendAll(to.get(), buffer.data(), static_cast<std::size_t>(size)));
  }

  void Accept() {
    Socket client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    Socket server(socket(target_.data.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (client.ok() && server.ok() &&
        connect(server.get(), reinterpret_cast<const sockaddr*>(&target_.data), target_.size) ==
            0) {
      pairs_.push_back({std::move(client), std::move(server)});
    }
  }

  Socket listener_;
  const Address target_;
  Socket wake_;
  std::list<Pair> pairs_;  // of the thread
  std::atomic<bool> stop_{false};
  std::atomic<bool> lose_{false};
  std::atomic<bool> cut_{false};
  std::thread thread_;
};

Result<std::unique_ptr<LossyProxy>> LossyProxy::Start(const std::string& target) {
  const auto resolved = Resolve(target);
  if (!resolved.ok()) {
    return resolved.error();
  }
  const auto port = bench::FreePort();
  if (!port.ok()) {
    return port.error();
  }
  Socket listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(*port));
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  if (!listener.ok() || bind(listener.get(), generic, sizeof address) != 0 ||
      listen(listener.get(), 16) != 0) {
    return NetworkError("cannot listen on loopback");
  }
  return std::unique_ptr<LossyProxy>(
      new LossyProxy("127.0.0.1:" + std::to_string(*port),
                     std::make_unique<Loop>(std::move(listener), *resolved)));
}

LossyProxy::LossyProxy(std::string address, std::unique_ptr<Loop> loop)
    : address_(std::move(address)), loop_(std::move(loop)) {}

LossyProxy::~LossyProxy() = default;

void LossyProxy::LoseReplies() {
  loop_->LoseReplies();
}

void LossyProxy::CutAndHeal() {
  loop_->CutAndHeal();
}

}  // namespace holdfast::cli
