// The RESP front through hiredis as it is. `hiredis_client HOST PORT [TOKEN]` goes through the life
// of locks, sessions and elections, pipelines, waits, drops its connection and reconnects. It says
// what differs from what it expects, and exits with 1 then.
#include <cstdio>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <hiredis/hiredis.h>
#include <sys/time.h>

namespace {

using Words = std::vector<std::string>;
using Reply = std::unique_ptr<redisReply, decltype(&freeReplyObject)>;

[[noreturn]] void Fail(const std::string& what) {
  throw std::runtime_error(what);
}

void Expect(std::string_view what, std::string_view found, std::string_view wanted) {
  if (found != wanted) {
    Fail(std::string(what) + " is " + std::string(found) + ", expected " + std::string(wanted));
  }
}

std::string TextOf(const redisReply& reply) {
  switch (reply.type) {
    case REDIS_REPLY_INTEGER:
      return std::to_string(reply.integer);
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
    case REDIS_REPLY_ERROR:
      return {reply.str, static_cast<std::size_t>(reply.len)};
    default:
      return "type " + std::to_string(reply.type);
  }
}

// A map in version 2 of the protocol: keys and values in turn.
std::map<std::string, std::string> MapOf(const redisReply& reply) {
  if (reply.type != REDIS_REPLY_ARRAY || reply.elements % 2 != 0) {
    Fail("not a map: " + TextOf(reply));
  }
  std::map<std::string, std::string> map;
  for (std::size_t i = 0; i < reply.elements; i += 2) {
    map[TextOf(*reply.element[i])] = TextOf(*reply.element[i + 1]);
  }
  return map;
}

class Connection {
 public:
  Connection(const char* host, int port, std::string token)
      : context_(redisConnectWithTimeout(host, port, timeval{10, 0}), &redisFree),
        token_(std::move(token)) {
    if (context_ == nullptr || context_->err != 0) {
      Fail("cannot connect");
    }
    redisSetTimeout(context_.get(), timeval{30, 0});
    Authenticate();
  }

  void Append(const Words& words) {
    std::vector<const char*> texts;
    std::vector<std::size_t> sizes;
    for (const std::string& word : words) {
      texts.push_back(word.data());
      sizes.push_back(word.size());
    }
    redisAppendCommandArgv(context_.get(), static_cast<int>(words.size()), texts.data(),
                           sizes.data());
  }

  Reply Read() {
    void* reply = nullptr;
    if (redisGetReply(context_.get(), &reply) != REDIS_OK) {
      Fail(std::string("no reply: ") + context_->errstr);
    }
    return {static_cast<redisReply*>(reply), &freeReplyObject};
  }

  std::string Text(const Words& words) {
    Append(words);
    return TextOf(*Read());
  }

  std::map<std::string, std::string> Map(const Words& words) {
    Append(words);
    return MapOf(*Read());
  }

  // Writes what was appended.
  void Flush() {
    int done = 0;
    while (done == 0) {
      if (redisBufferWrite(context_.get(), &done) != REDIS_OK) {
        Fail("cannot write");
      }
    }
  }

  // As if the connection broke before the reply.
  void SendAndReconnect() {
    Flush();
    if (redisReconnect(context_.get()) != REDIS_OK) {
      Fail(std::string("cannot reconnect: ") + context_->errstr);
    }
    Authenticate();
  }

 private:
  void Authenticate() {
    if (!token_.empty()) {
      Expect("PING before AUTH", Text({"PING"}), "NOAUTH authentication required");
      Expect("AUTH", Text({"AUTH", token_}), "OK");
    }
  }

