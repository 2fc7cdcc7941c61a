#include "exec/link.h"

#include <array>
#include <cerrno>
#include <system_error>

#include <sys/socket.h>
#include <unistd.h>

namespace holdfast::exec {

File& File::operator=(File&& other) noexcept {
  if (this != &other) {
    Close();
    number_ = std::exchange(other.number_, -1);
  }
  return *this;
}

File::~File() {
  Close();
}

void File::Close() {
  if (number_ >= 0) {
    close(std::exchange(number_, -1));
  }
}

Result<LinkEnds> MakeLink() {
  std::array<int, 2> files{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, files.data()) != 0) {
    return Error{ErrorCode::kIo, "socketpair: " + std::generic_category().message(errno), {}, {}};
  }
  return LinkEnds{.wrapper = File(files[0]), .supervisor = File(files[1])};
}

bool SendBytes(int file, const void* message, std::size_t size) {
  ssize_t sent = 0;
  do {
    sent = send(file, message, size, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(size);
}

Received ReceiveBytes(int file, void* message, std::size_t size) {
  ssize_t got = 0;
  do {
    got = recv(file, message, size, MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
    return Received::kNothing;
  }
  return got == static_cast<ssize_t>(size) ? Received::kMessage : Received::kGone;
}

}  // namespace holdfast::exec
