// What callers of the client see: plain structs that mirror the messages of proto/holdfast/v1. The
// API documents each field; here stands only what the client adds. Numeric values of the
// enumerations equal those of the API; a value that this build does not know becomes kUnspecified.
// Name() gives the upper-case name that the CLI prints.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/time.h"

namespace holdfast::client {

// --- shared ---

enum class Guarantee { kUnspecified, kAdvisory, kFenced };

enum class Cause {
  kUnspecified,
  kReleased,
  kExpired,
  kSessionClosed,
  kSessionExpired,
  kBroken,
  kUnconfirmed,
  kCancelled,
  kWaitTimedOut,
  kDetachedTooLong,
  kNamespaceDeleted,
  kHandedOver,
  kAcquired,
  kNeverHeld,
  kHoldLimit,
  kRevoking,
};

HOLDFAST_API const char* Name(Guarantee guarantee);
HOLDFAST_API const char* Name(Cause cause);

struct Holder {
  std::string owner;
  std::string principal;
  std::uint64_t fencing_token = 0;
  std::string lease_fp;
  Duration held_for{};
  Duration lease_left{};
  WallTime since{};  // for display
  bool provisional = false;
  bool revoking = false;
  std::string on_session_fp;
  std::map<std::string, std::string> metadata;
};

// Lets the service forget answered request ids early; filled by the client, see watermark.h.
struct ClientContext {
  std::string client_id;
  std::uint64_t sequence = 0;
  std::uint64_t answered_below = 0;
};

// --- locks ---
// In every request an empty `namespace_name` means the client's own (ClientOptions).

struct AcquireRequest {
  std::string namespace_name;
  std::string resource;
  // Empty: the client makes one and acknowledges it by watermark. Give one (NewRequestId()) to be
  // able to ask again from elsewhere.
  std::string request_id;
  std::string owner;
  std::optional<Duration> ttl;  // absent and without session: the namespace's default
  std::string session_id;       // excludes ttl
  Duration wait{};              // 0: try once
  std::map<std::string, std::string> metadata;
  std::optional<ClientContext> context;
};

struct Grant {
  std::string lease_id;
  std::uint64_t fencing_token = 0;
  Duration ttl{};
  Duration remaining{};
  bool provisional = false;  // renew before use
  Guarantee guarantee = Guarantee::kUnspecified;
  WallTime expires_at{};  // for display
  std::string lease_fp;
};

enum class RefusalCode {
  kUnspecified,
  kHeld,
  kWaitTimeout,
  kQueueFull,
  kTenantLimit,
  kDelayed,
  kCancelled,
  kAlreadyHeld,
  kAlreadyWaiting,
  kRequestIdReused,
  kEnded,
  kSessionEnded,
  kFencingRequired,
  kGrantsBlocked,
  kSuperseded,
  kStateFull,
};
HOLDFAST_API const char* Name(RefusalCode code);

struct Refusal {
  RefusalCode code = RefusalCode::kUnspecified;
  std::optional<Holder> holder;
  std::uint32_t queue_length = 0;
  std::optional<Duration> retry_after;
  Cause cause = Cause::kUnspecified;
  std::string limit;
};

struct AcquireResult {
  std::string resource;
  std::string request_id;
  std::variant<Refusal, Grant> outcome;
  // When the attempt that was answered was sent: `remaining` counts from here.
  BootTime sent_at{};

  const Grant* granted() const { return std::get_if<Grant>(&outcome); }
  const Refusal* refused() const { return std::get_if<Refusal>(&outcome); }
};

struct RenewRequest {
  std::string namespace_name;
  std::string resource;
  std::string lease_id;
};

struct Renewed {
  Duration ttl{};
  Duration remaining{};
};

struct NotRenewed {
  Cause cause = Cause::kUnspecified;
  Duration remaining{};  // kRevoking and kHoldLimit: still held for this long
  std::string reason;
};

struct RenewResult {
  std::string resource;
  std::variant<NotRenewed, Renewed> outcome;
  BootTime sent_at{};  // as in AcquireResult

