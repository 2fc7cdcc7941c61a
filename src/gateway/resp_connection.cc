#include "gateway/resp_connection.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

#include "gateway/resp_arguments.h"
#include "gateway/resp_parser.h"
#include "gateway/resp_session.h"
#include "gateway/resp_verbs.h"

namespace holdfast::gateway {
namespace {

using boost::asio::ip::tcp;
using ErrorOf = boost::system::error_code;
using server::Completion;

constexpr std::size_t kFirstInputBytes = std::size_t{4} << 10U;
constexpr std::size_t kReadAheadBytes = std::size_t{16} << 10U;
// A client that sends more without reading answers is not read from.
constexpr std::size_t kUnansweredMax = 1024;
constexpr std::size_t kUnsentMax = std::size_t{1} << 20U;
constexpr std::size_t kAsyncMax = 16'384;
constexpr std::size_t kWatchesMax = 64;
// Cookies: answers in order, outcomes of ASYNC calls, leaders that are observed.
constexpr std::uint32_t kAsyncCookie = 1U << 31U;
constexpr std::uint32_t kLeaderCookie = 1U << 30U;
constexpr std::uint32_t kCookieMask = kLeaderCookie - 1;

class RespConnection final : public server::Call {
 public:
  RespConnection(server::Loop& loop, tcp::socket socket, std::uint64_t id)
      : Call(loop), socket_(std::move(socket)) {
    session_.id = id;
    input_.resize(kFirstInputBytes);
    if (loop.authenticator().IsOpen()) {
      session_.caller = *loop.authenticator().Authenticate({});
    }
    loop.AddWaiting(*this);
    wake_ = loop.AddWakeable(*this);
    Read();
  }

  void OnReply(std::uint32_t cookie, engine::Reply& reply) override;
  void OnTurnEnd() override { Send(); }
  void OnStop() override;
  void OnClose() override { Drop(); }
  void OnWake() override;

 private:
  // An answer that is owed, in the order of the commands.
  struct Slot {
    const RespVerb* verb = nullptr;
    std::string request_id;
    std::uint64_t tag = 0;  // in the engine; 0: answered
    bool waits = false;
    int version = 2;
    std::unique_ptr<WatchCall> watch;  // of WATCH and OBSERVE: subscribe when the namespace exists
    bool observe = false;
    std::string reply;
  };
  struct AsyncCall {
    const RespVerb* verb = nullptr;
    std::string request_id;
    std::uint64_t tag = 0;
  };
  struct Watching {
    engine::WatchId hub = 0;
    bool observe = false;
    engine::WatchFilter filter;
    bool asking = false;   // observe: a query is in the engine
    bool changed = false;  // observe: since it was asked
    std::string sent;      // observe: the leader as it was last pushed
  };
  using Watches = std::map<std::uint32_t, Watching>;

  ~RespConnection() override {
    for (const auto& [id, watch] : watches_) {
      Unsubscribe(watch);
    }
    loop().Leave();
  }

  void Read();
  void OnRead(bool ok);
  void OnWritten(bool ok);
  void TakeCommands();
  void Execute(const std::vector<std::string_view>& arguments);
  bool ExecuteWatch(const std::vector<std::string_view>& arguments);
  void Propose(RespRequest&& call);
  void ProposeWatch(WatchCall&& watch, bool observe);
  void Unwatch(const std::vector<std::string_view>& arguments);
  void Subscribe(Slot& slot, engine::Reply& reply, RespWriter& writer);
  void Unsubscribe(const Watching& watch) {
    loop().runner().watches().Unsubscribe(watch.hub);
    --loop().watches();
  }
  void PumpWatch(std::uint32_t id, Watching& watch);
  void AskLeader(std::uint32_t id, Watching& watch);
  void PushLeader(std::uint32_t id, engine::Reply& reply);
  void PushOutcome(std::uint32_t cookie, engine::Reply& reply);

