#include "gateway/resp_verbs.h"

#include <algorithm>
#include <utility>

#include "core/validate.h"
#include "gateway/resp_arguments.h"

namespace holdfast::gateway {
namespace {

using server::Access;

constexpr const char* kDefaultNamespace = "default";

// Options that several verbs share.
struct Common {
  std::string name_space = kDefaultNamespace;

  bool Take(ArgumentReader& reader) {
    if (reader.Take("NAMESPACE")) {
      name_space = std::string(reader.Text("namespace"));
      return true;
    }
    return false;
  }
};

core::ClientContext ReadClient(ArgumentReader& reader) {
  core::ClientContext client;
  client.client_id = std::string(reader.Text("client_id"));
  client.sequence = reader.Number("sequence");
  client.answered_below = reader.Number("answered_below");
  return client;
}

Duration ReadTtl(ArgumentReader& reader) {
  const Duration ttl = reader.Time("ttl");
  if (reader.status().ok() && ttl == Duration{}) {
    reader.Fail(InvalidArgument("ttl", "more than 0; leave it out for the namespace's default",
                                "ttl is 0"));
  }
  return ttl;
}

bool TakeAcquireOption(ArgumentReader& reader, core::Acquire& acquire) {
  if (reader.Take("TTL")) {
    acquire.ttl = ReadTtl(reader);
  } else if (reader.Take("WAIT")) {
    acquire.wait = reader.Time("wait");
  } else if (reader.Take("OWNER")) {
    acquire.owner = std::string(reader.Text("owner"));
  } else if (reader.Take("REQUEST")) {
    acquire.request_id = std::string(reader.Text("request_id"));
  } else if (reader.Take("SESSION")) {
    acquire.session = reader.Id("session_id");
  } else if (reader.Take("META")) {
    const std::string key(reader.Text("metadata"));
    acquire.metadata.push_back({key, std::string(reader.Text("metadata"))});
  } else if (reader.Take("CLIENT")) {
    acquire.client = ReadClient(reader);
  } else {
    return false;
  }
  return true;
}

template <bool kCampaign>
Result<RespRequest> ReadAcquire(ArgumentReader& reader, const std::string& principal) {
  Common common;
  RespRequest call;
  core::Acquire acquire;
  acquire.resource = std::string(reader.Text("resource"));
  acquire.campaign = kCampaign;
  while (!reader.AtEnd()) {
    if (reader.Take("ASYNC")) {
      call.async = true;
    } else if (kCampaign && reader.Take("VALUE")) {
      acquire.value = std::string(reader.Text("value"));
    } else if (!common.Take(reader) && !TakeAcquireOption(reader, acquire)) {
      reader.ExpectEnd();
    }
  }
  if (acquire.ttl != Duration{} && !IsZero(acquire.session)) {
    reader.Fail(InvalidArgument("ttl", "absent where a session is given",
                                "TTL and SESSION exclude each other"));
  }
  if (acquire.request_id.empty()) {
    acquire.request_id = ToHex(RandomId());
  }
  std::sort(acquire.metadata.begin(), acquire.metadata.end(),
            [](const auto& a, const auto& b) { return a.key < b.key; });
  call.request_id = acquire.request_id;
  call.waits = acquire.wait > Duration{};
  auto request =
      reader.Finish(core::Command{principal, std::move(common.name_space), std::move(acquire)});
  if (!request.ok()) {
    return request.error();
  }
  call.request = std::move(*request);
  return call;
}

Result<RespRequest> ReadOpenSession(ArgumentReader& reader, const std::string& principal) {
  Common common;
  RespRequest call;
  core::OpenSession open;
  while (!reader.AtEnd()) {
    if (reader.Take("TTL")) {
      open.ttl = ReadTtl(reader);
    } else if (reader.Take("OWNER")) {
      open.owner = std::string(reader.Text("owner"));
    } else if (reader.Take("REQUEST")) {
      open.request_id = std::string(reader.Text("request_id"));
    } else if (reader.Take("CLIENT")) {
      open.client = ReadClient(reader);
    } else if (!common.Take(reader)) {
      reader.ExpectEnd();
    }
  }
  if (open.request_id.empty()) {
    open.request_id = ToHex(RandomId());
  }
  call.request_id = open.request_id;
  auto request =
      reader.Finish(core::Command{principal, std::move(common.name_space), std::move(open)});
  if (!request.ok()) {
    return request.error();
  }
  call.request = std::move(*request);
  return call;
}

// `option` takes one option of the verb's own, or says false.
template <typename Option>
std::string ReadOptions(ArgumentReader& reader, const Option& option) {
  Common common;
  while (!reader.AtEnd()) {
    if (!common.Take(reader) && !option()) {
      reader.ExpectEnd();
    }
  }
  return common.name_space;
}

std::string ReadOptions(ArgumentReader& reader) {
  return ReadOptions(reader, [] { return false; });
}

// Renew or Release.
template <typename Body>
Result<EngineRequest> ReadLease(ArgumentReader& reader, const std::string& principal) {
  Body body;
  body.resource = std::string(reader.Text("resource"));
  body.lease_id = reader.Id("lease_id");
  const std::string name_space = ReadOptions(reader);
  return reader.Finish(core::Command{principal, name_space, std::move(body)});
}

Result<EngineRequest> ReadProclaim(ArgumentReader& reader, const std::string& principal) {
  core::Proclaim proclaim;
  proclaim.resource = std::string(reader.Text("resource"));
  proclaim.lease_id = reader.Id("lease_id");
  proclaim.value = std::string(reader.Text("value"));
  const std::string name_space = ReadOptions(reader);
  return reader.Finish(core::Command{principal, name_space, std::move(proclaim)});
}

Result<EngineRequest> ReadCancel(ArgumentReader& reader, const std::string& principal) {
  core::Cancel cancel;
  cancel.resource = std::string(reader.Text("resource"));
  cancel.request_id = std::string(reader.Text("request_id"));
  const std::string name_space = ReadOptions(reader, [&] {
    if (reader.Take("OWNER")) {
      cancel.owner = std::string(reader.Text("owner"));
    } else if (reader.Take("CLIENT")) {
      cancel.client = ReadClient(reader);
    } else {
      return false;
    }
    return true;
  });
  return reader.Finish(core::Command{principal, name_space, std::move(cancel)});
}

Result<EngineRequest> ReadBreak(ArgumentReader& reader, const std::string& principal) {
  core::Break command;
  command.resource = std::string(reader.Text("resource"));
  const std::string name_space = ReadOptions(reader, [&] {
    if (reader.Take("REASON")) {
      command.reason = std::string(reader.Text("reason"));
    } else if (reader.Take("DRYRUN")) {
      command.dry_run = true;
    } else if (reader.Take("NOW")) {
      command.now = true;
    } else if (reader.Take("UNSAFE")) {
      command.unsafe = true;
    } else {
      return false;
    }
    return true;
  });
  return reader.Finish(core::Command{principal, name_space, std::move(command)});
}

// KeepAlive or CloseSession.
template <typename Body>
Result<EngineRequest> ReadSession(ArgumentReader& reader, const std::string& principal) {
  const Id128 id = reader.Id("session_id");
  const std::string name_space = ReadOptions(reader);
  return reader.Finish(core::Command{principal, name_space, Body{id}});
}

Result<EngineRequest> ReadDescribeSession(ArgumentReader& reader,
                                          const std::string& /*principal*/) {
  const Id128 id = reader.Id("session_id");
  const std::string name_space = ReadOptions(reader);
  return reader.Finish(core::Query(core::DescribeSession{name_space, id}));
}

Result<EngineRequest> ReadList(ArgumentReader& reader, const std::string& /*principal*/) {
  core::List list;
  const std::string name_space = ReadOptions(reader, [&] {
    if (reader.Take("PREFIX")) {
      list.prefix = std::string(reader.Text("prefix"));
    } else if (reader.Take("LIMIT")) {
      list.page_size = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(reader.Number("page_size"), UINT32_MAX));
    } else if (reader.Take("AFTER")) {
      list.after = std::string(reader.Text("after"));
    } else {
      return false;
    }
    return true;
  });
  list.name_space = name_space;
  return reader.Finish(core::Query(std::move(list)));
}

// Describe or Leader.
template <typename Query>
Result<EngineRequest> ReadLook(ArgumentReader& reader, const std::string& /*principal*/) {
  const std::string resource(reader.Text("resource"));
  const std::string name_space = ReadOptions(reader);
  return reader.Finish(core::Query(Query{name_space, resource}));
}

Result<EngineRequest> ReadCheck(ArgumentReader& reader, const std::string& /*principal*/) {
  const std::string resource(reader.Text("resource"));
  const std::uint64_t token = reader.Number("fencing_token");
  const std::string name_space = ReadOptions(reader);
  return reader.Finish(core::Query(core::CheckToken{name_space, resource, token}));
}

// A call without a request id, which never waits.
template <Result<EngineRequest> (*kRead)(ArgumentReader&, const std::string&)>
Result<RespRequest> Plain(ArgumentReader& reader, const std::string& principal) {
  auto request = kRead(reader, principal);
  if (!request.ok()) {
    return request.error();
  }
  RespRequest call;
  call.request = std::move(*request);
  return call;
}

}  // namespace