  const Renewed* renewed() const { return std::get_if<Renewed>(&outcome); }
  const NotRenewed* not_renewed() const { return std::get_if<NotRenewed>(&outcome); }
};

struct ReleaseRequest {
  std::string namespace_name;
  std::string resource;
  std::string lease_id;
};

struct ReleaseResult {
  std::string resource;
  bool released = false;
  Cause cause = Cause::kUnspecified;
};

struct CancelRequest {
  std::string namespace_name;
  std::string resource;
  std::string request_id;
  std::string owner;  // as in the acquire
  std::optional<ClientContext> context;
};

enum class CancelOutcome {
  kUnspecified,
  kCancelledBeforeArrival,
  kWaiterRemoved,
  kProvisionalReleased,
  kStillGranted,
  kAlreadyOver,
  kNotYours,
  kMemoryFull,
};
HOLDFAST_API const char* Name(CancelOutcome outcome);

struct CancelResult {
  std::string resource;
  CancelOutcome outcome = CancelOutcome::kUnspecified;
};

enum class ResourceState { kUnspecified, kFree, kTaken, kInDelay };
HOLDFAST_API const char* Name(ResourceState state);

struct Waiter {
  std::string owner;
  std::string principal;
  Duration waiting_for{};
  Duration wait_left{};
  bool detached = false;
};

struct Transition {
  std::uint64_t index = 0;
  WallTime at{};
  Cause cause = Cause::kUnspecified;
  std::uint64_t fencing_token = 0;
  std::string owner;
  std::string reason;
};

struct DescribeResult {
  std::string resource;
  std::string namespace_name;
  ResourceState state = ResourceState::kUnspecified;
  std::optional<Holder> holder;
  Duration delay_left{};
  std::vector<Waiter> queue;
  std::uint32_t queue_length = 0;
  std::vector<Transition> transitions;
  Guarantee guarantee = Guarantee::kUnspecified;
  std::string value;
  std::uint64_t index = 0;
};

struct ListRequest {
  std::string namespace_name;
  std::string prefix;
  std::uint32_t page_size = 0;
  std::string page_token;
};

struct ListItem {
  std::string resource;
  ResourceState state = ResourceState::kUnspecified;
  std::optional<Holder> holder;
  std::uint32_t queue_length = 0;
};

struct ListResult {
  std::vector<ListItem> items;
  std::string next_page_token;
};

enum class TokenVerdict { kUnspecified, kCurrent, kOld, kNeverIssued };
HOLDFAST_API const char* Name(TokenVerdict verdict);

struct CheckTokenResult {
  TokenVerdict verdict = TokenVerdict::kUnspecified;
  bool current = false;
  std::uint64_t index = 0;
};

struct BreakRequest {
  std::string namespace_name;
  std::string resource;
  std::string reason;
  bool dry_run = false;
  bool now = false;
  bool unsafe = false;
};

enum class BreakOutcome {
  kUnspecified,
  kRevokingStarted,
  kEndedNow,
  kWouldBreak,
  kNotTaken,
  kUnsafeRefused,
};
HOLDFAST_API const char* Name(BreakOutcome outcome);

struct BreakResult {
  std::string resource;
  BreakOutcome outcome = BreakOutcome::kUnspecified;
  std::optional<Holder> holder;
  std::string next_owner;
};

struct WatchRequest {
  std::string namespace_name;
  std::string prefix;
  bool exact = false;
  std::uint64_t after_index = 0;
};

enum class WatchKind {
  kUnspecified,
  kGranted,
  kEnded,
  kRevoked,
  kWaiting,
  kWaiterLeft,
  kProclaimed,
  kConfirmed,
};
HOLDFAST_API const char* Name(WatchKind kind);

struct WatchEvent {
  std::uint64_t index = 0;
  WatchKind kind = WatchKind::kUnspecified;
  std::string resource;
  std::uint64_t fencing_token = 0;
  std::string owner;
  Cause cause = Cause::kUnspecified;
  std::string value;
  std::string reason;
  WallTime at{};
};

struct WatchGap {
  std::uint64_t index = 0;
};

struct WatchStarted {
  std::uint64_t index = 0;
};

using WatchItem = std::variant<WatchStarted, WatchGap, WatchEvent>;

// --- sessions ---

struct OpenSessionRequest {
  std::string namespace_name;
  std::string request_id;  // as in AcquireRequest
  std::string owner;
  std::optional<Duration> ttl;
  std::optional<ClientContext> context;
};

struct SessionOpened {
  std::string session_id;
  std::string session_fp;
  Duration ttl{};
  Duration remaining{};
};

enum class SessionRefusal {
  kUnspecified,
  kSessionLimit,
  kRequestIdReused,
  kEnded,
  kGrantsBlocked,
};
HOLDFAST_API const char* Name(SessionRefusal reason);

struct SessionRefused {
  SessionRefusal reason = SessionRefusal::kUnspecified;
  std::string limit;
};

struct OpenSessionResult {
  std::string request_id;
  std::variant<SessionRefused, SessionOpened> outcome;
  BootTime sent_at{};  // as in AcquireResult

