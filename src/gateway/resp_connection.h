// One client of the RESP front: reads commands, gives them to the loop, answers in order.
#pragma once

#include <boost/asio/ip/tcp.hpp>

#include "server/loop.h"

namespace holdfast::gateway {

// Owns itself (server/call.h). The loop has admitted it. `id`: for humans.
void ServeRespConnection(server::Loop& loop, boost::asio::ip::tcp::socket socket, std::uint64_t id);
// Answers with an error and closes.
void RefuseRespConnection(boost::asio::ip::tcp::socket socket, const Error& error);

}  // namespace holdfast::gateway
