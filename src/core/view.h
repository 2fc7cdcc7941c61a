// Queries and their answers. A query never changes the state and is never journaled; the engine
// answers it at a state that is no older than the query's arrival (docs/ARCHITECTURE.md, "Reads").
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/outcome.h"

namespace holdfast::core {

struct Describe {
  std::string name_space;
  std::string resource;
};
struct List {
  std::string name_space;
  std::string prefix;
  std::uint32_t page_size = 0;  // 0: 100
  std::string after;            // the last resource of the page before; empty: from the start
};
struct CheckToken {
  std::string name_space;
  std::string resource;
  Token token = 0;
};
struct Leader {
  std::string name_space;
  std::string resource;
};
struct DescribeSession {
  std::string name_space;
  Id128 session_id{};
};
struct GetNamespace {
  std::string name;
};
struct ListNamespaces {};
struct GetCounts {};

using Query = std::variant<Describe, List, CheckToken, Leader, DescribeSession, GetNamespace,
                           ListNamespaces, GetCounts>;

enum class ResourceState : std::uint8_t { kFree = 1, kTaken = 2, kDelayed = 3 };

const char* ResourceStateName(ResourceState state);  // "TAKEN"

struct WaiterView {
  std::string owner;
  std::string principal;
  Duration waiting_for{};
  Duration wait_left{};
  bool detached = false;
};

struct TransitionView {
  std::uint64_t index = 0;
  WallTime at{};
  Cause cause = Cause::kNone;
  Token token = 0;
  std::string owner;
  std::string reason;
};

struct ResourceView {
  std::string resource;
  ResourceState state = ResourceState::kFree;
  std::unique_ptr<HolderView> holder;
  Duration delay_left{};
  std::uint32_t queue_length = 0;
  std::vector<WaiterView> queue;            // Describe only
  std::vector<TransitionView> transitions;  // Describe only; newest first
  Guarantee guarantee = Guarantee::kAdvisory;
  std::string value;
};

struct ListView {
  std::vector<ResourceView> items;
  bool more = false;
  std::string last;  // with `more`: go on after this resource
};

enum class TokenVerdict : std::uint8_t { kCurrent = 1, kOld = 2, kNeverIssued = 3 };

const char* TokenVerdictName(TokenVerdict verdict);  // "CURRENT"

struct TokenView {
  TokenVerdict verdict = TokenVerdict::kOld;
};

struct LeaderView {
  bool vacant = true;
  std::string value;
  Token token = 0;
  std::string owner;
  WallTime since{};
  Duration left{};
};

struct SessionView {
  bool alive = false;
  std::string owner;
  Duration ttl{};
  Duration remaining{};
  std::uint32_t holds = 0;
  std::uint32_t waits = 0;
  Cause cause = Cause::kNone;
};

struct NamespaceView {
  NamespaceResult result = NamespaceResult::kOk;
  std::string name;
  Policy policy;
};

struct NamespacesView {
  std::vector<NamespaceView> namespaces;
};

// The size of the state, for status and metrics.
struct CountsView {
  std::uint64_t resources = 0;
  std::uint64_t holds = 0;
  std::uint64_t waiters = 0;
  std::uint64_t sessions = 0;
  std::uint64_t request_ids = 0;
  Token last_token = 0;
  Timestamp time{};
  std::uint32_t feature_level = 0;
  Duration expiry_lag{};          // age of the oldest due deadline that has not been processed
  Duration grants_blocked_for{};  // after a recovery with lost state
};

using View = std::variant<ResourceView, ListView, TokenView, LeaderView, SessionView, NamespaceView,
                          NamespacesView, CountsView, NoSuchNamespace>;

}  // namespace holdfast::core
