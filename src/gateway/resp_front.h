// The RESP front: native verbs over the Redis protocol, on one thread of its own. The fast path:
// everything that one turn of its loop read goes to the engine as one batch, and what the batch
// answered goes out with one write for each connection.
#pragma once

#include <memory>
#include <string>

#include "holdfast/result.h"
#include "server/front_handle.h"

namespace holdfast::gateway {

// Listens on the configuration's `resp_listen`. kUnavailable when it cannot. Plain TCP: an address
// that other machines reach needs `insecure`, which CheckConfig has seen to.
Result<std::unique_ptr<server::FrontHandle>> StartRespFront(const server::FrontContext& context,
                                                            const std::string& listen);

}  // namespace holdfast::gateway