const std::vector<RespVerb>& AllVerbs() {
  static constexpr const char* kAcquireUsage =
      "name [TTL ms | SESSION id] [WAIT ms] [ASYNC] [OWNER o] [REQUEST id] [META key value ...] "
      "[CLIENT id sequence answered_below] [NAMESPACE ns]";
  // The most frequent first: it is searched in this order.
  static const std::vector<RespVerb> verbs = {
      {"HOLDFAST.ACQUIRE", Access::kUser, kAcquireUsage, 1, ReadAcquire<false>},
      {"HOLDFAST.RELEASE", Access::kUser, "name lease_id [NAMESPACE ns]", 2,
       Plain<ReadLease<core::Release>>},
      {"HOLDFAST.RENEW", Access::kUser, "name lease_id [NAMESPACE ns]", 2,
       Plain<ReadLease<core::Renew>>},
      {"HOLDFAST.CANCEL", Access::kUser,
       "name request_id [OWNER o] [CLIENT id sequence answered_below] [NAMESPACE ns]", 2,
       Plain<ReadCancel>},
      {"HOLDFAST.DESCRIBE", Access::kUser, "name [NAMESPACE ns]", 1,
       Plain<ReadLook<core::Describe>>},
      {"HOLDFAST.LIST", Access::kUser, "[PREFIX p] [LIMIT n] [AFTER name] [NAMESPACE ns]", 0,
       Plain<ReadList>},
      {"HOLDFAST.CHECK", Access::kUser, "name fencing_token [NAMESPACE ns]", 2, Plain<ReadCheck>},
      {"HOLDFAST.BREAK", Access::kAdmin, "name REASON text [DRYRUN] [NOW] [UNSAFE] [NAMESPACE ns]",
       1, Plain<ReadBreak>},
      {"HOLDFAST.SESSION.OPEN", Access::kUser,
       "[TTL ms] [OWNER o] [REQUEST id] [CLIENT id sequence answered_below] [NAMESPACE ns]", 0,
       ReadOpenSession},
      {"HOLDFAST.SESSION.KEEPALIVE", Access::kUser, "session_id [NAMESPACE ns]", 1,
       Plain<ReadSession<core::KeepAlive>>},
      {"HOLDFAST.SESSION.CLOSE", Access::kUser, "session_id [NAMESPACE ns]", 1,
       Plain<ReadSession<core::CloseSession>>},
      {"HOLDFAST.SESSION.DESCRIBE", Access::kUser, "session_id [NAMESPACE ns]", 1,
       Plain<ReadDescribeSession>},
      {"HOLDFAST.CAMPAIGN", Access::kUser, "name VALUE v, then as HOLDFAST.ACQUIRE", 1,
       ReadAcquire<true>},
      {"HOLDFAST.PROCLAIM", Access::kUser, "name lease_id value [NAMESPACE ns]", 3,
       Plain<ReadProclaim>},
      {"HOLDFAST.RESIGN", Access::kUser, "name lease_id [NAMESPACE ns]", 2,
       Plain<ReadLease<core::Release>>},
      {"HOLDFAST.LEADER", Access::kUser, "name [NAMESPACE ns]", 1, Plain<ReadLook<core::Leader>>},
  };
  return verbs;
}

