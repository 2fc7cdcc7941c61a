#include "engine/forwarder.h"

#include "base/archive.h"
#include "codec/forward_codec.h"
#include "core/validate.h"

namespace holdfast::engine {
namespace {

enum class Item : std::uint8_t { kRequest = 1, kAbandon = 2 };
constexpr bool EnumInRange(Item item) {
  return item == Item::kRequest || item == Item::kAbandon;
}

Error Damaged() {
  return Error{ErrorCode::kCorrupt, "a frame between nodes does not decode", {}, {}};
}

// A peer passes on what clients ask, nothing of an engine's own.
Status ValidateForwarded(const codec::ForwardRequest& request) {
  if (const auto* query = std::get_if<core::Query>(&request); query != nullptr) {
    return core::Validate(*query);
  }
  const auto& command = std::get<core::Command>(request);
  if (std::holds_alternative<core::Detach>(command.body) ||
      std::holds_alternative<core::EpochStart>(command.body) ||
      std::holds_alternative<core::RecoverState>(command.body)) {
    return InvalidArgument("command", "what a client may ask", "a command of the engine's own");
  }
  return core::Validate(command);
}

}  // namespace

void Forwarder::Accept(EngineInput&& input, EngineOutput& output) {
  const std::pair<FrontId, std::uint64_t> request{input.front, input.proposal.tag};
  if (input.kind == EngineInput::Kind::kPropose) {
    if (open_.size() >= kOpenMax) {
      output.replies.emplace_back(
          input.front,
          Reply{
              input.proposal.tag,
              Error{ErrorCode::kOverloaded, "too many requests on their way to the leader", {}, {}},
              0});
      return;
    }
    const std::uint64_t id = next_id_++;
    open_.emplace(id, Open{{input.front, input.proposal.tag},
                           std::holds_alternative<core::Query>(input.proposal.request)});
    by_request_.emplace(request, id);
    ArchiveWriter writer(frame_);
    ByteWriter body;
    codec::EncodeRequest(input.proposal.request, body);
    writer(Item::kRequest, id, body.Take());
  } else if (input.kind == EngineInput::Kind::kAbandon) {
    if (const auto found = by_request_.find(request); found != by_request_.end()) {
      Abandon(found->second);
    }
  } else {
    auto at = by_request_.lower_bound({input.front, 0});
    while (at != by_request_.end() && at->first.first == input.front) {
      const std::uint64_t id = at->second;
      ++at;
      Abandon(id);
    }
  }
}

void Forwarder::Abandon(std::uint64_t id) {
  const auto found = open_.find(id);
  by_request_.erase({found->second.to.front, found->second.to.tag});
  open_.erase(found);
  ArchiveWriter writer(frame_);
  writer(Item::kAbandon, id, std::string());
}

std::string Forwarder::TakeFrame() {
  for (auto at = open_.lower_bound(unsent_from_); at != open_.end(); ++at) {
    at->second.sent = true;
  }
  unsent_from_ = next_id_;
  return frame_.Take();
}

Status Forwarder::OnFrame(std::string_view frame, EngineOutput& output) {
  ByteReader in(frame);
  ArchiveReader reader(in);
  while (!in.AtEnd()) {
    std::uint64_t id = 0;
    Reply reply;
    std::string body;
    reader(id, reply.index, reply.waited, body);
    if (!in.ok()) {
      return Damaged();
    }
    ByteReader body_in(body);
    Result<codec::ForwardAnswer> answer = codec::DecodeAnswer(body_in);
    if (!answer.ok()) {
      return answer.error();
    }
    const auto found = open_.find(id);
    if (found == open_.end()) {
      continue;  // abandoned meanwhile
    }
    reply.tag = found->second.to.tag;
    reply.answer = std::move(*answer);
    output.replies.emplace_back(found->second.to.front, std::move(reply));
    by_request_.erase({found->second.to.front, found->second.to.tag});
    open_.erase(found);
  }
  return {};
}

void Forwarder::OnBroken(EngineOutput& output) {
  const Error nothing{
      ErrorCode::kUnavailable, "the leader is not reached; nothing was done", {}, {}};
  const Error unknown{ErrorCode::kUnknownOutcome,
                      "the connection to the leader broke: this may have been done or not; ask "
                      "again with the same request id",
                      {},
                      {}};
  for (const auto& [id, open] : open_) {
    output.replies.emplace_back(
        open.to.front, Reply{open.to.tag, open.sent && !open.query ? unknown : nothing, 0});
  }
  open_.clear();
  by_request_.clear();
  frame_.Clear();
  unsent_from_ = next_id_;
}

Result<Forwarded> DecodeForwarded(std::string_view frame) {
  Forwarded forwarded;
  ByteReader in(frame);
  ArchiveReader reader(in);
  while (!in.AtEnd()) {
    Item item{};
    std::uint64_t id = 0;
    std::string body;
    reader(item, id, body);
    if (!in.ok()) {
      return Damaged();
    }
    if (item == Item::kAbandon) {
      forwarded.abandoned.push_back(id);
      continue;
    }
    ByteReader body_in(body);
    Result<codec::ForwardRequest> request = codec::DecodeRequest(body_in);
    if (!request.ok()) {
      return request.error();
    }
    if (const Status valid = ValidateForwarded(*request); !valid.ok()) {
      forwarded.refused.push_back(Reply{id, valid.error(), 0});
    } else {
      forwarded.proposals.push_back(Proposal{id, std::move(*request)});
    }
  }
  return forwarded;
}

std::string EncodeReplies(const std::vector<Reply>& replies) {
  ByteWriter out;
  ArchiveWriter writer(out);
  for (const Reply& reply : replies) {
    ByteWriter body;
    codec::EncodeAnswer(reply.answer, body);
    writer(reply.tag, reply.index, reply.waited, body.Take());
  }
  return out.Take();
}

}  // namespace holdfast::engine