  const SessionOpened* opened() const { return std::get_if<SessionOpened>(&outcome); }
  const SessionRefused* refused() const { return std::get_if<SessionRefused>(&outcome); }
};

struct KeepAliveRequest {
  std::string namespace_name;
  std::string session_id;
};

struct KeepAliveResult {
  bool alive = false;
  Duration remaining{};
  Cause cause = Cause::kUnspecified;
  std::uint64_t revocations = 0;
  BootTime sent_at{};  // as in AcquireResult
};

struct CloseSessionRequest {
  std::string namespace_name;
  std::string session_id;
};

struct CloseSessionResult {
  bool closed = false;
  Cause cause = Cause::kUnspecified;
};

struct SessionDescription {
  bool alive = false;
  std::string owner;
  Duration ttl{};
  Duration remaining{};
  std::uint32_t holds = 0;
  std::uint32_t waits = 0;
  Cause cause = Cause::kUnspecified;
};

// --- elections ---

struct CampaignRequest {
  AcquireRequest acquire;
  std::string value;
};

struct ProclaimRequest {
  std::string namespace_name;
  std::string resource;
  std::string lease_id;
  std::string value;
};

struct ProclaimResult {
  bool proclaimed = false;
  Cause cause = Cause::kUnspecified;
};

struct LeaderInfo {
  bool vacant = true;
  std::string value;
  std::uint64_t fencing_token = 0;
  std::string owner;
  WallTime since{};
  Duration lease_left{};
  std::uint64_t index = 0;
};

// --- administration ---

// Absent fields keep their value (set) or the default (create).
struct Policy {
  Guarantee protection = Guarantee::kUnspecified;  // kUnspecified: absent
  std::optional<bool> strict;
  std::optional<Duration> ttl_default;
  std::optional<Duration> ttl_min;
  std::optional<Duration> ttl_max;
  std::optional<Duration> hold_max;
  std::optional<Duration> wait_max;
  std::optional<std::uint32_t> waiters_per_resource;
  std::optional<std::uint32_t> waiters_per_tenant;
  std::optional<std::uint32_t> holds_per_tenant;
  std::optional<std::uint32_t> sessions_per_tenant;
  std::optional<Duration> lock_delay;
  std::optional<Duration> request_memory;
  std::optional<std::uint64_t> request_bytes_per_tenant;
  std::optional<Duration> detach_grace;
};

enum class NamespaceOutcome { kUnspecified, kOk, kNotFound, kExists, kNotEmpty, kLimit };
HOLDFAST_API const char* Name(NamespaceOutcome outcome);

struct NamespaceResult {
  NamespaceOutcome outcome = NamespaceOutcome::kUnspecified;
  std::string name;
  Policy policy;
};

struct FeatureLevelResult {
  std::uint32_t level = 0;
  bool accepted = false;
};

struct PeerStatus {
  std::string name;
  std::string address;  // for the other nodes
  std::string zone;
  bool alive = false;
  std::uint64_t index = 0;  // of its state, a moment ago
  std::uint64_t snapshot_index = 0;
};

struct EtcdStatus {
  std::string endpoint;
  bool answers = false;
  bool leads = false;
  std::string version;
  std::uint64_t db_bytes = 0;
  std::uint64_t db_bytes_in_use = 0;
  std::vector<std::string> reports;  // what it says of itself, such as an alarm
  std::string problem;               // why it does not answer, or must not be used
};

// What a replicated node knows of its cluster.
struct NodeStatus {
  std::string name;
  std::string leader;  // empty: nobody leads, as far as this node knows
  std::string leader_address;
  double phi = 0;  // of a standby: how sure it is that the leader is gone; it acts at 8
  bool etcd_answers = false;
  std::uint64_t takeovers = 0;
  std::uint64_t unknown_appends = 0;
  std::uint64_t relists = 0;
  std::vector<PeerStatus> nodes;
  std::vector<EtcdStatus> etcd;
  std::uint64_t etcd_quota_bytes = 0;
  bool etcd_full = false;  // nothing new is granted, before the quota is reached
};

struct ServiceStatus {
  std::string version;
  std::string role;
  std::uint64_t index = 0;
  std::uint64_t epoch = 0;
  Duration state_time{};
  std::uint32_t feature_level = 0;
  std::uint64_t fencing_token = 0;
  std::uint64_t resources = 0;
  std::uint64_t holds = 0;
  std::uint64_t waiters = 0;
  std::uint64_t sessions = 0;
  std::uint64_t request_ids = 0;
  std::uint64_t snapshot_index = 0;
  Duration snapshot_age{};
  std::uint64_t journal_first_index = 0;
  std::uint64_t queue_depth = 0;
  Duration uptime{};
  Duration expiry_lag{};
  Duration grants_blocked_for{};
  std::uint64_t batches = 0;
  std::uint64_t operations = 0;
  std::uint64_t syncs = 0;
  bool accepting_writes = false;
  std::uint64_t shadow_lag = 0;
  Duration recommended_ttl_min{};
  std::optional<NodeStatus> node;  // absent when embedded
};

// One of the busiest resources; its counts fade (admin.proto says how).
struct HotResource {
  std::string namespace_name;
  std::string resource;
  std::uint64_t operations = 0;
  std::uint64_t error = 0;  // `operations` may be too high by so much
  std::uint64_t acquires = 0;
  std::uint64_t waits = 0;
};

struct HotResources {
  std::vector<HotResource> resources;  // busiest first
  std::uint64_t operations = 0;        // of all resources
  std::uint64_t error_max = 0;
  Duration window{};  // a count divided by it is a rate
};

}  // namespace holdfast::client