  std::unique_ptr<redisContext, decltype(&redisFree)> context_;
  const std::string token_;
};

void SayHello(Connection& one) {
  Expect("PING", one.Text({"PING"}), "PONG");
  Expect("ECHO", one.Text({"ECHO", "a b"}), "a b");
  Expect("CLIENT SETNAME", one.Text({"CLIENT", "SETNAME", "test"}), "OK");
  Expect("CLIENT GETNAME", one.Text({"CLIENT", "GETNAME"}), "test");
  Expect("server", one.Map({"HELLO", "2"})["server"], "holdfast");
  if (one.Text({"INFO"}).find("loading:0") == std::string::npos) {
    Fail("INFO has no loading:0");
  }
  Expect("GET", one.Text({"GET", "a"}).substr(0, 19), "ERR unknown command");
}

void LiveThroughALock(Connection& one, Connection& two) {
  auto granted = one.Map({"HOLDFAST.ACQUIRE", "h/a", "TTL", "20000", "OWNER", "one"});
  Expect("acquire", granted["outcome"], "GRANTED");
  const std::string lease = granted["lease_id"];
  auto held = two.Map({"HOLDFAST.ACQUIRE", "h/a", "OWNER", "two"});
  Expect("acquire of another", held["outcome"], "HELD");
  Expect("its holder", held["holder_fencing_token"], granted["fencing_token"]);
  Expect("renew", one.Map({"HOLDFAST.RENEW", "h/a", lease})["outcome"], "RENEWED");

  // A wait holds back the replies of its own connection only.
  two.Append({"HOLDFAST.ACQUIRE", "h/a", "OWNER", "two", "WAIT", "20000"});
  two.Append({"PING"});
  two.Flush();
  while (one.Map({"HOLDFAST.DESCRIBE", "h/a"})["queue_length"] != "1") {
  }
  Expect("release", one.Map({"HOLDFAST.RELEASE", "h/a", lease})["outcome"], "RELEASED");
  auto handed_over = MapOf(*two.Read());
  Expect("hand-over", handed_over["outcome"], "GRANTED");
  Expect("it is provisional", handed_over["provisional"], "1");
  Expect("PING behind it", TextOf(*two.Read()), "PONG");
  Expect("confirmation", two.Map({"HOLDFAST.RENEW", "h/a", handed_over["lease_id"]})["outcome"],
         "RENEWED");
  Expect("release by the old lease", one.Map({"HOLDFAST.RELEASE", "h/a", lease})["outcome"],
         "RELEASED");
  Expect("the new one is there", one.Map({"HOLDFAST.DESCRIBE", "h/a"})["holder_owner"], "two");
}

void LiveThroughASession(Connection& one) {
  const std::string session = one.Map({"HOLDFAST.SESSION.OPEN", "TTL", "20000"})["session_id"];
  auto lead = one.Map({"HOLDFAST.CAMPAIGN", "h/e", "VALUE", "here", "SESSION", session});
  Expect("campaign", lead["outcome"], "GRANTED");
  Expect("leader", one.Map({"HOLDFAST.LEADER", "h/e"})["value"], "here");
  Expect("keepalive", one.Map({"HOLDFAST.SESSION.KEEPALIVE", session})["outcome"], "KEPT");
  Expect("close", one.Map({"HOLDFAST.SESSION.CLOSE", session})["outcome"], "CLOSED");
  Expect("vacant", one.Map({"HOLDFAST.LEADER", "h/e"})["vacant"], "1");
}

void Pipeline(Connection& one) {
  constexpr int kCalls = 5000;
  for (int i = 0; i < kCalls; ++i) {
    const std::string number = std::to_string(i);
    one.Append({"HOLDFAST.ACQUIRE", "h/p/" + number, "TTL", "60000", "REQUEST", "p" + number});
  }
  for (int i = 0; i < kCalls; ++i) {
    auto granted = MapOf(*one.Read());
    Expect("outcome in a pipeline", granted["outcome"], "GRANTED");
    Expect("order of a pipeline", granted["request_id"], "p" + std::to_string(i));
  }
}

// The reply was lost with the connection: the same request gives the same lease.
void LoseAReply(Connection& one) {
  const Words acquire = {"HOLDFAST.ACQUIRE", "h/lost", "TTL", "60000", "REQUEST", "lost"};
  one.Append(acquire);
  one.SendAndReconnect();
  auto granted = one.Map(acquire);
  Expect("acquire after a lost reply", granted["outcome"], "GRANTED");
  Expect("once more", one.Map(acquire)["lease_id"], granted["lease_id"]);
  Expect("holder", one.Map({"HOLDFAST.DESCRIBE", "h/lost"})["holder_fencing_token"],
         granted["fencing_token"]);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 3) {
      Fail("usage: hiredis_client HOST PORT [TOKEN]");
    }
    const std::string token = argc > 3 ? argv[3] : "";
    const int port = std::stoi(argv[2]);
    Connection one(argv[1], port, token);
    Connection two(argv[1], port, token);
    SayHello(one);
    LiveThroughALock(one, two);
    LiveThroughASession(one);
    Pipeline(one);
    LoseAReply(one);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hiredis_client: %s\n", error.what());
    return 1;
  }
  std::puts("all as expected");
  return 0;
}
