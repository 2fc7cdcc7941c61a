// Watches and observers as server-sent events.
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "holdfast/v1/elections.pb.h"
#include "holdfast/v1/locks.pb.h"
#include "server/fields.h"
#include "server/http_routes.h"

namespace holdfast::server {
namespace {

// Events are gathered up to this size before they are sent.
constexpr std::size_t kPieceBytes = std::size_t{64} * 1024;

void AppendEvent(std::string& text, const char* type, const google::protobuf::Message& message,
                 std::uint64_t id) {
  text += fmt::format("event: {}\ndata: {}\n", type, MessageToJson(message));
  // A client that comes back with an id gets what follows it.
  text += id != 0 ? fmt::format("id: {}\n\n", id) : "\n";
}

class Subscription {
 public:
  Subscription(Loop& loop, std::function<void()> wake) : loop_(loop), wake_(std::move(wake)) {}
  ~Subscription() {
    if (subscription_.id != 0) {
      loop_.runner().watches().Unsubscribe(subscription_.id);
    }
  }
  Subscription(const Subscription&) = delete;
  Subscription& operator=(const Subscription&) = delete;

  Status Begin(const engine::WatchFilter& filter, std::uint64_t after_index) {
    subscription_ = loop_.runner().watches().Subscribe(filter, after_index, wake_);
    return subscription_.id != 0 ? Status()
                                 : Error{ErrorCode::kOverloaded, "too many watches", "", ""};
  }
  bool begun() const { return subscription_.id != 0; }
  std::uint64_t started_at() const { return subscription_.started_at; }
  // Everything that there is: so the last item is also the last one of its log position.
  std::vector<engine::WatchItem> TakeAll() {
    return loop_.runner().watches().Take(subscription_.id, engine::WatchHub::kBufferMax + 1);
  }

 private:
  Loop& loop_;
  const std::function<void()> wake_;
  engine::WatchHub::Subscription subscription_;
};

std::uint64_t IndexOf(const engine::WatchItem& item) {
  return std::visit([](const auto& any) { return any.index; }, item);
}

class WatchFeed final : public HttpFeed {
 public:
  WatchFeed(Loop& loop, std::function<void()> wake) : subscription_(loop, std::move(wake)) {}

  Result<EngineRequest> Read(const std::string& json, const std::string& last_event_id,
                             const std::string& /*principal*/) override {
    v1::WatchRequest request;
    const Status parsed = JsonToMessage(json, request);
    if (!parsed.ok()) {
      return parsed.error();
    }
    auto start = ReadWatch(request);
    if (!start.ok()) {
      return start.error();
    }
    start_ = std::move(*start);
    if (!last_event_id.empty()) {
      const char* end = last_event_id.data() + last_event_id.size();
      if (std::from_chars(last_event_id.data(), end, start_.after_index).ptr != end) {
        return InvalidArgument("last-event-id", "an id of an event of this stream",
                               "Last-Event-ID is not an id of this service");
      }
    }
    return EngineRequest(core::Query(core::GetNamespace{start_.filter.name_space}));
  }

  // The answer whether the namespace exists.
  Status OnReply(engine::Reply& reply) override {
    if (const auto* error = std::get_if<Error>(&reply.answer)) {
      return *error;
    }
    const auto* view = std::get_if<core::View>(&reply.answer);
    const auto* found = view == nullptr ? nullptr : std::get_if<core::NamespaceView>(view);
    if (found == nullptr || found->result != core::NamespaceResult::kOk) {
      return NoNamespace(start_.filter.name_space);
    }
    return subscription_.Begin(start_.filter, start_.after_index);
  }

  void OnWake() override {}
  std::optional<EngineRequest> Ask() override { return std::nullopt; }

  std::string Take() override {
    std::string text;
    if (!subscription_.begun()) {
      return text;
    }
    if (!started_) {
      started_ = true;
      v1::WatchResponse response;
      response.set_started_at(subscription_.started_at());
      AppendEvent(text, "started", response, subscription_.started_at());
    }
    while (text.size() < kPieceBytes) {
      if (next_ == items_.size()) {
        items_ = subscription_.TakeAll();
        next_ = 0;
      }
      if (items_.empty()) {
        break;
      }
      const engine::WatchItem& item = items_[next_++];
      v1::WatchResponse response;
      WriteWatchItem(item, response);
      // One log position may hold several events, and an id says that all of it was seen.
      const bool last = next_ == items_.size() || IndexOf(items_[next_]) != IndexOf(item);
      AppendEvent(text, response.has_gap() ? "gap" : "change", response, last ? IndexOf(item) : 0);
    }
    return text;
  }

 private:
  Subscription subscription_;
  WatchStart start_;
  bool started_ = false;
  std::vector<engine::WatchItem> items_;  // taken from the hub
  std::size_t next_ = 0;                  // of items_, to be sent
};

// Reads the leader anew whenever something happened to the election, and sends it if it is another
// one.
class ObserveFeed final : public HttpFeed {
 public:
  ObserveFeed(Loop& loop, std::function<void()> wake) : subscription_(loop, std::move(wake)) {}

  // The current leader always comes first, so a client that comes back needs no position.
  Result<EngineRequest> Read(const std::string& json, const std::string& /*last_event_id*/,
                             const std::string& principal) override {
    principal_ = principal;
    const Status parsed = JsonToMessage(json, request_);
    if (!parsed.ok()) {
      return parsed.error();
    }
    auto query = kLeader.read(request_, principal_);
    if (query.ok()) {
      // Before the first look, so that no change is missed.
      const Status begun =
          subscription_.Begin({request_.namespace_(), request_.resource(), true}, 0);
      if (!begun.ok()) {
        return begun.error();
      }
      asking_ = true;
    }
    return query;
  }

  Status OnReply(engine::Reply& reply) override {
    asking_ = false;
    return kLeader.write(request_, reply, latest_.emplace());
  }

  void OnWake() override {
    while (subscription_.TakeAll().size() > engine::WatchHub::kBufferMax) {
    }
    changed_ = true;
  }

  std::optional<EngineRequest> Ask() override {
    if (!changed_ || asking_) {
      return std::nullopt;
    }
    auto query = kLeader.read(request_, principal_);
    changed_ = false;
    asking_ = true;
    return std::move(*query);
  }

  std::string Take() override {
    std::string text;
    if (latest_.has_value()) {
      const v1::LeaderResponse leader = std::move(*latest_);
      latest_.reset();
      const bool same = sent_.has_value() && sent_->vacant() == leader.vacant() &&
                        sent_->fencing_token() == leader.fencing_token() &&
                        sent_->value() == leader.value();
      if (!same) {
        sent_ = leader;
        AppendEvent(text, "leader", leader, leader.index());
      }
    }
    return text;
  }

 private:
  Subscription subscription_;
  std::string principal_;
  v1::LeaderRequest request_;
  bool asking_ = false;                       // a query is in the engine
  bool changed_ = false;                      // since it was asked
  std::optional<v1::LeaderResponse> latest_;  // read and not yet compared
  std::optional<v1::LeaderResponse> sent_;
};

}  // namespace

std::unique_ptr<HttpFeed> MakeWatchFeed(Loop& loop, std::function<void()> wake) {
  return std::make_unique<WatchFeed>(loop, std::move(wake));
}

std::unique_ptr<HttpFeed> MakeObserveFeed(Loop& loop, std::function<void()> wake) {
  return std::make_unique<ObserveFeed>(loop, std::move(wake));
}

}  // namespace holdfast::server
