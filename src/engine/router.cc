#include "engine/router.h"

#include <utility>

#include "base/log.h"

namespace holdfast::engine {
namespace {

void Refuse(const EngineInput& input, std::string why, EngineOutput& output) {
  if (input.kind == EngineInput::Kind::kPropose) {
    output.replies.emplace_back(
        input.front,
        Reply{input.proposal.tag, Error{ErrorCode::kUnavailable, std::move(why), {}, {}}, 0});
  }
}

}  // namespace

void Router::Take(EngineInput&& input, bool from_peer, EngineOutput& output) {
  if (const auto* query = std::get_if<core::Query>(&input.proposal.request);
      query != nullptr && std::holds_alternative<core::GetCounts>(*query)) {
    // What this node has, whoever leads: asked above all when something is wrong.
    const core::Machine& machine = member_.machine();
    output.replies.emplace_back(
        input.front,
        Reply{input.proposal.tag, machine.Answer(*query, machine.now()), machine.index()});
    return;
  }
  if (input.kind != EngineInput::Kind::kPropose && member_.role() == Role::kLeading) {
    member_.Accept(std::move(input));  // also while it refuses: nobody waits for these any more
    return;
  }
  switch (member_.RouteOf()) {
    case Route::kHere:
      member_.Accept(std::move(input));
      return;
    case Route::kLeader:
      if (from_peer) {
        Refuse(input, "this node does not lead; nothing was done", output);
      } else {
        forwarder_.Accept(std::move(input), output);
      }
      return;
    case Route::kNowhere:
      Refuse(input, member_.WhyNowhere(), output);
      return;
  }
}

void Router::Flush(EngineOutput& output) {
  if (link_ != 0 && (member_.RouteOf() != Route::kLeader || address_ != member_.leader_address())) {
    Break(output);
  }
  std::string frame = forwarder_.TakeFrame();
  if (frame.empty()) {
    return;
  }
  if (link_ == 0) {
    link_ = next_link_++;
    address_ = member_.leader_address();
    peers_.Connect(link_, address_);
  }
  peers_.Send(link_, std::move(frame));
}

void Router::Break(EngineOutput& output) {
  link_ = 0;
  peers_.Close();
  forwarder_.OnBroken(output);
}

void Router::OnFrame(std::uint64_t link, const std::string& frame, EngineOutput& output) {
  if (link == link_ && !forwarder_.OnFrame(frame, output).ok()) {
    log::Error("the leader's answers do not decode leader={}", address_);
    Break(output);
  }
}

void Router::OnBroken(std::uint64_t link, EngineOutput& output) {
  if (link == link_) {
    link_ = 0;
    forwarder_.OnBroken(output);
  }
}

}  // namespace holdfast::engine