const RespVerb* FindVerb(std::string_view name) {
  for (const RespVerb& verb : AllVerbs()) {
    if (EqualsIgnoringCase(name, verb.name)) {
      return &verb;
    }
  }
  return nullptr;
}

Result<RespRequest> ReadCall(const RespVerb& verb, const std::vector<std::string_view>& arguments,
                             const std::string& principal) {
  if (arguments.size() < verb.positional) {
    return InvalidArgument(
        "arguments", verb.usage,
        std::string("wrong number of arguments, usage: ") + verb.name + " " + verb.usage);
  }
  ArgumentReader reader(arguments);
  Result<RespRequest> call = verb.read(reader, principal);
  if (call.ok()) {
    call->verb = &verb;
  }
  return call;
}

Result<WatchCall> ReadWatchCall(const std::vector<std::string_view>& arguments) {
  ArgumentReader reader(arguments);
  WatchCall call;
  call.filter.name_space = ReadOptions(reader, [&] {
    if (reader.Take("PREFIX")) {
      call.filter.prefix = std::string(reader.Text("prefix"));
    } else if (reader.Take("EXACT")) {
      call.filter.prefix = std::string(reader.Text("resource"));
      call.filter.exact = true;
    } else if (reader.Take("AFTER")) {
      call.after_index = reader.Number("after_index");
    } else {
      return false;
    }
    return true;
  });
  if (call.filter.exact && reader.status().ok()) {
    if (const Status named = core::ValidateResource(call.filter.prefix); !named.ok()) {
      return named.error();
    }
  }
  // A prefix of a watch obeys the rules of a prefix of a list.
  const auto checked = reader.Finish(core::Query(core::List{.name_space = call.filter.name_space,
                                                            .prefix = call.filter.prefix,
                                                            .page_size = 0,
                                                            .after = {}}));
  if (!checked.ok()) {
    return checked.error();
  }
  return call;
}

}  // namespace holdfast::gateway
