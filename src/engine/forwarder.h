// How requests travel from a standby to the leader: any node answers any client. This is the
// bookkeeping of both ends without the link between them, which carries frames in order or breaks.
//
// A request whose link broke after it was sent is answered as unknown, and never sent again: only
// its client may ask again, with the same request id. A query has no effect and may simply fail.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "engine/engine.h"
#include "engine/front.h"
#include "holdfast/result.h"

namespace holdfast::engine {

// The standby's end. Not thread-safe.
class Forwarder {
 public:
  static constexpr std::size_t kOpenMax = 100'000;  // requests without an answer

  // Everything that fronts submit: requests, and that nobody waits for them any more. Over the
  // limit: answered with kOverloaded.
  void Accept(EngineInput&& input, EngineOutput& output);
  // What was accepted since the last call, for the link to carry; empty when there is nothing.
  std::string TakeFrame();
  // kCorrupt: the link has to be broken off.
  Status OnFrame(std::string_view frame, EngineOutput& output);
  // The link is gone: answers everything that was sent or not.
  void OnBroken(EngineOutput& output);

  std::size_t open() const { return open_.size(); }

 private:
  struct Open {
    ReplyTo to;
    bool query = false;
    bool sent = false;
  };
  void Abandon(std::uint64_t id);

  std::map<std::uint64_t, Open> open_;
  std::map<std::pair<FrontId, std::uint64_t>, std::uint64_t> by_request_;
  std::uint64_t next_id_ = 1;
  ByteWriter frame_;
  std::uint64_t unsent_from_ = 1;  // ids from here on are in frame_
};

// The leader's end.
struct Forwarded {
  std::vector<Proposal> proposals;  // tagged with the sender's ids
  std::vector<std::uint64_t> abandoned;
  std::vector<Reply> refused;  // not valid: to be answered at once
};
// kCorrupt: the link has to be broken off.
Result<Forwarded> DecodeForwarded(std::string_view frame);
std::string EncodeReplies(const std::vector<Reply>& replies);

}  // namespace holdfast::engine
