// The HTTP front in one process with the rest: its threads, its end, and what it leaves open.
#include <algorithm>
#include <array>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "holdfast/v1/locks.pb.h"
#include "tests/integration/server_fixture.h"
#include "tests/support/wait_until.h"

namespace holdfast::server {
namespace {

using testing_support::WaitUntil;

// A connection that says what it is told. No read takes longer than 30 s.
class Client {
 public:
  explicit Client(const std::string& address) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port =
        htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    const timeval limit{30, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    EXPECT_EQ(connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  }
  ~Client() { Close(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void Close() {
    if (socket_ >= 0) {
      close(std::exchange(socket_, -1));
    }
  }
  void Send(const std::string& text) {
    EXPECT_EQ(send(socket_, text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  void Get(const std::string& target) {
    Send("GET " + target + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }
  void Post(const std::string& path, const std::string& body) {
    Send("POST " + path +
         " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body);
  }
  // Reads until `text` was there; what was read, or all until the end of the connection.
  std::string ReadUntil(const std::string& text) {
    std::string read = std::exchange(rest_, "");
    std::array<char, 4096> piece;
    std::size_t at = read.find(text);
    for (ssize_t got = 1; at == std::string::npos && got > 0; at = read.find(text)) {
      got = recv(socket_, piece.data(), piece.size(), 0);
      read.append(piece.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    }
    if (at != std::string::npos) {
      rest_ = read.substr(at + text.size());
      read.resize(at + text.size());
    }
    return read;
  }
  // The body of an answer of one JSON object.
  std::string Answer() {
    const std::string head = ReadUntil("\r\n\r\n");
    const std::size_t at = head.find("Content-Length: ");
    EXPECT_NE(at, std::string::npos) << head;
    std::size_t length = at == std::string::npos ? 0 : std::stoul(head.substr(at + 16));
    std::string body;
    while (body.size() < length) {
      const std::string more = ReadUntil("}");
      if (more.empty()) {
        break;
      }
      body += more;
    }
    return body;
  }

 private:
  int socket_;
  std::string rest_;  // read and not asked for
};

std::string LeaseIn(const std::string& answer) {
  const std::string name = "\"lease_id\":\"";
  const std::size_t at = answer.find(name);
  EXPECT_NE(at, std::string::npos) << answer;
  return at == std::string::npos ? "" : answer.substr(at + name.size(), 32);
}

class HttpTest : public ServerFixture {
 protected:
  HttpTest() { config().http_listen = "127.0.0.1:0"; }
  void SetUp() override { Start(); }
  const std::string& address() { return server().http_address(); }
  bool NothingOpen() {
    const FrontCounters open = server().http_counters();
    return open.calls + open.watches + open.requests == 0;
  }
};

TEST_F(HttpTest, BothFrontsSeeTheSameLocks) {
  Client client(address());
  client.Post("/v1/locks/acquire", R"({"resource":"a","owner":"http"})");
  const std::string lease = LeaseIn(client.Answer());
  EXPECT_EQ(Describe("a").holder().owner(), "http");
  EXPECT_EQ(Acquire("a").refused().code(), v1::HELD);
  EXPECT_TRUE(Release("a", lease));
  EXPECT_TRUE(WaitUntil([&] { return NothingOpen(); }));
}

TEST_F(HttpTest, ManyClientsOfBothFronts) {
  constexpr int kClients = 4;
  constexpr int kRounds = 50;
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i) {
    const std::string name = "many/" + std::to_string(i);
    threads.emplace_back([this, name] {
      Client client(address());
      for (int round = 0; round < kRounds; ++round) {
        client.Post("/v1/locks/acquire", R"({"resource":")" + name + R"("})");
        const std::string lease = LeaseIn(client.Answer());
        client.Post("/v1/locks/release",
                    R"({"resource":")" + name + R"(","lease_id":")" + lease + R"("})");
        EXPECT_NE(client.Answer().find(R"("released":true)"), std::string::npos);
      }
    });
    threads.emplace_back([this, name] {
      for (int round = 0; round < kRounds; ++round) {
        EXPECT_TRUE(Release(name + "/grpc", Acquire(name + "/grpc").granted().lease_id()));
      }
    });
  }
  Client watcher(address());
  watcher.Get("/v1/locks/watch?prefix=many/");
  EXPECT_NE(watcher.ReadUntil("\n\n").find("200 OK"), std::string::npos);
  Client scraper(address());
  for (int round = 0; round < kRounds; ++round) {
    scraper.Get("/healthz");
    EXPECT_NE(scraper.ReadUntil("ok\n").find("200 OK"), std::string::npos);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  watcher.Close();
  EXPECT_TRUE(WaitUntil([&] { return NothingOpen(); }));
  EXPECT_EQ(server().runner().watches().watchers(), 0U);
}

TEST_F(HttpTest, WhoVanishesLeavesNothingOpen) {
  const std::string lease = Acquire("a").granted().lease_id();
  Client waiter(address());
  waiter.Post("/v1/locks/acquire", R"({"resource":"a","wait":"60s","request_id":"r"})");
  Client watcher(address());
  watcher.Get("/v1/locks/watch?prefix=a");
  watcher.ReadUntil("\n\n");
  Client observer(address());
  observer.Get("/v1/elections/observe?resource=a");
  observer.ReadUntil("\n\n");
  ASSERT_TRUE(WaitUntil([&] { return server().http_counters().calls == 3; }));
  EXPECT_EQ(server().runner().watches().watchers(), 2U);
  for (Client* client : {&waiter, &watcher, &observer}) {
    client->Close();
  }
  EXPECT_TRUE(WaitUntil([&] { return NothingOpen(); }));
  EXPECT_EQ(server().runner().watches().watchers(), 0U);
  EXPECT_TRUE(WaitUntil([&] { return Describe("a").queue(0).detached(); }));
  EXPECT_TRUE(Release("a", lease));
}

TEST_F(HttpTest, AStopAnswersWhoWaits) {
  Acquire("a");
  Client waiter(address());
  waiter.Post("/v1/locks/acquire", R"({"resource":"a","wait":"60s"})");
  Client watcher(address());
  watcher.Get("/v1/locks/watch?prefix=a");
  watcher.ReadUntil("\n\n");
  Client idle(address());
  ASSERT_TRUE(WaitUntil([&] { return Describe("a").queue_length() == 1; }));
  server().Stop();
  EXPECT_NE(waiter.ReadUntil("\r\n\r\n").find("503 Service Unavailable"), std::string::npos);
  EXPECT_NE(watcher.ReadUntil("\n\n").find("event: problem"), std::string::npos);
  EXPECT_EQ(idle.ReadUntil("x"), "");
}

TEST_F(HttpTest, AStopDoesNotWaitForClientsThatSayNothing) {
  Stop();
  config().stop_timeout = Duration::zero();
  Start();
  Client slow(address());
  slow.Send("POST /v1/locks/acquire HTTP/1.1\r\nContent-Length: 10\r\n\r\n");
  Client watcher(address());
  watcher.Get("/v1/locks/watch");
  watcher.ReadUntil("\n\n");
  Stop();
  slow.ReadUntil("nothing");  // ends
}

}  // namespace
}  // namespace holdfast::server
