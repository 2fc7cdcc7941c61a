// The stored fields of each command, in order. Append only; a change of meaning needs a new feature
// level. The tag of a command in a batch is its place in core::CommandBody, from 1.
#pragma once

#include "base/archive.h"
#include "core/command.h"
#include "core/resource.h"

namespace holdfast::core {

template <typename A>
void Archive(A& a, ClientContext& c) {
  a(c.client_id, c.sequence, c.answered_below);
}
template <typename A>
void Archive(A& a, Acquire& c) {
  a(c.resource, c.request_id, c.owner, c.ttl, c.session, c.wait, c.metadata, c.campaign, c.value,
    c.client, c.lease_id);
}
template <typename A>
void Archive(A& a, Renew& c) {
  a(c.resource, c.lease_id);
}
template <typename A>
void Archive(A& a, Release& c) {
  a(c.resource, c.lease_id);
}
template <typename A>
void Archive(A& a, Cancel& c) {
  a(c.resource, c.request_id, c.owner, c.client);
}
template <typename A>
void Archive(A& a, Detach& c) {
  a(c.waiter, c.attachment);
}
template <typename A>
void Archive(A& a, Break& c) {
  a(c.resource, c.reason, c.dry_run, c.now, c.unsafe);
}
template <typename A>
void Archive(A& a, Proclaim& c) {
  a(c.resource, c.lease_id, c.value);
}
template <typename A>
void Archive(A& a, OpenSession& c) {
  a(c.request_id, c.owner, c.ttl, c.client, c.session_id);
}
template <typename A>
void Archive(A& a, KeepAlive& c) {
  a(c.session_id);
}
template <typename A>
void Archive(A& a, CloseSession& c) {
  a(c.session_id);
}
template <typename A>
void Archive(A& a, ChangeNamespace& c) {
  a(c.verb, c.name, c.patch);
}
template <typename A>
void Archive(A& a, EpochStart& c) {
  a(c.epoch, c.grace);
}
template <typename A>
void Archive(A& a, SetFeatureLevel& c) {
  a(c.level);
}
template <typename A>
void Archive(A& a, RecoverState& c) {
  a(c.token_floor, c.block);
}

}  // namespace holdfast::core