  Slot& NewSlot() {
    slots_.emplace_back();
    slots_.back().version = session_.version;
    return slots_.back();
  }
  std::uint32_t CookieOfLast() const {
    return (first_slot_ + static_cast<std::uint32_t>(slots_.size()) - 1) & kCookieMask;
  }
  // Writes an answer that needs no engine, in its turn.
  template <typename Write>
  void Answer(const Write& write);
  void AnswerError(const Error& error) {
    Answer([&](RespWriter& writer) { WriteError(error, writer); });
  }
  void FlushSlots();
  void Send();
  void Drop();
  std::size_t unsent() const { return out_.size() + sending_.size(); }
  bool MayRead() const {
    return !closing_ && slots_.size() < kUnansweredMax && unsent() < kUnsentMax;
  }

  tcp::socket socket_;
  RespSession session_;
  RespParser parser_;
  std::string input_;            // its size is the room for reading
  std::size_t input_begin_ = 0;  // not parsed yet: from here
  std::size_t input_end_ = 0;    // to here
  std::size_t received_ = 0;     // by the last read
  std::deque<Slot> slots_;
  std::uint32_t first_slot_ = 0;  // the cookie of slots_.front()
  std::map<std::uint32_t, AsyncCall> async_;
  std::uint32_t next_async_ = 0;
  Watches watches_;
  std::uint32_t next_watch_ = 1;
  std::function<void()> wake_;
  std::string out_;      // answered, to be sent
  std::string sending_;  // what a write in flight holds
  bool reading_ = false;
  bool writing_ = false;
  bool closing_ = false;  // nothing more is read; closed when everything is answered and sent
  bool dropped_ = false;
  Step<RespConnection> read_step_{*this, &RespConnection::OnRead};
  Step<RespConnection> written_step_{*this, &RespConnection::OnWritten};
};

void RespConnection::Read() {
  if (reading_ || dropped_ || !MayRead()) {
    return;
  }
  if (input_begin_ > 0) {
    std::memmove(input_.data(), input_.data() + input_begin_, input_end_ - input_begin_);
    input_end_ -= input_begin_;
    input_begin_ = 0;
  }
  if (input_.size() - input_end_ < kFirstInputBytes / 2) {
    input_.resize(std::min(input_.size() + std::max(input_.size(), kReadAheadBytes),
                           RespParser::kCommandBytesMax + kReadAheadBytes));
  }
  reading_ = true;
  auto* done = static_cast<Completion*>(Expect(read_step_));
  socket_.async_read_some(
      boost::asio::buffer(input_.data() + input_end_, input_.size() - input_end_),
      [this, done](const ErrorOf& error, std::size_t size) {
        received_ = size;
        done->OnCompletion(!error);
      });
}

void RespConnection::OnRead(bool ok) {
  reading_ = false;
  if (!ok || dropped_) {
    Drop();  // the client has gone, or closed its side: it reads no answers
    return;
  }
  input_end_ += received_;
  TakeCommands();
  loop().FlushLater(*this);
  Read();
}

void RespConnection::TakeCommands() {
  while (MayRead()) {
    switch (parser_.Parse({input_.data() + input_begin_, input_end_ - input_begin_})) {
      case RespParser::Result::kNeedMore:
        return;
      case RespParser::Result::kBroken:
        Answer([&](RespWriter& writer) {
          writer.Error("ERR", std::string("Protocol error: ") + parser_.error());
        });
        closing_ = true;
        return;
      case RespParser::Result::kCommand:
        input_begin_ += parser_.consumed();
        if (!parser_.arguments().empty()) {
          Execute(parser_.arguments());
        }
        break;
    }
  }
}

void RespConnection::Execute(const std::vector<std::string_view>& arguments) {
  const RespVerb* verb = FindVerb(arguments.front());
  if (std::string answer; verb == nullptr && AnswerSessionCommand(loop().authenticator(), arguments,
                                                                  session_, answer)) {
    Answer([&](RespWriter& writer) { writer.Raw(answer); });
    closing_ = closing_ || session_.quit;
    return;
  }
  if (session_.caller == nullptr) {
    Answer([](RespWriter& writer) { writer.Error("NOAUTH", "authentication required"); });
    return;
  }
  if (verb == nullptr) {
    if (!ExecuteWatch(arguments)) {
      Answer([&](RespWriter& writer) {
        writer.Error("ERR",
                     "unknown command '" + std::string(arguments.front().substr(0, 64)) + "'");
      });
    }
    return;
  }
  const std::vector<std::string_view> rest(arguments.begin() + 1, arguments.end());
  auto call = ReadCall(*verb, rest, session_.caller->principal);
  if (!call.ok()) {
    return AnswerError(call.error());
  }
  if (const Status may = loop().Permit(*session_.caller, verb->access, verb->name, call->request);
      !may.ok()) {
    return AnswerError(may.error());
  }
  Propose(std::move(*call));
}

void RespConnection::Propose(RespRequest&& call) {
  if (!call.async) {
    Slot& slot = NewSlot();
    slot.verb = call.verb;
    slot.request_id = std::move(call.request_id);
    slot.waits = call.waits;
    slot.tag = loop().Propose(*this, CookieOfLast(), std::move(call.request));
    return;
  }
  if (session_.version != 3) {
    return AnswerError(InvalidArgument("ASYNC", "version 3 of the protocol",
                                       "ASYNC needs pushes: send HELLO 3 first"));
  }
  if (async_.size() >= kAsyncMax) {
    return AnswerError({ErrorCode::kOverloaded,
                        "too many ASYNC calls on this connection, the limit is 16384", "", ""});
  }
  Answer([&](RespWriter& writer) {
    RespMap(writer).Add("outcome", "PENDING").Add("request_id", call.request_id).WriteTo(writer);
  });
  const std::uint32_t number = next_async_++ & kCookieMask;
  AsyncCall& waiting = async_[number];
  waiting.verb = call.verb;
  waiting.request_id = std::move(call.request_id);
  waiting.tag = loop().Propose(*this, number | kAsyncCookie, std::move(call.request));
}

template <typename Write>
void RespConnection::Answer(const Write& write) {
  if (slots_.empty()) {
    RespWriter writer(out_, session_.version);
    write(writer);
  } else {
    Slot& slot = NewSlot();
    RespWriter writer(slot.reply, slot.version);
    write(writer);
  }
}

void RespConnection::OnReply(std::uint32_t cookie, engine::Reply& reply) {
  if ((cookie & kAsyncCookie) != 0) {
    PushOutcome(cookie & kCookieMask, reply);
  } else if ((cookie & kLeaderCookie) != 0) {
    PushLeader(cookie & kCookieMask, reply);
  } else {
    Slot& slot = slots_[(cookie - first_slot_) & kCookieMask];
    slot.tag = 0;
    RespWriter writer(slot.reply, slot.version);
    if (slot.watch != nullptr) {
      Subscribe(slot, reply, writer);
    } else {
      WriteReply(*slot.verb, slot.request_id, reply, writer);
    }
    FlushSlots();
  }
  loop().FlushLater(*this);
}

void RespConnection::FlushSlots() {
  while (!slots_.empty() && slots_.front().tag == 0) {
    out_ += slots_.front().reply;
    slots_.pop_front();
    first_slot_ = (first_slot_ + 1) & kCookieMask;
  }
}

void RespConnection::PushOutcome(std::uint32_t cookie, engine::Reply& reply) {
  const auto found = async_.find(cookie);
  RespWriter writer(out_, 3);
  writer.Push(3);
  writer.Bulk("holdfast.outcome");
  writer.Bulk(found->second.request_id);
  WriteReply(*found->second.verb, found->second.request_id, reply, writer);
  async_.erase(found);
}

// HOLDFAST.WATCH and HOLDFAST.OBSERVE subscribe, HOLDFAST.UNWATCH ends either.
bool RespConnection::ExecuteWatch(const std::vector<std::string_view>& arguments) {
  const bool observe = EqualsIgnoringCase(arguments.front(), "HOLDFAST.OBSERVE");
  if (EqualsIgnoringCase(arguments.front(), "HOLDFAST.UNWATCH")) {
    Unwatch(arguments);
    return true;
  }
  if (!observe && !EqualsIgnoringCase(arguments.front(), "HOLDFAST.WATCH")) {
    return false;
  }
  std::vector<std::string_view> rest(arguments.begin() + 1, arguments.end());
  if (observe) {
    rest.insert(rest.begin(), "EXACT");
  }
  auto watch = ReadWatchCall(rest);
  if (!watch.ok()) {
    AnswerError(watch.error());
  } else if (session_.version != 3) {
    AnswerError(InvalidArgument("version", "version 3 of the protocol",
                                "watches need pushes: send HELLO 3 first"));
  } else if (watches_.size() >= kWatchesMax) {
    AnswerError(
        {ErrorCode::kOverloaded, "too many watches on this connection, the limit is 64", "", ""});
  } else {
    ProposeWatch(std::move(*watch), observe);
  }
  return true;
}

// First whether the namespace exists and may be used; the subscription follows.
void RespConnection::ProposeWatch(WatchCall&& watch, bool observe) {
  EngineRequest exists = core::Query(core::GetNamespace{watch.filter.name_space});
  if (const Status may =
          loop().Permit(*session_.caller, server::Access::kUser, "HOLDFAST.WATCH", exists);
      !may.ok()) {
    return AnswerError(may.error());
  }
  Slot& slot = NewSlot();
  slot.watch = std::make_unique<WatchCall>(std::move(watch));
  slot.observe = observe;
  slot.tag = loop().Propose(*this, CookieOfLast(), std::move(exists));
}

void RespConnection::Subscribe(Slot& slot, engine::Reply& reply, RespWriter& writer) {
  if (const auto* error = std::get_if<Error>(&reply.answer)) {
    return WriteError(*error, writer);
  }
  const auto* view = std::get_if<core::View>(&reply.answer);
  const auto* found = view == nullptr ? nullptr : std::get_if<core::NamespaceView>(view);
  if (found == nullptr || found->result != core::NamespaceResult::kOk) {
    return WriteError({ErrorCode::kNotFound, "there is no such namespace", "namespace", ""},
                      writer);
  }
  const auto subscription =
      loop().runner().watches().Subscribe(slot.watch->filter, slot.watch->after_index, wake_);
  if (subscription.id == 0) {
    return WriteError({ErrorCode::kOverloaded, "too many watches", "", ""}, writer);
  }
  ++loop().watches();
  const std::uint32_t id = next_watch_++ & kCookieMask;
  Watching& watch = watches_[id];
  watch.hub = subscription.id;
  watch.observe = slot.observe;
  watch.filter = slot.watch->filter;
  RespMap(writer)
      .Add("watch", id)
      .Add("started_at", static_cast<std::int64_t>(subscription.started_at))
      .WriteTo(writer);
  if (slot.observe) {
    AskLeader(id, watch);
  } else {
    wake_();  // what it missed since AFTER is there already
  }
}

void RespConnection::Unwatch(const std::vector<std::string_view>& arguments) {
  const std::vector<std::string_view> rest(arguments.begin() + 1, arguments.end());
  ArgumentReader reader(rest);
  const std::uint64_t id = reader.Number("watch");
  reader.ExpectEnd();
  if (!reader.status().ok()) {
    return AnswerError(reader.status().error());
  }
  const auto found =
      watches_.find(static_cast<std::uint32_t>(std::min<std::uint64_t>(id, UINT32_MAX)));
  if (found == watches_.end()) {
    return AnswerError(
        {ErrorCode::kNotFound, "there is no such watch on this connection", "watch", ""});
  }
  Unsubscribe(found->second);
  watches_.erase(found);
  Answer([](RespWriter& writer) { writer.Simple("OK"); });
}

void RespConnection::OnWake() {
  for (auto& [id, watch] : watches_) {
    PumpWatch(id, watch);
  }
  loop().FlushLater(*this);
}

// A client that does not read keeps its events in the hub, whose buffer has a bound.
void RespConnection::PumpWatch(std::uint32_t id, Watching& watch) {
  constexpr std::size_t kTakenAtOnce = 64;
  if (dropped_ || writing_ || out_.size() >= kReadAheadBytes) {
    return;
  }
  const auto items = loop().runner().watches().Take(watch.hub, kTakenAtOnce);
  if (watch.observe && !items.empty()) {
    watch.changed = true;
    AskLeader(id, watch);
  } else if (!watch.observe) {
    RespWriter writer(out_, 3);
    for (const engine::WatchItem& item : items) {
      WriteWatchItem(id, item, writer);
    }
  }
  if (items.size() == kTakenAtOnce) {
    wake_();
  }
}

void RespConnection::AskLeader(std::uint32_t id, Watching& watch) {
  if (watch.asking || dropped_) {
    return;
  }
  watch.asking = true;
  watch.changed = false;
  loop().Propose(*this, id | kLeaderCookie,
                 core::Query(core::Leader{watch.filter.name_space, watch.filter.prefix}));
}

// Pushes the leader if it is another one than the last.
void RespConnection::PushLeader(std::uint32_t id, engine::Reply& reply) {
  const auto found = watches_.find(id);
  if (found == watches_.end()) {
    return;
  }
  Watching& watch = found->second;
  watch.asking = false;
  const auto* view = std::get_if<core::View>(&reply.answer);
  const auto* leader = view == nullptr ? nullptr : std::get_if<core::LeaderView>(view);
  if (leader != nullptr) {
    std::string now = leader->vacant ? "-" : std::to_string(leader->token) + " " + leader->value;
    if (now != watch.sent) {
      watch.sent = std::move(now);
      RespWriter writer(out_, 3);
      writer.Push(3);
      writer.Bulk("holdfast.leader");
      writer.Integer(id);
      WriteReply(*FindVerb("HOLDFAST.LEADER"), {}, reply, writer);
    }
  }
  if (watch.changed) {
    AskLeader(id, watch);
  }
}

void RespConnection::Send() {
  if (dropped_ || writing_) {
    return;
  }
  if (!out_.empty()) {
    ErrorOf error;
    const std::size_t sent = socket_.write_some(boost::asio::buffer(out_), error);
    if (error && error != boost::asio::error::would_block) {
      return Drop();
    }
    if (sent == out_.size()) {
      out_.clear();
    } else {
      sending_ = std::exchange(out_, {}).substr(sent);
      writing_ = true;
      auto* done = static_cast<Completion*>(Expect(written_step_));
      boost::asio::async_write(
          socket_, boost::asio::buffer(sending_),
          [done](const ErrorOf& failed, std::size_t) { done->OnCompletion(!failed); });
      return;
    }
  }
  if (closing_ && slots_.empty()) {
    Drop();
  } else if (!reading_ && MayRead()) {
    TakeCommands();  // it was held back by its answers
    loop().FlushLater(*this);
    Read();
  }
}

void RespConnection::OnWritten(bool ok) {
  writing_ = false;
  sending_.clear();
  if (!ok || dropped_) {
    return Drop();
  }
  if (!watches_.empty()) {
    wake_();  // their events waited for the write
  }
  loop().FlushLater(*this);
}

void RespConnection::OnStop() {
  const Error stopping{ErrorCode::kUnavailable,
                       "the server is stopping; ask again with the same request id", "", ""};
  for (Slot& slot : slots_) {
    if (slot.tag != 0 && slot.waits) {
      loop().Abandon(std::exchange(slot.tag, 0));
      RespWriter writer(slot.reply, slot.version);
      WriteError(stopping, writer);
    }
  }
  FlushSlots();
  closing_ = true;
  loop().FlushLater(*this);
}

// The end of the connection, whoever wants it: waiters are detached, and what is owed comes back as
// cancelled.
void RespConnection::Drop() {
  if (dropped_) {
    return;
  }
  dropped_ = true;
  closing_ = true;
  for (const Slot& slot : slots_) {
    if (slot.tag != 0) {
      loop().Abandon(slot.tag);
    }
  }
  slots_.clear();
  for (const auto& [number, call] : async_) {
    loop().Abandon(call.tag);
  }
  async_.clear();
  ErrorOf ignored;
  socket_.close(ignored);
}

}  // namespace

void ServeRespConnection(server::Loop& loop, RespSocket&& socket, std::uint64_t id) {
  new RespConnection(loop, std::move(socket), id);
}

void RefuseRespConnection(RespSocket&& socket, const Error& error) {
  std::string text;
  RespWriter writer(text, 2);
  WriteError(error, writer);
  ErrorOf ignored;
  socket.write_some(boost::asio::buffer(text), ignored);
}

}  // namespace holdfast::gateway
