#include "bench/zookeeper_wire.h"

#include <array>
#include <cstddef>
#include <utility>

#include <fmt/core.h>

namespace holdfast::bench {
namespace {

enum class Operation : std::int32_t {
  kCreate = 1,
  kDelete = 2,
  kGetChildren = 8,
  kCloseSession = -11,
};

constexpr std::size_t kLengthSize = 4;
constexpr std::size_t kHeaderSize = 16;     // xid, zxid, error
constexpr std::size_t kMaxFrame = 4 << 20;  // no answer of the recipe comes near it
constexpr std::size_t kSequenceDigits = 10;
constexpr std::size_t kPasswordSize = 16;
constexpr std::int32_t kAllPermissions = 31;
constexpr std::int32_t kAnyVersion = -1;
constexpr std::int32_t kBlockingXid = 0;
// A server that just begins to listen may take a question and never answer it.
constexpr Duration kStatusTimeout = Millis(500);
constexpr std::string_view kModeField = "Mode: ";

template <typename Integer>
void AppendInteger(std::string& out, Integer value) {
  for (int shift = 8 * (static_cast<int>(sizeof value) - 1); shift >= 0; shift -= 8) {
    out.push_back(static_cast<char>((value >> shift) & 0xff));
  }
}

void AppendString(std::string& out, std::string_view text) {
  AppendInteger(out, static_cast<std::int32_t>(text.size()));
  out += text;
}

// Reads from the front. What is not there reads as zero or empty.
class FrameReader {
 public:
  explicit FrameReader(std::string_view in) : in_(in) {}

  template <typename Integer>
  Integer Read() {
    std::uint64_t value = 0;
    if (in_.size() < sizeof(Integer)) {
      in_ = {};
      return 0;
    }
    for (std::size_t i = 0; i < sizeof(Integer); ++i) {
      value = value << 8 | static_cast<unsigned char>(in_[i]);
    }
    in_.remove_prefix(sizeof(Integer));
    return static_cast<Integer>(value);
  }
  std::string_view ReadString() {
    const auto size = Read<std::int32_t>();
    if (size < 0 || static_cast<std::size_t>(size) > in_.size()) {
      in_ = {};
      return {};
    }
    const std::string_view text = in_.substr(0, static_cast<std::size_t>(size));
    in_.remove_prefix(text.size());
    return text;
  }
  std::string_view rest() const { return in_; }

