// Between the journal's plain structs and etcd's messages, and from gRPC's status codes to how
// much is known of a transaction that has no result. Pure; any thread.
#pragma once

#include <string>

#include "journal/etcd_wire.h"

namespace grpc {
class Status;
}
namespace etcdserverpb {
class TxnRequest;
class TxnResponse;
class WatchResponse;
}  // namespace etcdserverpb

namespace holdfast::etcd {

namespace wire = journal::etcd;

etcdserverpb::TxnRequest RequestOf(const wire::Txn& txn);
wire::TxnResult ResultOf(etcdserverpb::TxnResponse&& response);
wire::WatchChanges ChangesOf(etcdserverpb::WatchResponse&& response);

// Only what etcd says before it proposes a transaction is known to have done nothing. A full store
// is not: it may answer so after it has applied the transaction (etcd issue 16659).
wire::Failure FailureOf(const grpc::Status& status);

// Why this version of etcd cannot be used, or empty. 3.5.0 to 3.5.2 lose committed entries.
std::string WhyRefused(const std::string& version);
// What an operator should know about this version, or empty.
std::string WhyOld(const std::string& version);

}  // namespace holdfast::etcd
