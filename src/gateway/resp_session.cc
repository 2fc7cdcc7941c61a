#include "gateway/resp_session.h"

#include <algorithm>

#include "gateway/resp_arguments.h"
#include "gateway/resp_verbs.h"

namespace holdfast::gateway {
namespace {

using Arguments = std::vector<std::string_view>;

// What the version fields claim, for clients that look before they use a feature.
constexpr const char* kRedisVersion = "7.0.0";

struct Answering {
  const server::Authenticator& authenticator;
  const Arguments& arguments;
  RespSession& session;
  std::string& out;

  RespWriter writer() const { return {out, session.version}; }
  std::string_view word(std::size_t at) const {
    return at < arguments.size() ? arguments[at] : std::string_view();
  }
};

void WrongNumber(const Answering& a) {
  a.writer().Error("ERR", "wrong number of arguments for " + std::string(a.word(0).substr(0, 64)));
}

// True if the token is right; else the error is written.
bool Authenticate(const Answering& a, std::string_view token) {
  if (a.authenticator.IsOpen()) {
    a.writer().Error("ERR", "AUTH is called, but this server has no identities configured");
    return false;
  }
  const std::string header = "Bearer " + std::string(token);
  server::Credentials credentials;
  credentials.authorization = header;
  auto caller = a.authenticator.Authenticate(credentials);
  if (!caller.ok()) {
    a.writer().Error("WRONGPASS", "the token is not one of a configured identity");
    return false;
  }
  a.session.caller = std::move(*caller);
  return true;
}

// AUTH [user] token: the token alone says who it is.
void Auth(const Answering& a) {
  if (a.arguments.size() != 2 && a.arguments.size() != 3) {
    WrongNumber(a);
  } else if (Authenticate(a, a.arguments.back())) {
    a.writer().Simple("OK");
  }
}

bool SetName(const Answering& a, std::string_view name) {
  const bool graphic =
      std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (name.size() > RespSession::kNameMax || !graphic) {
    a.writer().Error("ERR", "a name has at most 128 characters, without spaces");
    return false;
  }
  a.session.name = std::string(name);
  return true;
}

// HELLO [version [AUTH user token] [SETNAME name]]
void Hello(const Answering& a) {
  int version = a.session.version;
  std::size_t next = 1;
  if (next < a.arguments.size()) {
    if (a.word(next) != "2" && a.word(next) != "3") {
      a.writer().Error("NOPROTO", "unsupported protocol version, 2 and 3 are known");
      return;
    }
    version = a.word(next) == "3" ? 3 : 2;
    ++next;
  }
  while (next < a.arguments.size()) {
    if (EqualsIgnoringCase(a.word(next), "AUTH") && next + 2 < a.arguments.size()) {
      if (!Authenticate(a, a.word(next + 2))) {
        return;
      }
      next += 3;
    } else if (EqualsIgnoringCase(a.word(next), "SETNAME") && next + 1 < a.arguments.size()) {
      if (!SetName(a, a.word(next + 1))) {
        return;
      }
      next += 2;
    } else {
      a.writer().Error("ERR", "syntax error in HELLO");
      return;
    }
  }
  if (a.session.caller == nullptr) {
    a.writer().Error("NOAUTH", "HELLO must be called with AUTH, or after it");
    return;
  }
  a.session.version = version;
  RespWriter writer = a.writer();
  RespMap map(writer);
  map.Add("server", "holdfast")
      .Add("version", HOLDFAST_VERSION)
      .Add("proto", version)
      .Add("id", static_cast<std::int64_t>(a.session.id))
      .Add("mode", "standalone")
      .Add("role", "master");
  map.Key("modules").Array(0);
  map.WriteTo(writer);
}

void Client(const Answering& a) {
  const std::string_view what = a.word(1);
  RespWriter writer = a.writer();
  if (EqualsIgnoringCase(what, "SETNAME") && a.arguments.size() == 3) {
    if (SetName(a, a.word(2))) {
      writer.Simple("OK");
    }
  } else if (EqualsIgnoringCase(what, "GETNAME")) {
    writer.Bulk(a.session.name);
  } else if (EqualsIgnoringCase(what, "ID")) {
    writer.Integer(static_cast<std::int64_t>(a.session.id));
  } else if (EqualsIgnoringCase(what, "SETINFO") && a.arguments.size() == 4) {
    writer.Simple("OK");  // which library it is does not matter here
  } else {
    writer.Error("ERR", "CLIENT knows SETNAME, GETNAME, ID and SETINFO here");
  }
}

void Info(const Answering& a) {
  std::string text = "# Server\r\nredis_version:";
  text += kRedisVersion;
  text += "\r\nredis_mode:standalone\r\nholdfast_version:" HOLDFAST_VERSION
          "\r\n\r\n# Persistence\r\nloading:0\r\n\r\n# Replication\r\nrole:master\r\n";
  a.writer().Bulk(text);
}

void WriteCommand(const RespVerb& verb, RespWriter& writer) {
  std::string name(verb.name);
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  writer.Array(6);
  writer.Bulk(name);
  writer.Integer(-static_cast<std::int64_t>(1 + verb.positional));  // at least so many
  writer.Array(0);
  // No keys in the sense of Redis: nothing to route by.
  writer.Integer(0);
  writer.Integer(0);
  writer.Integer(0);
}

void Command(const Answering& a) {
  RespWriter writer = a.writer();
  const std::string_view what = a.word(1);
  if (a.arguments.size() == 1) {
    writer.Array(AllVerbs().size());
    for (const RespVerb& verb : AllVerbs()) {
      WriteCommand(verb, writer);
    }
  } else if (EqualsIgnoringCase(what, "COUNT")) {
    writer.Integer(static_cast<std::int64_t>(AllVerbs().size()));
  } else if (EqualsIgnoringCase(what, "DOCS")) {
    writer.Map(0);
  } else if (EqualsIgnoringCase(what, "INFO")) {
    writer.Array(a.arguments.size() - 2);
    for (std::size_t i = 2; i < a.arguments.size(); ++i) {
      const RespVerb* verb = FindVerb(a.word(i));
      if (verb == nullptr) {
        writer.Null();
      } else {
        WriteCommand(*verb, writer);
      }
    }
  } else {
    writer.Error("ERR", "COMMAND knows COUNT, DOCS and INFO here");
  }
}

void Ping(const Answering& a) {
  if (a.arguments.size() == 1) {
    a.writer().Simple("PONG");
  } else if (a.arguments.size() == 2) {
    a.writer().Bulk(a.word(1));
  } else {
    WrongNumber(a);
  }
}

void Echo(const Answering& a) {
  if (a.arguments.size() == 2) {
    a.writer().Bulk(a.word(1));
  } else {
    WrongNumber(a);
  }
}

// There is one database.
void Select(const Answering& a) {
  if (a.arguments.size() == 2 && a.word(1) == "0") {
    a.writer().Simple("OK");
  } else {
    a.writer().Error("ERR", "DB index is out of range");
  }
}

void Quit(const Answering& a) {
  a.session.quit = true;
  a.writer().Simple("OK");
}

struct Entry {
  std::string_view name;
  bool before_auth;
  void (*answer)(const Answering&);
};

constexpr Entry kEntries[] = {
    {"PING", false, Ping},     {"HELLO", true, Hello},    {"AUTH", true, Auth},
    {"CLIENT", false, Client}, {"INFO", false, Info},     {"COMMAND", false, Command},
    {"ECHO", false, Echo},     {"SELECT", false, Select}, {"QUIT", true, Quit},
};

}  // namespace

bool AnswerSessionCommand(const server::Authenticator& authenticator,
                          const std::vector<std::string_view>& arguments, RespSession& session,
                          std::string& out) {
  for (const Entry& entry : kEntries) {
    if (EqualsIgnoringCase(arguments.front(), entry.name)) {
      const Answering answering{authenticator, arguments, session, out};
      if (session.caller == nullptr && !entry.before_auth) {
        answering.writer().Error("NOAUTH", "authentication required");
      } else {
        entry.answer(answering);
      }
      return true;
    }
  }
  return false;
}

}  // namespace holdfast::gateway
