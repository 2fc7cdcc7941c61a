// Every bound of the core. Policies (policy.h) are bounds that an administrator may set within
// these.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace holdfast::core {

// Identifiers and texts, in bytes.
inline constexpr std::size_t kResourceBytesMax = 255;
inline constexpr std::size_t kNamespaceBytesMax = 63;
inline constexpr std::size_t kRequestIdBytesMax = 64;
inline constexpr std::size_t kClientIdBytesMax = 64;
inline constexpr std::size_t kOwnerBytesMax = 128;
inline constexpr std::size_t kPrincipalBytesMax = 255;
inline constexpr std::size_t kMetadataBytesMax = 1024;
inline constexpr std::size_t kMetadataEntriesMax = 16;
inline constexpr std::size_t kValueBytesMax = 1024;
inline constexpr std::size_t kReasonBytesMax = 256;

// Tokens stay exact in a JSON number, though JSON carries them as strings.
inline constexpr std::uint64_t kTokenMax = (std::uint64_t{1} << 53U) - 1;

// Tables.
inline constexpr std::size_t kNamespacesMax = 1024;
inline constexpr std::size_t kTenantsMax = std::size_t{1} << 17U;
inline constexpr std::size_t kResourcesMax =
    std::size_t{1} << 22U;  // held, delayed, waited for, or with a history
inline constexpr std::size_t kSessionsMax = std::size_t{1} << 20U;
inline constexpr std::size_t kEndedSessionsMax = std::size_t{1}
                                                 << 16U;  // remembered to say how they ended
inline constexpr std::size_t kTransitionsMax =
    std::size_t{1} << 18U;  // of all resources together, oldest forgotten
inline constexpr std::size_t kTransitionsShown = 16;
inline constexpr std::size_t kTransitionsSearched = 256;  // of one resource, for how a lease ended
inline constexpr std::size_t kWaitersShown = 100;
inline constexpr std::size_t kListPageMax = 1000;

// Work of one batch beyond its commands: expiries, session drains, forgotten request ids.
inline constexpr std::size_t kDuePerBatchMax = 4096;

// A grant out of a queue lives this long unless it is renewed.
inline constexpr Duration kProvisionalMax = Seconds(5);

// State time moves at most this far in one batch; what exceeds it is lost for ever.
inline constexpr Duration kTimeStepMax = Seconds(1);

// After a recovery with lost state: at least the longest ttl and lock-delay that a policy can
// allow.
inline constexpr Duration kGrantsBlockedMax = Seconds(172'800);

// Epoch starts that the grace floor looks back on. When there are more within two graces, which is
// a crash loop, the two oldest become one interval: floors then reach a little further, never less
// far.
inline constexpr std::size_t kEpochStartsKept = 64;

// What this build can apply. A log that asks for more is not opened.
inline constexpr std::uint32_t kFeatureLevelMax = 1;

}  // namespace holdfast::core
