// Who this client is to the service's memory of request ids: a random client id, a number for each
// request with a request id, and the watermark below which every request has been answered and will
// never be asked again, so that the service can forget it. A request whose outcome stayed unknown
// holds the watermark back, since its id may be asked again, until it is resolved, too old for the
// service to remember, or one of too many. No clock; not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/id.h"
#include "base/time.h"
#include "holdfast/types.h"

namespace holdfast::client {

class ClientIdentity {
 public:
  static constexpr std::size_t kUnresolvedMax = 256;
  static constexpr Duration kUnresolvedFor =
      Seconds(600);  // the service's default memory of request ids

  explicit ClientIdentity(const Id128& client_id) : client_id_(ToHex(client_id)) {}

  // The number of a request that is about to be sent for the first time, or asked again after it
  // had stayed unresolved.
  std::uint64_t Begin(const std::string& request_id, BootTime now);
  // Is this a request of this client that stayed unresolved?
  bool IsUnresolved(const std::string& request_id) const {
    return unresolved_.contains(request_id);
  }
  // Answered for good: it will not be asked again.
  void Answered(std::uint64_t sequence);
  // Given up without an answer; the same request id may be asked again.
  void Unresolved(std::uint64_t sequence, const std::string& request_id, BootTime now);

  // What to send along with a request, taken anew for each attempt.
  ClientContext Context(std::uint64_t sequence) const;
  std::uint64_t answered_below() const { return open_.empty() ? next_ : *open_.begin(); }

 private:
  struct Kept {
    std::uint64_t sequence = 0;
    BootTime since{};
  };

  void GiveUpOld(BootTime now);

  std::string client_id_;
  std::uint64_t next_ = 1;
  std::set<std::uint64_t> open_;            // begun and not answered; unresolved ones included
  std::map<std::string, Kept> unresolved_;  // by request id, at most kUnresolvedMax
};

}  // namespace holdfast::client