 private:
  std::string_view in_;
};

// A frame around what `write` appends.
template <typename Write>
void AppendFrame(std::string& out, Write write) {
  std::string body;
  write(body);
  AppendString(out, body);
}

template <typename Write>
void AppendRequest(std::string& out, std::int32_t xid, Operation operation, Write write) {
  AppendFrame(out, [&](std::string& body) {
    AppendInteger(body, xid);
    AppendInteger(body, static_cast<std::int32_t>(operation));
    write(body);
  });
}

// The content of a frame off the front of `in`; nothing if it is incomplete.
Result<std::optional<std::string_view>> TakeFrame(std::string_view& in) {
  if (in.size() < kLengthSize) {
    return std::optional<std::string_view>();
  }
  const auto size = FrameReader(in).Read<std::uint32_t>();
  if (size > kMaxFrame) {
    return Error{ErrorCode::kInternal,
                 fmt::format("zookeeper: a frame of {} bytes, at most {}", size, kMaxFrame),
                 {},
                 {}};
  }
  if (in.size() < kLengthSize + size) {
    return std::optional<std::string_view>();
  }
  const std::string_view frame = in.substr(kLengthSize, size);
  in.remove_prefix(kLengthSize + size);
  return std::optional(frame);
}

// The content of the next frame, with nothing before it and nothing after it.
Result<std::string> ReceiveFrame(const Socket& socket) {
  std::string in;
  for (;;) {
    if (Status received = Receive(socket, in); !received.ok()) {
      return received.error();
    }
    std::string_view rest = in;
    const Result<std::optional<std::string_view>> frame = TakeFrame(rest);
    if (!frame.ok()) {
      return frame.error();
    }
    if (frame->has_value()) {
      return std::string(**frame);
    }
  }
}

// The error of the answer.
Result<std::int32_t> Call(const Socket& socket, const std::string& request) {
  if (Status sent = SendAll(socket, request); !sent.ok()) {
    return sent.error();
  }
  const Result<std::string> frame = ReceiveFrame(socket);
  if (!frame.ok()) {
    return frame.error();
  }
  FrameReader reader(*frame);
  reader.Read<std::int32_t>();
  reader.Read<std::int64_t>();
  return reader.Read<std::int32_t>();
}

Status StatusOf(const Result<std::int32_t>& error, std::string_view what) {
  if (!error.ok()) {
    return error.error();
  }
  if (*error == zookeeper_error::kNone) {
    return {};
  }
  return Error{ErrorCode::kUnavailable,
               fmt::format("zookeeper: {}: {}", what, ZooKeeperErrorName(*error)),
               {},
               {}};
}

// The number at its end, as text: all have the same number of digits.
std::string_view SequenceOf(std::string_view name) {
  return name.size() < kSequenceDigits ? name : name.substr(name.size() - kSequenceDigits);
}

}  // namespace

void AppendCreate(std::string& out, std::int32_t xid, std::string_view path, NodeKind kind) {
  AppendRequest(out, xid, Operation::kCreate, [&](std::string& body) {
    AppendString(body, path);
    AppendString(body, "");  // its data
    AppendInteger(body, std::int32_t{1});
    AppendInteger(body, kAllPermissions);
    AppendString(body, "world");
    AppendString(body, "anyone");
    AppendInteger(body, static_cast<std::int32_t>(kind));
  });
}

void AppendGetChildren(std::string& out, std::int32_t xid, std::string_view path) {
  AppendRequest(out, xid, Operation::kGetChildren, [&](std::string& body) {
    AppendString(body, path);
    body.push_back(0);  // no watch
  });
}

void AppendDelete(std::string& out, std::int32_t xid, std::string_view path) {
  AppendRequest(out, xid, Operation::kDelete, [&](std::string& body) {
    AppendString(body, path);
    AppendInteger(body, kAnyVersion);
  });
}

std::string ZooKeeperErrorName(std::int32_t error) {
  switch (error) {
    case zookeeper_error::kNone:
      return "NONE";
    case -4:
      return "CONNECTION_LOSS";
    case -7:
      return "OPERATION_TIMEOUT";
    case zookeeper_error::kNoNode:
      return "NO_NODE";
    case -102:
      return "NO_AUTH";
    case zookeeper_error::kNodeExists:
      return "NODE_EXISTS";
    case -111:
      return "NOT_EMPTY";
    case -112:
      return "SESSION_EXPIRED";
    case -118:
      return "SESSION_MOVED";
    case -127:
      return "THROTTLED";
    default:
      return fmt::format("ERROR{}", error);
  }
}

Result<std::optional<ZooKeeperReply>> TakeZooKeeperReply(std::string_view& in) {
  const Result<std::optional<std::string_view>> frame = TakeFrame(in);
  if (!frame.ok()) {
    return frame.error();
  }
  if (!frame->has_value()) {
    return std::optional<ZooKeeperReply>();
  }
  if ((*frame)->size() < kHeaderSize) {
    return Error{ErrorCode::kInternal, "zookeeper: a reply without a whole header", {}, {}};
  }
  FrameReader reader(**frame);
  ZooKeeperReply reply;
  reply.xid = reader.Read<std::int32_t>();
  reader.Read<std::int64_t>();  // zxid
  reply.error = reader.Read<std::int32_t>();
  reply.body = reader.rest();
  return std::optional(reply);
}

std::string_view CreatedPath(std::string_view body) {
  return FrameReader(body).ReadString();
}

bool IsLowestChild(std::string_view body, std::string_view path) {
  FrameReader reader(body);
  const std::string_view own = SequenceOf(path);
  bool found = false;
  for (auto left = reader.Read<std::int32_t>(); left > 0 && !reader.rest().empty(); --left) {
    const std::string_view sequence = SequenceOf(reader.ReadString());
    if (sequence < own) {
      return false;
    }
    found = found || sequence == own;
  }
  return found;
}

Result<ZooKeeperSession> ZooKeeperSession::Open(int port, Duration timeout) {
  Result<Socket> socket = ConnectTo(port);
  if (!socket.ok()) {
    return socket.error();
  }
  std::string request;
  AppendFrame(request, [&](std::string& body) {
    AppendInteger(body, std::int32_t{0});  // version of the protocol
    AppendInteger(body, std::int64_t{0});  // the last change that was seen
    AppendInteger(body, static_cast<std::int32_t>(ToMillis(timeout)));
    AppendInteger(body, std::int64_t{0});  // a new session
    AppendString(body, std::string(kPasswordSize, '\0'));
    body.push_back(0);  // not read-only
  });
  if (Status sent = SendAll(*socket, request); !sent.ok()) {
    return sent.error();
  }
  const Result<std::string> frame = ReceiveFrame(*socket);
  if (!frame.ok()) {
    return frame.error();
  }
  FrameReader reader(*frame);
  reader.Read<std::int32_t>();  // version of the protocol
  reader.Read<std::int32_t>();  // timeout
  const auto id = reader.Read<std::int64_t>();
  if (id == 0) {
    return Error{ErrorCode::kUnavailable, "zookeeper: the server refused a session", {}, {}};
  }
  return ZooKeeperSession(std::move(*socket), id);
}

Status ZooKeeperSession::EnsureNode(std::string_view path) {
  std::string request;
  AppendCreate(request, kBlockingXid, path, NodeKind::kPersistent);
  const Result<std::int32_t> error = Call(socket_, request);
  return error.ok() && *error == zookeeper_error::kNodeExists ? Status()
                                                              : StatusOf(error, "create");
}

Status ZooKeeperSession::Delete(std::string_view path) {
  std::string request;
  AppendDelete(request, kBlockingXid, path);
  return StatusOf(Call(socket_, request), "delete");
}

Status CloseZooKeeperSession(const Socket& socket) {
  std::string request;
  AppendRequest(request, kBlockingXid, Operation::kCloseSession, [](std::string&) {});
  return StatusOf(Call(socket, request), "close");
}

std::string ZooKeeperStatus(int port) {
  const Result<Socket> socket = ConnectTo(port, kStatusTimeout);
  std::string answer;
  if (socket.ok() && SendAll(*socket, "srvr").ok()) {
    while (Receive(*socket, answer).ok()) {
    }
  }
  return answer;
}

std::string ZooKeeperMode(int port) {
  const std::string answer = ZooKeeperStatus(port);
  const std::size_t mode = answer.find(kModeField);
  if (mode == std::string::npos) {
    return "";
  }
  const std::size_t begin = mode + kModeField.size();
  return answer.substr(begin, answer.find('\n', begin) - begin);
}

}  // namespace holdfast::bench
