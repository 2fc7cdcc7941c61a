// Where a request goes on a replicated node: to its own member while that leads, else over a link
// to the leader. The decisions of a runner, without its threads; not thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "engine/forwarder.h"
#include "engine/member.h"
#include "engine/ports.h"

namespace holdfast::engine {

class Router {
 public:
  // Both outlive the router.
  Router(Member& member, PeerPort& peers) : member_(member), peers_(peers) {}

  // `from_peer`: it was passed on once already, and is not passed on again.
  void Take(EngineInput&& input, bool from_peer, EngineOutput& output);
  // After every turn: sends what was taken, and ends a link that leads nowhere any more.
  void Flush(EngineOutput& output);

  // From the link; what is of an earlier one is ignored.
  void OnFrame(std::uint64_t link, const std::string& frame, EngineOutput& output);
  void OnBroken(std::uint64_t link, EngineOutput& output);

 private:
  void Break(EngineOutput& output);

  Member& member_;
  PeerPort& peers_;
  Forwarder forwarder_;
  std::uint64_t link_ = 0;  // 0: none
  std::uint64_t next_link_ = 1;
  std::string address_;
};

}  // namespace holdfast::engine
