// One client of the RESP front: reads commands, gives them to the loop, answers in order.
#pragma once

#include <cstdint>

#include "server/loop.h"

namespace boost::asio {
class any_io_executor;
template <typename Protocol, typename Executor>
class basic_stream_socket;
namespace ip {
class tcp;
}
}  // namespace boost::asio

namespace holdfast::gateway {

// boost::asio::ip::tcp::socket
using RespSocket =
    boost::asio::basic_stream_socket<boost::asio::ip::tcp, boost::asio::any_io_executor>;

// Owns itself (server/call.h). The loop has admitted it. `id`: for humans.
void ServeRespConnection(server::Loop& loop, RespSocket&& socket, std::uint64_t id);
// Answers with an error and closes.
void RefuseRespConnection(RespSocket&& socket, const Error& error);

}  // namespace holdfast::gateway
