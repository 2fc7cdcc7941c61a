#include "etcd/convert.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <tuple>
#include <utility>

#include <grpcpp/support/status.h>

#include "etcdserverpb/rpc.pb.h"

namespace holdfast::etcd {
namespace {

void Fill(const wire::Operation& operation, etcdserverpb::RequestOp& out) {
  if (const auto* put = std::get_if<wire::Put>(&operation); put != nullptr) {
    out.mutable_request_put()->set_key(put->key);
    out.mutable_request_put()->set_value(put->value);
  } else if (const auto* get = std::get_if<wire::Get>(&operation); get != nullptr) {
    etcdserverpb::RangeRequest& range = *out.mutable_request_range();
    range.set_key(get->key);
    range.set_range_end(get->end);
    range.set_limit(get->limit);
    range.set_keys_only(get->keys_only);
  } else {
    const auto& removed = std::get<wire::Delete>(operation);
    out.mutable_request_delete_range()->set_key(removed.key);
    out.mutable_request_delete_range()->set_range_end(removed.end);
  }
}

wire::KeyValue PairOf(etcdserverpb::KeyValue& pair) {
  return {std::move(*pair.mutable_key()), std::move(*pair.mutable_value()), pair.create_revision(),
          pair.mod_revision()};
}

std::tuple<int, int, int> Parse(const std::string& version) {
  std::array<int, 3> parts{};
  if (std::sscanf(version.c_str(), "%d.%d.%d", &parts[0], &parts[1], &parts[2]) < 2) {
    return {0, 0, 0};
  }
  return {parts[0], parts[1], parts[2]};
}

ErrorCode CodeOf(grpc::StatusCode code) {
  if (code == grpc::StatusCode::UNAUTHENTICATED) {
    return ErrorCode::kUnauthenticated;
  }
  if (code == grpc::StatusCode::PERMISSION_DENIED) {
    return ErrorCode::kPermissionDenied;
  }
  return code == grpc::StatusCode::DEADLINE_EXCEEDED ? ErrorCode::kDeadlineExceeded
                                                     : ErrorCode::kUnavailable;
}

bool RefusedBeforeProposal(const grpc::Status& status) {
  constexpr std::array kRefusals{
      grpc::StatusCode::INVALID_ARGUMENT, grpc::StatusCode::PERMISSION_DENIED,
      grpc::StatusCode::UNAUTHENTICATED,  grpc::StatusCode::FAILED_PRECONDITION,
      grpc::StatusCode::OUT_OF_RANGE,     grpc::StatusCode::UNIMPLEMENTED,
  };
  if (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) {
    return status.error_message().find("database space exceeded") == std::string::npos;
  }
  return std::find(kRefusals.begin(), kRefusals.end(), status.error_code()) != kRefusals.end();
}

}  // namespace

etcdserverpb::TxnRequest RequestOf(const wire::Txn& txn) {
  etcdserverpb::TxnRequest request;
  for (const wire::Guard& guard : txn.guards) {
    etcdserverpb::Compare& compare = *request.add_compare();
    compare.set_result(etcdserverpb::Compare::EQUAL);
    compare.set_key(guard.key);
    if (guard.of == wire::Guard::Of::kCreated) {
      compare.set_target(etcdserverpb::Compare::CREATE);
      compare.set_create_revision(guard.revision);
    } else {
      compare.set_target(etcdserverpb::Compare::MOD);
      compare.set_mod_revision(guard.revision);
    }
  }
  for (const wire::Operation& operation : txn.then) {
    Fill(operation, *request.add_success());
  }
  for (const wire::Operation& operation : txn.otherwise) {
    Fill(operation, *request.add_failure());
  }
  return request;
}

wire::TxnResult ResultOf(etcdserverpb::TxnResponse&& response) {
  wire::TxnResult result;
  result.cluster_id = response.header().cluster_id();
  result.revision = response.header().revision();
  result.succeeded = response.succeeded();
  for (etcdserverpb::ResponseOp& operation : *response.mutable_responses()) {
    std::vector<wire::KeyValue>& pairs = result.gets.emplace_back();
    if (operation.has_response_range()) {
      for (etcdserverpb::KeyValue& pair : *operation.mutable_response_range()->mutable_kvs()) {
        pairs.push_back(PairOf(pair));
      }
    }
  }
  return result;
}

wire::WatchChanges ChangesOf(etcdserverpb::WatchResponse&& response) {
  wire::WatchChanges changes;
  changes.cluster_id = response.header().cluster_id();
  changes.revision = response.header().revision();
  for (etcdserverpb::Event& event : *response.mutable_events()) {
    changes.changes.push_back(
        {event.type() == etcdserverpb::Event::DELETE, PairOf(*event.mutable_kv())});
  }
  return changes;
}

wire::Failure FailureOf(const grpc::Status& status) {
  if (status.error_code() == grpc::StatusCode::DATA_LOSS) {
    return {wire::Certainty::kFatal,
            Error{ErrorCode::kCorrupt, "etcd reports damage: " + status.error_message(), {}, {}}};
  }
  return {RefusedBeforeProposal(status) ? wire::Certainty::kNothingDone : wire::Certainty::kUnknown,
          Error{CodeOf(status.error_code()), "etcd: " + status.error_message(), {}, {}}};
}

std::string WhyRefused(const std::string& version) {
  const auto [major, minor, patch] = Parse(version);
  if (major == 3 && minor == 5 && patch <= 2) {
    return "etcd " + version + " can lose committed entries; use 3.5.3 or later";
  }
  if (major < 3 || (major == 3 && minor < 4)) {
    return "etcd " + version + " is too old; use 3.4.22 or later";
  }
  return {};
}

std::string WhyOld(const std::string& version) {
  const auto [major, minor, patch] = Parse(version);
  const bool old = major == 3 && ((minor == 4 && patch < 42) || (minor == 5 && patch < 28) ||
                                  (minor == 6 && patch < 9));
  return old ? "etcd " + version +
                   " has known faults in watches and reads, which Holdfast works around; "
                   "3.4.42, 3.5.28 and 3.6.9 have them mended"
             : std::string();
}

}  // namespace holdfast::etcd
