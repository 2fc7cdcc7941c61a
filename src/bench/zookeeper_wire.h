// ZooKeeper's wire protocol, as far as its lock recipe needs it: length-prefixed frames of
// big-endian integers and length-prefixed strings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"
#include "bench/load_loop.h"
#include "holdfast/result.h"

namespace holdfast::bench {

enum class NodeKind : std::int32_t { kPersistent = 0, kEphemeralSequential = 3 };

// Requests. The server answers those of one session in their order, each with its xid.
void AppendCreate(std::string& out, std::int32_t xid, std::string_view path, NodeKind kind);
void AppendGetChildren(std::string& out, std::int32_t xid, std::string_view path);
void AppendDelete(std::string& out, std::int32_t xid, std::string_view path);

namespace zookeeper_error {
inline constexpr std::int32_t kNone = 0;
inline constexpr std::int32_t kNoNode = -101;
inline constexpr std::int32_t kNodeExists = -110;
}  // namespace zookeeper_error
// Such as NO_NODE, or its number.
std::string ZooKeeperErrorName(std::int32_t error);

struct ZooKeeperReply {
  std::int32_t xid = 0;
  std::int32_t error = zookeeper_error::kNone;
  std::string_view body;
};

// Takes a reply off the front of `in`; nothing if it is incomplete. kInternal if it is no frame of
// this protocol.
Result<std::optional<ZooKeeperReply>> TakeZooKeeperReply(std::string_view& in);

// Of the reply to a create. "" if it is none.
std::string_view CreatedPath(std::string_view body);
// Of the reply to getChildren: whether no child has a lower sequence number than `path`, which has
// to be among them.
bool IsLowestChild(std::string_view body, std::string_view path);

// A session whose calls block.
class ZooKeeperSession {
 public:
  // It ends by itself after `timeout` without a request.
  static Result<ZooKeeperSession> Open(int port, Duration timeout);

  std::int64_t id() const { return id_; }
  // Also if it is there already.
  Status EnsureNode(std::string_view path);
  Status Delete(std::string_view path);
  // To speak the protocol on it without blocking from here on.
  Socket Release() { return std::move(socket_); }

 private:
  ZooKeeperSession(Socket socket, std::int64_t id) : socket_(std::move(socket)), id_(id) {}

  Socket socket_;
  std::int64_t id_;
};

// Ends the session of this connection, with the ephemeral nodes that it still has; blocks. Nothing
// may be outstanding on it.
Status CloseZooKeeperSession(const Socket& socket);

// What the server says about itself, as lines `Name: value`; "" if it says nothing.
std::string ZooKeeperStatus(int port);
// What the server says that it is: leader, follower or standalone; "" if it does not serve.
std::string ZooKeeperMode(int port);

}  // namespace holdfast::bench
